"""Verbs on live clusters that all engines share: run, record, status, audit, replay, live view."""
