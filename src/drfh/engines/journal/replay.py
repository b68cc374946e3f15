"""The replay of a journal: the same scheduler must place the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drfh.engines.cache import SchedulerCache
from drfh.engines.journal.reader import Journal
from drfh.errors import InputError
from drfh.files.atomic import shown_path
from drfh.formatting import format_count
from drfh.policies import Policy

__all__ = ["Replay", "ReplayDifference", "replay"]


@dataclass(frozen=True)
class ReplayDifference:
    """The first placement that a replay made differently.

    Attributes
    ----------
    t, line : float, int
        Time and line of the entry.
    recorded, replayed : tuple of str, or None
        The placement there, (task, server); None where there was none any more.
    """

    t: float
    line: int
    recorded: tuple[str, str] | None
    replayed: tuple[str, str] | None

    def __str__(self) -> str:
        was, now = (
            "nothing" if one is None else f"{one[0]} on {one[1]}"
            for one in (self.recorded, self.replayed)
        )
        return f"at {self.t:,.6g} s (line {self.line}): recorded {was}, replayed {now}"


@dataclass(frozen=True)
class Replay:
    """The result of a replay, compared with its journal.

    Attributes
    ----------
    policies : tuple of str
        Of the schedulers: one, and one more for each restart with another policy.
    controls : bool
        Whether drfh was ever in charge. If it only observed, it may have been asked all the same
        what it would place; else there is nothing to compare.
    entries, asked : int
        Entries of the journal, and those at which the scheduler was asked.
    recorded, replayed, matching : int
        Placements in the journal, in the replay, and those that are the same: task and server, at
        the same position of the same entry.
    starts : int
        How often a scheduler started afresh.
    difference : ReplayDifference or None
        The first one.
    """

    policies: tuple[str, ...]
    controls: bool
    entries: int
    asked: int
    recorded: int
    replayed: int
    matching: int
    starts: int
    difference: ReplayDifference | None = None

    @property
    def same(self) -> bool:
        """Whether every placement is the same; also if there is none, as drfh only observed."""
        return self.difference is None

    def __str__(self) -> str:
        policies = ", ".join(self.policies)
        if not self.asked:
            observed = f"drfh only watched ({format_count(self.entries, 'look')})"
            return f"{observed}: there are no placements of its own"
        entries = format_count(self.asked, "look")
        if self.difference is None:
            return (
                f"reproduced: all {format_count(self.recorded, 'placement')} of {policies}, "
                f"at {entries}"
            )
        return (
            f"not reproduced: {self.matching:,} of {format_count(self.recorded, 'placement')} of "
            f"{policies} are the same; first difference {self.difference}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        first = self.difference
        return {
            "same": self.same if self.asked else None,
            "controls": self.controls,
            "policies": list(self.policies),
            "looks": self.entries,
            "asked": self.asked,
            "recorded": self.recorded,
            "replayed": self.replayed,
            "matching": self.matching,
            "starts": self.starts,
            "difference": first
            and {
                "t": first.t,
                "line": first.line,
                "recorded": first.recorded and list(first.recorded),
                "replayed": first.replayed and list(first.replayed),
            },
        }


def replay(journal: Journal, policy: str | Policy | Mapping[str, Any] | None = None) -> Replay:
    """Give every snapshot of a journal to a scheduler, and compare what it places.

    After a difference the next snapshot has what really happened, so that every entry is judged by
    itself.

    Parameters
    ----------
    journal
        From :func:`~drfh.engines.journal.reader.read_journal`.
    policy
        By default that of the journal.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from drfh.engines.journal.reader import read_journal
    >>> from drfh.engines.journal.writer import JournalWriter
    >>> from drfh.engines.snapshot import ClusterSnapshot, NodeSnapshot, TaskSnapshot
    >>> nodes = {name: NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0}) for name in ("n0", "n1")}
    >>> snapshot = ClusterSnapshot(nodes, {"8": TaskSnapshot("ann", {"cpu": 2.0}, (8, 0))})
    >>> cache = SchedulerCache("best-fit-drfh")
    >>> cache.follow(snapshot)
    >>> with TemporaryDirectory() as folder:
    ...     header = {"policy": "best-fit-drfh", "engine": "slurm", "started": 0}
    ...     with JournalWriter(f"{folder}/log", header) as writer:
    ...         time = writer.write(0, snapshot, cache.place())
    ...     print(replay(read_journal(f"{folder}/log")))
    reproduced: all 1 placement of best-fit-drfh, at 1 look
    """
    cache: SchedulerCache | None = None
    policies: dict[str, None] = {}
    entries = asked = recorded = replayed = matching = starts = 0
    controls, difference = False, None
    for step in journal.steps():
        header, entry = step.header, step.entry
        try:
            if cache is None or step.first:
                starts += 0 if cache is None else cache.starts
                cache = SchedulerCache(
                    header.policy if policy is None else policy, seed=header.seed
                )
                policies[cache.policy.name] = None
            cache.follow(entry.snapshot)
            placed = None if entry.placed is None else cache.place(entry.limit)
        except InputError as error:
            error.place = error.place or f"{shown_path(journal.path)}, line {step.line}"
            raise
        entries += 1
        controls |= header.controls
        if placed is None or entry.placed is None:
            continue
        now = [(one.task, one.server) for one in placed]
        asked, recorded, replayed = asked + 1, recorded + len(entry.placed), replayed + len(now)
        same = [was == is_ for was, is_ in zip(entry.placed, now, strict=False)]
        matching += sum(same)
        if difference is None and (not all(same) or len(now) != len(entry.placed)):
            at = same.index(False) if False in same else len(same)
            difference = ReplayDifference(
                entry.t,
                step.line,
                entry.placed[at] if at < len(entry.placed) else None,
                now[at] if at < len(now) else None,
            )
    starts += 0 if cache is None else cache.starts
    return Replay(
        tuple(policies), controls, entries, asked, recorded, replayed, matching, starts, difference
    )  # fmt: skip
