"""``truthful``: no user gains by a lie."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from drfh.allocation.problem import Problem
from drfh.auditor.bundles import Bundles
from drfh.auditor.case import Case, lost
from drfh.auditor.finding import Finding
from drfh.auditor.lies import (
    MARGIN,
    Lie,
    Search,
    asked,
    candidates,
    lying,
    utility,
    verified,
    who_pays,
)
from drfh.formatting import format_count, format_number, format_percent, join_names
from drfh.mechanisms import Mechanism
from drfh.mechanisms.nash import nash
from drfh.mechanisms.shared.progressive_filling import progressive_filling
from drfh.model.cluster import Cluster, Server
from drfh.model.scenario import Scenario
from drfh.model.users import User

__all__ = ["group_truthful", "split_proof", "truthful"]


def truthful(case: Case) -> Finding:
    """No user gains by a lie: a directed search, then a pattern search from the best lies.

    A lie that pays is solved again and reported only if the certificates of both answers are
    closed (or tasks are whole, and counted in integers). With every search goes a control: the
    same search must find lies against Nash welfare and against filling with whole tasks.
    """
    control, fine = _control()
    search = Search(case)
    best = search.run()
    summary = f"no lie found in {search.tries:,} tries"
    if search.tries < search.planned:
        summary += f" of {search.planned:,}: time was up"
    if not fine:
        summary += "; the control failed, so the search says nothing"
    else:
        summary += f" ({control})"
    if best is None:
        return case.found("truthful", 0.0, summary, tries=search.tries, searched=True)
    lie, truth, gained, how = best
    me = case.name(lie.user)
    text = f"{me} gains {format_percent(gained / truth - 1) if truth > 0 else 'all'} by claiming "
    text += f"{lie.label}: {format_count(truth, 'task', 4)} become {format_number(gained)} "
    text += f"(verified by {how}, {search.tries:,} tries)"
    example = lying(case, [lie], text, {me: truth}, {me: gained})
    return case.found(
        "truthful", float(lost(truth, gained)), text, hurt=who_pays(case, [lie]),
        counterexample=example, tries=search.tries,
    )  # fmt: skip


@cache
def _control() -> tuple[str, bool]:
    """Run the search where lies are known to pay; return the text, and whether it found them."""
    label = []
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
        label.append(f"{format_percent(gain)} against {name}")
    return f"the same search gains {join_names(label)}", fine


def _control_case(cluster: Cluster, users: list[User], mechanism: Mechanism) -> Case:
    solution = mechanism(Problem.build(cluster, users))
    bundles = Bundles.of(solution.placement, whole=solution.whole)
    scenario = Scenario(cluster, tuple(users))
    return Case(scenario, bundles, mechanism, solution.certificate, filled=solution.whole)


_PAIRS_OF_LIES = 16
_MOST_DRAWN = 100_000
_PART_FOR_PAIRS = 8  # of all tries, a part goes to pairs


def group_truthful(case: Case) -> Finding:
    """No two users both gain by lying together; pairs are sampled."""
    n = len(case.problem.users)
    if n < 2:
        return case.skipped("group-truthful", "there is one user only")
    rng = np.random.default_rng(case.seed)
    pairs = [(i, j) for i in range(n) for j in range(i)] if n <= 60 else []
    if not pairs:
        drawn = rng.integers(0, n, (min(3 * case.tries, _MOST_DRAWN), 2))
        pairs = list(dict.fromkeys((max(a, b), min(a, b)) for a, b in drawn.tolist() if a != b))
    most = max(1, case.tries // (_PART_FOR_PAIRS * _PAIRS_OF_LIES))
    if len(pairs) > most:
        chosen = sorted(rng.choice(len(pairs), most, replace=False).tolist())
        pairs = [pairs[k] for k in chosen]
    tries = 0
    per_pair = max(_PAIRS_OF_LIES, min(400, case.tries // (_PART_FOR_PAIRS * len(pairs))))
    looked_at = 0
    for pair in case.timed(pairs):
        looked_at += 1
        menus = [[x for x in candidates(case, i, rng) if x.demand is not None] for i in pair]
        for lies in _together(menus, per_pair, rng):
            tries += 1
            truth = [float(case.tasks[i]) for i in pair]
            answer = asked(case, lies)
            gained = [0.0, 0.0] if answer is None else [utility(case, answer, i) for i in pair]
            gain = min(float(lost(t, g)) for t, g in zip(truth, gained, strict=True))
            if gain > MARGIN and answer is not None and verified(case, answer):
                names = [case.name(i) for i in pair]
                text = f"{names[0]} and {names[1]} both gain by lying together: "
                text += f"{format_number(truth[0])} and {format_count(truth[1], 'task', 4)} become "
                text += f"{format_number(gained[0])} and {format_number(gained[1])}"
                example = lying(
                    case, lies, text, dict(zip(names, truth, strict=True)),
                    dict(zip(names, gained, strict=True)),
                )  # fmt: skip
                return case.found(
                    "group-truthful", gain, text, hurt=who_pays(case, lies),
                    counterexample=example, tries=tries,
                )  # fmt: skip
    summary = f"no pair of lies found that pays for both, in {tries:,} tries with "
    summary += f"{format_count(looked_at, 'pair')} of users"
    return case.found("group-truthful", 0.0, summary, tries=tries, searched=True)


def _together(menus: list[list[Lie]], most: int, rng: np.random.Generator) -> list[list[Lie]]:
    """Return pairs of lies: half of them the same kind, the others drawn at random."""
    second = {lie.label: lie for lie in menus[1]}
    same = [[lie, second[lie.label]] for lie in menus[0] if lie.label in second]
    rng.shuffle(same)
    pairs = same[: max(1, most // 2)]
    while len(pairs) < most:
        pairs.append([menu[int(rng.integers(len(menu)))] for menu in menus])
    return pairs


def split_proof(case: Case) -> Finding:
    """No user gains by becoming two users that split its weight and its tasks."""
    if case.scenario.parameters.get("endowments"):
        return case.skipped("split-proof", "endowments are given by name")
    worst, liar, after = 0.0, 0, 0.0
    tried = 0
    for i in case.timed(case.shuffled(len(case.problem.users), 100)):
        users = _split(case, i)
        if users is None:
            continue
        tried += 1
        answer = case.answer(case.scenario.cluster, users)
        tasks = answer.placement.user_tasks
        together = min(float(tasks[i] + tasks[i + 1]), float(case.problem.limit[i]))
        gain = float(lost(float(case.tasks[i]), together))
        gain = gain if gain > case.noise(answer) else 0.0
        if gain > worst:
            worst, liar, after = gain, i, together
    text = f"none of {format_count(tried, 'user')} gains by becoming two with half the weight each"
    if worst <= MARGIN:
        return case.found("split-proof", 0.0, text, tries=tried, searched=True)
    me = case.name(liar)
    text = f"{me} gains by becoming two users: {format_count(case.tasks[liar], 'task', 4)} become "
    text += format_number(after)
    example = case.changed(
        f"{me} becomes two users", text, users=_split(case, liar),
        before={me: float(case.tasks[liar])}, after={me: after},
    )  # fmt: skip
    return case.found("split-proof", worst, text, counterexample=example, tries=tried)


def _split(case: Case, user: int) -> list[User] | None:
    """Return the users with one of them as two; None if its tasks cannot be split."""
    record = case.scenario.users[user]
    names = {u.name for u in case.scenario.users}
    other = next(n for k in range(len(names) + 1) if (n := f"{record.name}-{k + 2}") not in names)
    first = second = None if record.tasks is None else record.tasks / 2
    if case.whole and record.tasks is not None:
        if record.tasks < 2:
            return None
        first, second = float(record.tasks // 2), float(record.tasks - record.tasks // 2)
    half = replace(record, weight=record.weight / 2, tasks=first)
    users = list(case.scenario.users)
    users[user : user + 1] = [half, replace(half, name=other, tasks=second)]
    return users
