"""Simulation of workloads on a virtual clock."""

from drfh.simulation.result import RUN_FILE, Result
from drfh.simulation.run import Progress, simulate

__all__ = ["RUN_FILE", "Progress", "Result", "simulate"]
