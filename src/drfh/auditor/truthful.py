"""``truthful``: no user gains by a lie."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from drfh.auditor.bundles import Bundles
from drfh.auditor.case import Case, lost
from drfh.auditor.finding import Finding
from drfh.auditor.search import Search, lying, who_pays
from drfh.auditor.words import number, percent, tasks_text
from drfh.cluster import Cluster, Server
from drfh.files import Scenario
from drfh.mechanisms import Mechanism
from drfh.mechanisms.filling import progressive_filling
from drfh.mechanisms.nash import nash
from drfh.problem import Problem
from drfh.workload import User

__all__ = ["truthful"]


def truthful(case: Case) -> Finding:
    """No user gains by a lie: a directed search, then a pattern search from the best lies.

    A lie that pays is solved again and reported only if the certificates of both answers are
    closed (or tasks are whole, and counted in integers). With every search goes a control: the
    same search must find lies against Nash welfare and against filling with whole tasks.
    """
    control, fine = _control()
    search = Search(case)
    best = search.run()
    said = f"no lie found in {search.tries:,} tries"
    if search.tries < search.planned:
        said += f" of {search.planned:,}: time was up"
    if not fine:
        said += "; the control failed, so the search says nothing"
    else:
        said += f" ({control})"
    if best is None:
        return case.found("truthful", 0.0, said, tries=search.tries, searched=True)
    lie, truth, gained, how = best
    me = case.name(lie.user)
    text = f"{me} gains {percent(gained / truth - 1) if truth > 0 else 'all'} by claiming "
    text += f"{lie.words}: {tasks_text(truth)} become {number(gained)}"
    example = lying(case, [lie], text, {me: truth}, {me: gained})
    finding = case.found(
        "truthful", float(lost(truth, gained)), text, hurt=who_pays(case, [lie]),
        counterexample=example, tries=search.tries,
    )  # fmt: skip
    return replace(finding, text=f"{text} (verified by {how}, {search.tries:,} tries)")


@cache
def _control() -> tuple[str, bool]:
    """Run the search where lies are known to pay; return words, and whether it found them."""
    words = []
    fine = True
    for name, mechanism, size, demands in (
        ("Nash welfare", nash, 100.0, ((16.0, 1.0), (1.0, 2.0))),
        ("whole tasks", progressive_filling, 6.0, ((1.0, 1.0), (4.0, 3.0))),
    ):
        cluster = Cluster([Server({"cpu": size, "memory": size})])
        users = [
            User(f"u{i}", {"cpu": a, "memory": b}) for i, (a, b) in enumerate(demands, start=1)
        ]
        found = Search(_control_case(cluster, users, mechanism)).run()
        fine = fine and found is not None
        gain = 0.0 if found is None else found[2] / found[1] - 1
        words.append(f"{percent(gain)} against {name}")
    return f"the same search gains {' and '.join(words)}", fine


def _control_case(cluster: Cluster, users: list[User], mechanism: Mechanism) -> Case:
    solution = mechanism(Problem.build(cluster, users))
    bundles = Bundles.of(solution.placement, whole=solution.whole)
    scenario = Scenario(cluster, tuple(users))
    return Case(scenario, bundles, mechanism, solution.certificate, filled=solution.whole)
