"""The state of one explorer tab: workbook, steps, answers, links."""
