"""``drfh tour``: four clusters in a minute."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from drfh.cli.render.console import bar, console, print_json, table
from drfh.formatting import format_percent

__all__ = ["tour"]

_MOVING, _POLICY = "paper-dynamic", "best-fit-drfh"


def tour(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Take a tour: the paper's example, Google's cluster, GPUs, and jobs over time.

    Example: drfh tour
    """
    from drfh.cli.render.allocation import print_allocation
    from drfh.cli.render.simulation import print_runs
    from drfh.files.scenario_file import load_scenario
    from drfh.mechanisms import allocate
    from drfh.simulation import simulate

    stops = ("paper-two-servers", "google-2011", "gpu-cluster")
    scenarios = {name: load_scenario(name) for name in stops}
    answers = {name: allocate(s.cluster, s.users) for name, s in scenarios.items()}
    moving = load_scenario(_MOVING)
    if as_json:
        result = simulate(moving.cluster, moving.workload, _POLICY, source=_MOVING)
        allocations = {name: answer.to_dict() for name, answer in answers.items()}
        print_json({"allocations": allocations, "simulations": {_MOVING: result.summary()}})
        return
    out = console()
    _heading(out, "1. Why one big pool is not enough")
    _print_paper_example(out)
    for number, name in enumerate(stops[1:], start=2):
        _heading(out, f"{number}. drfh allocate {name}")
        print_allocation(answers[name], scenarios[name].title)
    _heading(out, f"{len(stops) + 1}. drfh simulate {_MOVING}")
    result = simulate(moving.cluster, moving.workload, _POLICY, source=_MOVING)
    print_runs(moving.title, moving.cluster, moving.workload, [_POLICY], [result])
    _heading(out, "Your turn")
    for command, what in (
        ("drfh scenario show gpu-cluster > mine.yaml", "a file to start from"),
        ("drfh allocate mine.yaml --plot mine.html", "the answer, as a page"),
        ('drfh allocate mine.yaml --add "10x cpu=64,memory=1Ti"', "what if?"),
        ("drfh allocate mine.yaml --explain training", "what limits a team"),
        ("drfh compare mine.yaml", "other mechanisms"),
        ("drfh audit mine.yaml", "what is unfair about it"),
        ("drfh simulate gpu-day --policy best-fit-drfh,fifo", "jobs over time, two policies"),
    ):
        out.print(f"  {command:<54} {what}")


def _heading(out: Any, text: str) -> None:
    out.print()
    out.print(text, style="bold cyan")
    out.print()


def _print_paper_example(out: Any) -> None:
    from drfh.allocation.proofs.certificate import proof_text
    from drfh.files.scenario_file import load_scenario
    from drfh.mechanisms import allocate

    scenario = load_scenario("paper-two-servers")
    for server in scenario.cluster.servers:
        have = ", ".join(f"{r} {a:g}" for r, a in server.resources.items())
        out.print(f"  server {server.name:<12} {have}")
    for user in scenario.users:
        need = ", ".join(f"{r} {a:g}" for r, a in user.demand.items())
        out.print(f"  user   {user.name:<12} {need} for each task")
    names = [user.name for user in scenario.users]
    resources = list(scenario.cluster.resources)
    numbers = [f"tasks {name}" for name in names]
    header: list[str] = []
    for resource in resources:
        header += [resource, ""]
    grid = table("mechanism", *numbers, *header, right=(*numbers, *header[::2]))
    for mechanism, promise, label in (
        ("per-server-drf", False, "per-server DRF"),
        ("drf", True, "DRF pool, promise"),
        ("drf", False, "DRF pool, placed"),
        ("drfh", False, "DRFH"),
    ):
        answer = allocate(scenario.cluster, scenario.users, mechanism=mechanism)
        tasks = answer.promised if promise else answer.tasks
        cells = [label, *(f"{tasks[name]:.4g}" for name in names)] if tasks else [label]
        for resource in resources:
            used = answer.utilisation[resource]
            cells += ["", ""] if promise else [format_percent(used), bar(used, 6)]
        grid.add_row(*cells, style="bold" if mechanism == "drfh" else None)
    out.print(grid)
    answer = allocate(scenario.cluster, scenario.users)
    for name in names:
        # In a terminal lines are broken between words.
        out.print(f"  {answer.explain(name)}", soft_wrap=not out.is_terminal)
    if answer.certificate is not None:
        checked = "ok" if answer.verify() else "FAILED"
        out.print(f"  {proof_text(answer.certificate)}; checked from scratch: {checked}")
