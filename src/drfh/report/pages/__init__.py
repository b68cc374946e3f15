"""Offline HTML pages."""
