"""A journal again: the same brain must decide the same, and another policy is one simulation away.

:func:`replay_same` gives every look of a journal to a fresh brain and compares what it places with
what was recorded. :func:`what_if` simulates the recorded workload under any policies, beside what
was observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drfh.engines.cache import SchedulerCache
from drfh.engines.journal.reader import Journal
from drfh.engines.journal.whatif import OBSERVED, WhatIf, comparison, horizon_of, what_if
from drfh.engines.journal.workload import RecordedWorkload, workload_of
from drfh.errors import InputError
from drfh.files.atomic import shown_path
from drfh.model.resources import some
from drfh.policies import Policy

__all__ = [
    "OBSERVED",
    "RecordedWorkload",
    "ReplayDifference",
    "Replayed",
    "WhatIf",
    "comparison",
    "horizon_of",
    "replay_same",
    "what_if",
    "workload_of",
]


@dataclass(frozen=True)
class ReplayDifference:
    """Where a replay first went another way.

    Attributes
    ----------
    t, line : float, int
        Time and line of the look.
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
class Replayed:
    """How a replay compares with its journal.

    Attributes
    ----------
    policies : tuple of str
        Of the brains: one, and one more for each restart with another policy.
    controls : bool
        Whether drfh was ever in charge. If it only watched, it may have been asked all the same
        what it would place; else there is nothing to compare.
    looks, asked : int
        Looks in the journal, and those at which the brain was asked.
    recorded, replayed, matching : int
        Placements in the journal, in the replay, and those that are the same: task and server, at
        the same position of the same look.
    starts : int
        How often a brain started afresh.
    difference : ReplayDifference or None
        The first one.
    """

    policies: tuple[str, ...]
    controls: bool
    looks: int
    asked: int
    recorded: int
    replayed: int
    matching: int
    starts: int
    difference: ReplayDifference | None = None

    @property
    def same(self) -> bool:
        """Whether every placement is the same; also if there is none, as drfh only watched."""
        return self.difference is None

    def __str__(self) -> str:
        words = ", ".join(self.policies)
        if not self.asked:
            watched = f"drfh only watched ({some(self.looks, 'look')})"
            return f"{watched}: there are no placements of its own"
        looks = some(self.asked, "look")
        if self.difference is None:
            return f"reproduced: all {some(self.recorded, 'placement')} of {words}, at {looks}"
        return (
            f"not reproduced: {self.matching:,} of {some(self.recorded, 'placement')} of {words} "
            f"are the same; first difference {self.difference}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        first = self.difference
        return {
            "same": self.same if self.asked else None,
            "controls": self.controls,
            "policies": list(self.policies),
            "looks": self.looks,
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


def replay_same(
    journal: Journal, policy: str | Policy | Mapping[str, Any] | None = None
) -> Replayed:
    """Give every look of a journal to a brain, and compare what it places.

    After a difference the next look tells the brain what really happened, so that every look is
    judged by itself.

    Parameters
    ----------
    journal
        From :func:`~drfh.engines.journal.reader.read_journal`.
    policy
        By default that of the journal.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from drfh.engines.journal.reader import JournalWriter, read_journal
    >>> from drfh.engines.snapshot import ClusterSnapshot, NodeSnapshot, TaskSnapshot
    >>> rooms = {name: NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0}) for name in ("n0", "n1")}
    >>> snapshot = ClusterSnapshot(rooms, {"8": TaskSnapshot("ann", {"cpu": 2.0}, (8, 0))})
    >>> cache = SchedulerCache("best-fit-drfh")
    >>> cache.follow(snapshot)
    >>> with TemporaryDirectory() as folder:
    ...     header = {"policy": "best-fit-drfh", "started": 0}
    ...     with JournalWriter(f"{folder}/log", header) as writer:
    ...         time = writer.look(0, snapshot, cache.place())
    ...     print(replay_same(read_journal(f"{folder}/log")))
    reproduced: all 1 placement of best-fit-drfh, at 1 look
    """
    cache: SchedulerCache | None = None
    policies: dict[str, None] = {}
    looks = asked = recorded = replayed = matching = starts = 0
    controls, difference = False, None
    for step in journal.steps():
        header, look = step.header, step.look
        try:
            if cache is None or step.first:
                starts += 0 if cache is None else cache.starts
                cache = SchedulerCache(
                    header.policy if policy is None else policy, seed=header.seed
                )
                policies[cache.policy.name] = None
            cache.follow(look.snapshot)
            placed = None if look.placed is None else cache.place(look.limit)
        except InputError as error:
            error.place = error.place or f"{shown_path(journal.path)}, line {step.line}"
            raise
        looks += 1
        controls |= header.controls
        if placed is None or look.placed is None:
            continue
        now = [(one.task, one.server) for one in placed]
        asked, recorded, replayed = asked + 1, recorded + len(look.placed), replayed + len(now)
        same = [was == is_ for was, is_ in zip(look.placed, now, strict=False)]
        matching += sum(same)
        if difference is None and (not all(same) or len(now) != len(look.placed)):
            at = same.index(False) if False in same else len(same)
            difference = ReplayDifference(
                look.t,
                step.line,
                look.placed[at] if at < len(look.placed) else None,
                now[at] if at < len(now) else None,
            )
    starts += 0 if cache is None else cache.starts
    return Replayed(
        tuple(policies), controls, looks, asked, recorded, replayed, matching, starts, difference
    )  # fmt: skip
