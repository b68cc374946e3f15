"""What a mechanism returns."""

from __future__ import annotations

from dataclasses import dataclass

from drfh.certificate import Certificate
from drfh.placement import Placement
from drfh.problem import Floats

__all__ = ["Solution"]


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """A placement and what is known about it.

    Attributes
    ----------
    placement
        Who runs how many tasks where.
    certificate
        Proof of optimality, for mechanisms that have one.
    method
        Which solver found it.
    promised
        Tasks that a pooled mechanism promises, before they meet the servers.
    """

    placement: Placement
    certificate: Certificate | None = None
    method: str = "direct"
    promised: Floats | None = None
