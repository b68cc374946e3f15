"""Solver parts shared by the mechanisms."""
