"""Fairness properties: one check function each."""
