"""A plain pandas reader of Google's trace: what one would write without drfh."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

COLUMNS = {
    "time": "int64",
    "missing": "float64",
    "job": "int64",
    "index": "int64",
    "machine": "float64",
    "event": "int64",
    "user": "str",
    "class": "int64",
    "priority": "int64",
    "cpu": "float64",
    "memory": "float64",
    "disk": "float64",
    "different": "float64",
}
START = 600_000_000


def read_events(folder: Path) -> pd.DataFrame:
    """Read all rows of ``task_events``, and nothing more."""
    parts = sorted((folder / "task_events").glob("part-*"))
    names = list(COLUMNS)
    return pd.concat(
        [pd.read_csv(part, header=None, names=names, dtype=COLUMNS) for part in parts],
        ignore_index=True,
    )


def read_tasks(folder: Path) -> pd.DataFrame:
    """Read the tasks as the preset ``backlog_cut`` does: one row each, in order of arrival."""
    events = read_events(folder)
    last = int(events["time"].max())
    events["row"] = range(len(events))
    key = ["job", "index"]
    first = events[events["event"] == 0].drop_duplicates(key, keep="first")
    started = events[events["event"] == 1].drop_duplicates(key, keep="last")
    started = started[[*key, "time", "row"]].rename(columns={"time": "start", "row": "started"})
    ended = events[events["event"].between(2, 6)][[*key, "time", "row"]]
    ended = ended.rename(columns={"time": "end", "row": "ended"}).merge(started, on=key)
    ended = ended[ended["ended"] > ended["started"]].drop_duplicates(key, keep="first")
    tasks = first.merge(started, on=key).merge(ended[[*key, "end"]], on=key, how="left")
    tasks = tasks[(tasks["cpu"].fillna(0) > 0) | (tasks["memory"].fillna(0) > 0)]
    arrival = (tasks["time"] - START).clip(lower=0)
    start = tasks["start"].clip(lower=START)
    duration = tasks["end"].fillna(last) - start
    tasks = tasks.assign(arrival=arrival / 1e6, duration=duration / 1e6)
    return tasks.sort_values(["arrival", "row"], kind="stable")
