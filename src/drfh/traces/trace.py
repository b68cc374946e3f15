"""A trace that was read: the servers, the jobs, and how the reading went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from drfh.cluster import Cluster
from drfh.jobs import Workload
from drfh.resources import FrozenMap
from drfh.traces.ledger import Oddity

if TYPE_CHECKING:
    import polars

__all__ = ["Reading", "Trace"]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader of one format returns.

    Parameters
    ----------
    cluster, workload
        The servers at the start; the users, jobs and server events.
    details
        One row for each batch of the workload: what the format knows beyond, such as a priority.
    running
        Of a snapshot: who holds what where, with the columns user, server and one a resource.
    window
        Length of the time that the trace covers, in seconds; None if it has no end of its own.
    options
        The options as they were understood, if that is more than what was given.
    """

    cluster: Cluster
    workload: Workload
    details: polars.DataFrame
    running: polars.DataFrame | None = None
    window: float | None = None
    options: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """A cluster and a workload, with an account of where they come from.

    It unpacks into the two: ``cluster, workload = drfh.traces.read(…)``.

    Attributes
    ----------
    cluster : Cluster
        The servers at the start.
    workload : Workload
        Users, jobs and server events. Times count from the start of the window.
    details : polars.DataFrame
        One row for each batch of the workload: what the format knows beyond, such as a priority.
    running : polars.DataFrame or None
        Of a snapshot: who holds what where.
    window : float or None
        Length of the time that the trace covers, in seconds; None if it has no end of its own.
    format, source : str
        Name of the format, and where it was read from.
    options : mapping
        Every option of the format with the value it had.
    counts : mapping
        Rows read, and what was left out and why.
    oddities : tuple of Oddity
        Broken rows by kind.
    remarks : tuple of str
        What the data cannot tell, and what was decided for it.
    """

    format: str
    source: str
    cluster: Cluster
    workload: Workload
    details: polars.DataFrame
    running: polars.DataFrame | None = None
    window: float | None = None
    options: Mapping[str, Any] = field(default_factory=FrozenMap)
    counts: Mapping[str, int] = field(default_factory=FrozenMap)
    oddities: tuple[Oddity, ...] = ()
    remarks: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Any]:
        return iter((self.cluster, self.workload))

    def __repr__(self) -> str:
        return f"Trace({self.format}: {self.cluster!r}, {self.workload!r})"
