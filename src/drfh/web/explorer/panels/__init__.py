"""Panels of the explorer, one tab each."""
