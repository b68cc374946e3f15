"""Journals of live clusters: format, reading, writing, replay."""
