"""Reader of ``machine_events``: servers at the start, and their changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from drfh.errors import InputError
from drfh.files.reader import Ledger, unpacked
from drfh.model.cluster import Cluster, Server
from drfh.model.jobs import AddServers, RemoveServers, ResizeServer, ServerEvent
from drfh.traces.rows import parse_rows, refuse

__all__ = ["drawn_servers", "read_machines"]

_ADD, _REMOVE, _UPDATE = 0, 1, 2
_COLUMNS = {
    "time": pl.Int64,
    "machine ID": pl.Int64,
    "event type": pl.Int8,
    "platform": pl.String,
    "CPU capacity": pl.Float64,
    "memory capacity": pl.Float64,
}


def read_machines(
    parts: Sequence[Path], begin: int, end: int, ledger: Ledger
) -> tuple[Cluster, tuple[ServerEvent, ...]]:
    """Return the machines up at `begin`, and changes until `end` (microseconds).

    Parameters
    ----------
    parts
        The files of ``machine_events``.
    begin, end
        The window.
    ledger
        Where rows are counted.
    """
    frame = pl.concat([_rows(path, ledger) for path in parts]).sort("time", maintain_order=True)
    ledger.count("machine rows", len(frame))
    ledger.count("machines", frame["machine ID"].n_unique())
    for code, name in ((_ADD, "ADD"), (_REMOVE, "REMOVE"), (_UPDATE, "UPDATE")):
        ledger.count(f"machine {name} rows", int((frame["event type"] == code).sum()))
    added = frame.filter(pl.col("event type") == _ADD)
    empty = added.filter(pl.any_horizontal(pl.col("CPU capacity", "memory capacity").is_null()))
    ledger.count("machine ADD rows without capacities", len(empty))
    machines_up = _MachinesUp(ledger)
    frame = frame.filter(pl.col("time") <= end)
    for row in frame.filter(pl.col("time") <= begin).iter_rows():
        machines_up.change(row, None)
    if not machines_up.up:
        rule = "must have at least one machine that is up when the window begins"
        raise InputError("machine_events", rule, place=str(parts[0].parent))
    cluster = machines_up.cluster()
    changes: list[ServerEvent] = []
    for row in frame.filter(pl.col("time") > begin).iter_rows():
        change = machines_up.change(row, (row[0] - begin) / 1e6)
        if change is not None:
            changes.append(change)
    ledger.count("server events in the window", len(changes))
    return cluster, tuple(changes)


def drawn_servers(cluster: Cluster, number: int, seed: int) -> Cluster:
    """Return `number` servers with shapes of machines drawn at random.

    Examples
    --------
    >>> pool = Cluster([Server({"cpu": 1}, count=3), Server({"cpu": 2})])
    >>> drawn_servers(pool, 5, seed=0).size
    5
    """
    if number < 1:
        raise InputError("servers", "must be a whole number ≥ 1", number)
    chances = cluster.counts / cluster.counts.sum()
    drawn = np.random.default_rng(seed).choice(len(cluster), number, p=chances)
    return Cluster.from_arrays(cluster.capacity[drawn], cluster.resources)


def _rows(path: Path, ledger: Ledger) -> pl.DataFrame:
    place = f"{path.parent.name}/{path.name}"
    required = ("time", "machine ID", "event type")
    frame = parse_rows(unpacked(path, ledger), _COLUMNS, ledger, place, required=required)
    for field, wrong, rule in (
        ("time", pl.col("time") < 0, "must be ≥ 0"),
        ("event type", ~pl.col("event type").is_between(0, 2), "must be from 0 to 2"),
        ("CPU capacity", _wrong("CPU capacity"), "must be a finite number ≥ 0"),
        ("memory capacity", _wrong("memory capacity"), "must be a finite number ≥ 0"),
    ):
        frame = refuse(frame, wrong, field, rule, ledger, place)
    return frame.select(*_COLUMNS)


def _wrong(name: str) -> pl.Expr:
    return ~(pl.col(name).is_finite() & (pl.col(name) >= 0)).fill_null(True)


class _Machine(NamedTuple):
    """A machine that is up; a record each would take a third of the time of the whole reading."""

    cpu: float
    memory: float
    platform: str | None


class _MachinesUp:
    """The machines that are up, as events change them."""

    def __init__(self, ledger: Ledger) -> None:
        self.up: dict[int, _Machine] = {}
        self._ledger = ledger

    def cluster(self) -> Cluster:
        """Return the servers that are up."""
        machines = self.up.values()
        if not all(machine.cpu and machine.memory for machine in machines):
            return Cluster(_server(*pair) for pair in self.up.items())
        labels: dict[str | None, dict[str, str]] = {}
        for platform in {machine.platform for machine in machines}:
            labels[platform] = {} if platform is None else {"platform": platform}
        return Cluster.from_arrays(
            [machine[:2] for machine in machines],
            ("cpu", "memory"),
            names=[str(number) for number in self.up],
            labels=[labels[machine.platform] for machine in machines],
        )

    def change(
        self,
        row: tuple[int, int, int, str | None, float | None, float | None],
        when: float | None,
    ) -> ServerEvent | None:
        """Apply one row; return its server event if it is in the window."""
        _, number, kind, platform, cpu, memory = row
        before = self.up.get(number)
        if kind == _REMOVE:
            if before is None:
                return self._ignore("REMOVE rows of machines that are not up")
            del self.up[number]
            return None if when is None else RemoveServers(when, str(number))
        if cpu is None or memory is None:
            return self._ignore(f"{'UPDATE' if kind else 'ADD'} rows without capacities")
        if not cpu and not memory:
            return self._ignore("rows with no capacity at all")
        if kind == _UPDATE and before is None:
            return self._ignore("UPDATE rows of machines that are not up")
        machine = self.up[number] = _Machine(cpu, memory, platform)
        if before is None:
            return None if when is None else AddServers(when, _server(number, machine))
        if before[:2] == machine[:2]:
            what = "UPDATE rows that change no capacity" if kind else "ADD rows of machines up"
            return self._ignore(what)
        if when is None:
            return None
        return ResizeServer(when, str(number), {"cpu": cpu, "memory": memory})

    def _ignore(self, what: str) -> ServerEvent | None:
        self._ledger.count(f"machine {what}, ignored")
        return None


def _server(number: int, machine: _Machine) -> Server:
    labels = None if machine.platform is None else {"platform": machine.platform}
    capacity = {"cpu": machine.cpu, "memory": machine.memory}
    return Server(capacity, name=str(number), labels=labels)
