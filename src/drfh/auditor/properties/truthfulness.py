"""``truthful``: no user gains by a lie."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np

from drfh.allocation.problem import Floats, Problem
from drfh.auditor.bundles import Bundles
from drfh.auditor.case import Case
from drfh.auditor.finding import Finding
from drfh.auditor.lies import (
    MARGIN,
    Lie,
    Search,
    asked,
    candidates,
    lying,
    outcome,
    verified,
    who_pays,
)
from drfh.formatting import format_count, format_percent, join_names
from drfh.mechanisms import Mechanism
from drfh.mechanisms.drfh import drfh
from drfh.mechanisms.nash import nash
from drfh.mechanisms.shared.progressive_filling import progressive_filling
from drfh.model.cluster import Cluster, Server
from drfh.model.scenario import Scenario
from drfh.model.users import Kind, User

__all__ = ["group_truthful", "split_proof", "truthful"]


def truthful(case: Case) -> Finding:
    """No user gains by a lie: a directed search, then a pattern search from the best lies.

    A lie that pays is solved again and reported only if the certificates of both answers are
    closed (or tasks are whole, and counted in integers). With every search goes a control: the
    same search must find lies against Nash welfare and against filling with whole tasks.
    """
    control, fine = _control(kinds=case.problem.mixes is not None)
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
    lie, gained, how = best
    gain = _gain(case, lie, gained)
    text = f"{case.name(lie.user)} gains {'all' if np.isinf(gain) else format_percent(gain)} by "
    truth, then = case.shown(lie.user, case.outcome, gained)
    text += f"claiming {lie.label}: {truth} become {then} "
    text += f"(verified by {how}, {search.tries:,} tries)"
    example = lying(case, [lie], text, gained)
    amount = float(case.lost(case.outcome, gained)[lie.user])
    return case.found(
        "truthful", amount, text, hurt=who_pays(case, [lie]),
        counterexample=example, tries=search.tries,
    )  # fmt: skip


def _gain(case: Case, lie: Lie, gained: Floats) -> float:
    """Return the relative gain of a user by its lie."""
    truth, then = (float(tasks[lie.user]) for tasks in case.decisive(case.outcome, gained))
    return then / truth - 1 if truth > 0 else math.inf


@cache
def _control(*, kinds: bool) -> tuple[str, bool]:
    """Run the search where lies are known to pay; return the text, and whether it found them."""
    cases = [
        ("Nash welfare", nash, 100.0, (User("u1", _demand(16, 1)), User("u2", _demand(1, 2)))),
        (
            "whole tasks",
            progressive_filling,
            6.0,
            (User("u1", _demand(1, 1)), User("u2", _demand(4, 3))),
        ),
    ]
    if kinds:
        # Only u1 needs cpu: claiming less of it lowers its share, and the first kind rises on.
        both = [Kind({"cpu": 2}), Kind({"memory": 1})]
        cases.append(
            ("DRFH with kinds", drfh, 8.0, (User("u1", kinds=both), User("u2", {"memory": 1})))
        )
    label = []
    fine = True
    for name, mechanism, size, users in cases:
        control = _control_case(Cluster([Server(_demand(size, size))]), users, mechanism)
        found = Search(control).run()
        fine = fine and found is not None
        gain = 0.0 if found is None else _gain(control, *found[:2])
        label.append(f"{format_percent(gain)} against {name}")
    return f"the same search gains {join_names(label)}", fine


def _demand(cpu: float, memory: float) -> dict[str, float]:
    return {"cpu": cpu, "memory": memory}


def _control_case(cluster: Cluster, users: tuple[User, ...], mechanism: Mechanism) -> Case:
    solution = mechanism(Problem.build(cluster, users))
    bundles = Bundles.of(solution.placement, whole=solution.whole)
    scenario = Scenario(cluster, users)
    return Case(scenario, bundles, mechanism, solution.certificate, filled=solution.whole)


_PAIRS_OF_LIES = 16
_MOST_DRAWN = 100_000
_PART_FOR_PAIRS = 8  # of all tries, a part goes to pairs


def group_truthful(case: Case) -> Finding:
    """No two users both gain by lying together; pairs are sampled."""
    n = len(case.scenario.users)
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
            answer = asked(case, lies)
            if answer is None:
                continue
            gained = case.outcome.copy()
            for i in pair:
                rows = case.problem.rows_of(i)
                gained[rows] = outcome(case, answer, i)[rows]
            gain = float(case.lost(case.outcome, gained)[list(pair)].min())
            if gain > MARGIN and verified(case, answer):
                names = [case.name(i) for i in pair]
                first = case.shown(pair[0], gained, case.outcome)[1]
                then = case.shown(pair[0], case.outcome, gained)[1]
                second, also = case.shown(pair[1], case.outcome, gained)
                text = f"{names[0]} and {names[1]} both gain by lying together: "
                text += f"{first} and {second} become {then} and {also}"
                example = lying(case, lies, text, gained)
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
    worst, liar, after = 0.0, 0, case.outcome
    tried = 0
    for i in case.timed(case.shuffled(len(case.scenario.users), 100)):
        users = _split(case, i)
        if users is None:
            continue
        tried += 1
        answer = case.answer(case.scenario.cluster, users)
        together = outcome(case, answer, i, claimed=(i, i + 1))
        gain = float(case.lost(case.outcome, together)[i])
        gain = gain if gain > case.noise(answer) else 0.0
        if gain > worst:
            worst, liar, after = gain, i, together
    text = f"none of {format_count(tried, 'user')} gains by becoming two with half the weight each"
    if worst <= MARGIN:
        return case.found("split-proof", 0.0, text, tries=tried, searched=True)
    me = case.name(liar)
    text = f"{me} gains by becoming two users: "
    text += " become ".join(case.shown(liar, case.outcome, after))
    example = case.changed(
        f"{me} becomes two users", text, users=_split(case, liar),
        before=case.by_name(case.outcome, [liar]), after=case.by_name(after, [liar]),
    )  # fmt: skip
    return case.found("split-proof", worst, text, counterexample=example, tries=tried)


def _split(case: Case, user: int) -> list[User] | None:
    """Return the users with one of them as two; None if its tasks cannot be split."""
    record = case.scenario.users[user]
    names = {u.name for u in case.scenario.users}
    other = next(n for k in range(len(names) + 1) if (n := f"{record.name}-{k + 2}") not in names)
    tasks = [one.tasks for one in record.kinds or (record,)]
    half = [None if t is None else float(t // 2) if case.whole else t / 2 for t in tasks]
    if case.whole and not any(h is None or h > 0 for h in half):
        return None
    rest = [None if t is None or h is None else t - h for t, h in zip(tasks, half, strict=True)]
    users = list(case.scenario.users)
    users[user : user + 1] = [
        replace(_with_tasks(record, part), weight=record.weight / 2, name=name)
        for name, part in ((record.name, half), (other, rest))
    ]
    return users


def _with_tasks(record: User, tasks: list[float | None]) -> User:
    """Return a user with another number of tasks, of each of its kinds."""
    if not record.kinds:
        return replace(record, tasks=tasks[0])
    kinds = [replace(kind, tasks=t) for kind, t in zip(record.kinds, tasks, strict=True)]
    return replace(record, kinds=tuple(kinds))
