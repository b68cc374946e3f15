"""Conformance suites for mechanisms and policies, ours and yours."""

from __future__ import annotations

from drfh.testing.conformance import Conformance, ConformanceError
from drfh.testing.mechanisms import SYMMETRIES, check_mechanism, random_scenario
from drfh.testing.policies import check_policy

__all__ = [
    "SYMMETRIES",
    "Conformance",
    "ConformanceError",
    "check_mechanism",
    "check_policy",
    "random_scenario",
]
