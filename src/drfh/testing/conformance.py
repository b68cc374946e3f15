"""Result and error of a conformance suite."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Conformance", "ConformanceError"]


class ConformanceError(AssertionError):
    """A mechanism or a policy breaks a rule; the message has the case to run again."""


ConformanceError.__module__ = "drfh.testing"  # where people import it from


@dataclass(frozen=True)
class Conformance:
    """What was checked, and on how many cases.

    Attributes
    ----------
    name : str
        The mechanism or policy.
    checks : dict
        Check → number of cases.
    cases : str
        What the cases are called.

    Examples
    --------
    >>> print(Conformance("best-fit-drfh", {"capacity": 20}, "lives"))
    best-fit-drfh
    ok capacity: 20 lives
    """

    name: str
    checks: dict[str, int] = field(default_factory=dict)
    cases: str = "problems"

    def __str__(self) -> str:
        rows = (f"ok {check}: {count} {self.cases}" for check, count in sorted(self.checks.items()))
        return "\n".join((self.name, *rows))
