"""Solution: the placement that a mechanism returns, and its proof."""

from __future__ import annotations

from dataclasses import dataclass

from drfh.allocation.placement import Placement
from drfh.allocation.problem import Floats
from drfh.allocation.proofs.certificate import Proof

__all__ = ["Solution"]


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """A placement and what is known about it.

    Attributes
    ----------
    placement
        Who runs how many tasks where.
    certificate
        Proof that it is what the mechanism defines, for mechanisms that have one.
    method
        Which solver found it.
    promised
        Tasks that a pooled mechanism promises, before they meet the servers.
    whole
        Whether tasks are whole.
    """

    placement: Placement
    certificate: Proof | None = None
    method: str = "direct"
    promised: Floats | None = None
    whole: bool = False
