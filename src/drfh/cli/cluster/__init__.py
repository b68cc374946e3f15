"""Verbs on live clusters that all engines share: status, audit, replay, live view."""
