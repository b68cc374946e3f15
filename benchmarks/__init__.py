"""Benchmarks: us and a named rival on the same work in one run, as ratios."""
