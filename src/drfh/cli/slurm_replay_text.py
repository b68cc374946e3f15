"""A replay as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drfh.cli.columns import Column, print_columns
from drfh.cli.output import console, percent
from drfh.cli.simulate_text import say, seconds, spans
from drfh.disk import shown_path
from drfh.resources import some

if TYPE_CHECKING:
    from drfh.engines.journal import Journal
    from drfh.engines.replay import Recorded, Replayed

__all__ = ["print_replay", "say"]

_MOST_USERS = 12


def print_replay(
    journal: Journal,
    replayed: Replayed,
    recorded: Recorded,
    table: Mapping[str, Any],
    *,
    everyone: bool = False,
) -> None:
    """Print whether the placements are the same again, and what policies would have done."""
    out = console()
    header = journal.headers[-1]
    facts = f"{header.engine}, {header.policy}, {some(journal.looks, 'look')}"
    out.print(f"{shown_path(journal.path)}: {facts} in {seconds(journal.horizon)}", style="bold")
    say(str(replayed), None if replayed.same else "red")
    say(repr(recorded.cluster)[8:-1])
    say(repr(recorded.workload)[9:-1])
    out.print()
    runs: Sequence[Mapping[str, Any]] = table["runs"]
    _print_runs(out, runs)
    _print_users(out, table["users"], [row["run"] for row in runs], everyone=everyone)
    if any(row["done"] < row["tasks"] for row in runs):
        whom = "the tasks that started (waiting) and that ended (turnaround): not all did"
        say(f"means are of {whom}", "yellow")
    for row in runs:
        if row["evictions"]:
            were = "was" if row["evictions"] == 1 else "were"
            say(f"{row['run']}: {some(row['evictions'], 'task')} {were} put back when servers left "
                "or shrank, and had to start again")  # fmt: skip
    for remark in recorded.remarks:
        say(remark, "yellow")


def _print_runs(out: Any, runs: Sequence[Mapping[str, Any]]) -> None:
    work = [
        Column("tasks done", [f"{row['done']:,}" for row in runs], wraps=True),
        Column("of", [f"{row['tasks']:,}" for row in runs]),
        Column("as recorded", [f"{row['as_recorded']:,}" for row in runs], wraps=True),
        Column("mean waiting", spans([row["mean_waiting"] for row in runs]), wraps=True),
        Column("mean turnaround", spans([row["mean_turnaround"] for row in runs]), wraps=True),
        Column("makespan", spans([row["makespan"] for row in runs])),
    ]
    full = [
        Column(resource, [percent(row["utilisation"][resource]) for row in runs])
        for resource in runs[0]["utilisation"]
    ]
    print_columns(out, Column("run", [row["run"] for row in runs], right=False), [work, full])


def _print_users(
    out: Any, rows: Sequence[Mapping[str, Any]], runs: Sequence[str], *, everyone: bool
) -> None:
    """Print a table for each measure: a row for each user, a column for each run."""
    cells = {(row["user"], row["run"]): row for row in rows}
    users = list(dict.fromkeys(row["user"] for row in rows))
    shown = users
    if len(users) > _MOST_USERS and not everyone:
        shown = sorted(users, key=lambda user: -cells[user, runs[0]]["mean_share"])[:_MOST_USERS]
    measures = {
        "mean_waiting": ("Mean waiting of users", seconds),
        "mean_turnaround": ("Mean turnaround of users", seconds),
        "mean_share": ("Mean dominant share of users", percent),
    }
    for measure, (title, words) in measures.items():
        say(title)
        columns = [
            Column(run, [words(cells[user, run][measure]) for user in shown]) for run in runs
        ]
        print_columns(out, Column("user", shown, right=False), [columns])
    if len(shown) < len(users):
        say(f"… and {some(len(users) - len(shown), 'user')} more with less (--all shows them)")
