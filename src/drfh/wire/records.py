"""Records of a live cluster at one instant: machines and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Machine", "Task"]


@dataclass(frozen=True, slots=True)
class Machine:
    """One server.

    Parameters
    ----------
    name, amounts, labels
        As of :class:`~drfh.Server`.
    state
        ``closing``: takes nothing new, but what runs there runs on. ``down``: does not work.
    """

    name: str
    amounts: Mapping[str, float]
    labels: Mapping[str, str] = field(default_factory=dict)
    state: Literal["up", "closing", "down"] = "up"


@dataclass(frozen=True, slots=True)
class Task:
    """Equal tasks that are queued, or one that runs.

    Parameters
    ----------
    user, job
        Whose they are.
    demand
        What one of them needs.
    servers
        Names of the servers that it may use; None for all.
    on
        Where it runs; None if it is queued.
    since
        When it started, or was submitted: only the order counts.
    count
        How many there are.
    details
        What else is known.
    """

    user: str
    job: str
    demand: Mapping[str, float]
    servers: frozenset[str] | None = None
    on: str | None = None
    since: float = 0.0
    count: int = 1
    details: Mapping[str, Any] = field(default_factory=dict)
