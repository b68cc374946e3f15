"""The runs on which tables and verdicts rest, and what must be known beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from drfh.errors import InputError
from drfh.files.atomic import read_text
from drfh.policies import Policy
from drfh.simulation.result import Result

__all__ = ["BEST_FIT", "BLOCKED", "FIRST_FIT", "Evidence", "Key", "slots_name"]

BEST_FIT = "best-fit-drfh"
FIRST_FIT = "first-fit-drfh"
BLOCKED = ("skip", "strict")

_INDEX = "index.json"


class Key(NamedTuple):
    """Which run."""

    policy: str
    """Full name of the policy."""
    seed: int
    """Draw of the servers."""
    dedicated: bool = False
    """Whether every user has servers of its own."""

    @property
    def name(self) -> str:
        """A name that a folder can have.

        Examples
        --------
        >>> Key("slots:14", 0).name
        'slots-14-seed-0'
        """
        words = f"{'dedicated-' if self.dedicated else ''}{self.policy}-seed-{self.seed}"
        return re.sub(r"[^\w.+=-]", "-", words)


def slots_name(number: int, count: str = "min", oversize: str = "ceil") -> str:
    """Return the name of a policy of slots.

    Examples
    --------
    >>> slots_name(14), slots_name(14, "cpu", "reject")
    ('slots:14', 'slots:14:cpu:reject')
    """
    usual = (count, oversize) == ("min", "ceil")
    return f"slots:{number}" if usual else f"slots:{number}:{count}:{oversize}"


@dataclass(frozen=True, eq=False)
class Evidence:
    """All runs of a reproduction.

    Attributes
    ----------
    runs : mapping
        :class:`Key` → result.
    jobs : polars.DataFrame
        ``job``, ``at_start``: whether tasks of it were there when the window began.
    users : polars.DataFrame
        ``seed``, ``user``, ``tasks``, ``weight``, ``servers`` of its dedicated cloud, and
        ``largest_task``: the dominant share that its largest task has of the largest server.
    seeds, slots, count_rules, oversize : tuple
        What was varied.
    """

    runs: Mapping[Key, Result]
    jobs: pl.DataFrame
    users: pl.DataFrame
    seeds: tuple[int, ...]
    slots: tuple[int, ...]
    count_rules: tuple[str, ...]
    oversize: tuple[str, ...]

    def run(self, policy: str, seed: int, blocked: str = "skip") -> Result:
        """Return a run in the shared cloud."""
        name = policy if blocked == "skip" else Policy.parse(f"{policy}+{blocked}").name
        return self.runs[Key(name, seed)]

    def best_slots(self, seed: int) -> str:
        """Return the policy of slots with the highest CPU and memory utilisation together.

        As in the paper, by number alone; ties go to fewer slots.
        """
        return self._best[seed]

    @cached_property
    def _best(self) -> dict[int, str]:
        def overall(name: str, seed: int) -> float:
            return float(sum(self.run(name, seed).numbers["utilisation"].values()))

        names = [slots_name(number) for number in sorted(self.slots)]
        return {seed: max(names, key=lambda n: overall(n, seed)) for seed in self.seeds}

    def main_policies(self, seed: int) -> tuple[str, str, str]:
        """Return the three that the paper compares."""
        return BEST_FIT, FIRST_FIT, self.best_slots(seed)

    def write(self, folder: Path) -> None:
        """Write the runs into folders of their own, and what is known beside them."""
        folder.mkdir(exist_ok=True)
        for key, result in self.runs.items():
            if not (folder / key.name).is_dir():  # else its process has written it
                (folder / key.name).mkdir()
                result.write(folder / key.name)
        index = {
            "runs": [key._asdict() for key in self.runs],
            "seeds": self.seeds,
            "slots": self.slots,
            "count_rules": self.count_rules,
            "oversize": self.oversize,
        }
        self.jobs.write_parquet(folder / "jobs.parquet")
        self.users.write_parquet(folder / "users.parquet")
        (folder / _INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Evidence:
        """Read what :meth:`write` wrote."""
        if not (folder / _INDEX).is_file():
            rule = f"must hold the runs of a reproduction ({_INDEX} is missing)"
            raise InputError("the directory", rule, str(folder))
        index: dict[str, Any] = json.loads(read_text(str(folder / _INDEX)))
        keys = [Key(**words) for words in index["runs"]]
        return cls(
            {key: Result.load(folder / key.name) for key in keys},
            pl.read_parquet(folder / "jobs.parquet"),
            pl.read_parquet(folder / "users.parquet"),
            tuple(index["seeds"]),
            tuple(index["slots"]),
            tuple(index["count_rules"]),
            tuple(index["oversize"]),
        )
