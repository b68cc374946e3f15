"""The reproduction of the paper's evaluation: runs, tables and claims."""

from __future__ import annotations

from drfh.experiments.claims import Claim
from drfh.experiments.reproduction import Reproduction, recompute, reproduce
from drfh.experiments.setup import Setup

__all__ = ["Claim", "Reproduction", "Setup", "recompute", "reproduce"]
