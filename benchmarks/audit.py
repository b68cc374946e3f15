"""How long a full audit takes, and every mechanism at Google's size.

Run as ``python benchmarks/audit.py`` (``make bench-audit``). Times are of this machine: what
matters is how they grow, and the ratio to a rival that does the same work.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import drfh
from benchmarks.instances import Instance, google, hard
from benchmarks.rivals import cvxpy_clarabel
from drfh.auditor import case_of
from drfh.auditor.comparison import compare
from drfh.auditor.lies import Lie, claimed_problem, utility
from drfh.precompile import warm_up

RIVAL_TRIES = 3


def audited(instance: Instance, console: Console) -> drfh.Report:
    """Return the full audit of an instance, with a progress bar."""
    columns = (TextColumn("{task.description:22}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(instance.name, total=len(drfh.PROPERTIES))
        seen: list[str] = []

        def tell(name: str, part: float) -> None:
            if part >= 1:
                seen.append(name)
            bar.update(task, description=name, completed=len(seen) + (part if part < 1 else 0))

        return drfh.audit(instance.cluster, instance.users, progress=tell)


def audits(console: Console) -> None:
    grid = Table("audit", "users", "servers", "seconds", "lies tried", "pairs of lies", "fails")
    for users, servers in ((10, 100), (30, 300), (100, 1_000), (300, 3_000)):
        instance = hard(users, servers, 2)
        report = audited(instance, console)
        lies, pairs = report["truthful"].tries, report["group-truthful"].tries
        grid.add_row(
            "hard, m = 2", f"{users:,}", f"{servers:,}", f"{report.seconds:.1f}", f"{lies:,}",
            f"{pairs:,}", str(len(report.failed)),
        )  # fmt: skip
    console.print(grid)


def tries(console: Console) -> None:
    """Compare one try of the search (100 × 1,000, two resources) with the same by cvxpy."""
    instance = hard(100, 1_000, 2)
    case = case_of(instance.cluster, instance.users)
    claim = case.problem.demand[0] * (1.0, 1.5)
    lie = Lie(0, "half as much again", claim)
    started = time.perf_counter()
    for _ in range(100):
        utility(case, case.ask(claimed_problem(case, [lie])), 0)
    ours = (time.perf_counter() - started) / 100
    started = time.perf_counter()
    for _ in range(RIVAL_TRIES):
        cvxpy_clarabel(instance)
    theirs = (time.perf_counter() - started) / RIVAL_TRIES
    console.print(
        f"one try of the search: drfh {1000 * ours:.2f} ms, cvxpy {1000 * theirs:,.0f} ms, "
        f"ratio {theirs / ours:,.0f}×"
    )


def mechanisms(console: Console) -> None:
    instance = google(size=0.01)  # small tasks, so that whole ones fit too
    result = compare(instance.cluster, instance.users)
    grid = Table("mechanism", "seconds", "from fair", "relative gap", title=instance.name)
    for row in sorted(result.rows, key=lambda row: row.seconds):
        if row.allocation is None:
            grid.add_row(row.name, f"{row.seconds:.3f}", "no answer", row.why_not)
            continue
        proof = row.allocation.certificate
        gap = "–" if proof is None else f"{proof.gap:.1e}{'' if proof.closed else ' (open)'}"
        grid.add_row(row.name, f"{row.seconds:.3f}", f"{row.distance:.1%}", gap)
    console.print(grid)


if __name__ == "__main__":
    warm_up()
    screen = Console()
    audits(screen)
    tries(screen)
    mechanisms(screen)
