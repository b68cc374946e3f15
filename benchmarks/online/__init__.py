"""Instances, rivals and our own runs of the online benchmarks."""
