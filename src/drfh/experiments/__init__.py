"""The evaluation of the paper, and beyond it: computed here, shown in ``drfh.report``."""

from __future__ import annotations

from drfh.experiments.claims import Claim
from drfh.experiments.reproduction import Reproduction
from drfh.experiments.run import recompute, reproduce
from drfh.experiments.setup import Setup

__all__ = ["Claim", "Reproduction", "Setup", "recompute", "reproduce"]
