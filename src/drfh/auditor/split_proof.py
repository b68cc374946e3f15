"""``split-proof``: no user gains by becoming two users."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from drfh.auditor.case import Case, lost
from drfh.auditor.finding import Finding
from drfh.auditor.search import MARGIN
from drfh.auditor.words import number, tasks_text
from drfh.resources import some
from drfh.workload import User

__all__ = ["split_proof"]


def split_proof(case: Case) -> Finding:
    """No user gains by becoming two users that split its weight and its tasks."""
    if case.scenario.parameters.get("endowments"):
        return case.skipped("split-proof", "endowments are given by name")
    worst, liar, after = 0.0, 0, 0.0
    tried = 0
    for i in case.timed(case.shuffled(len(case.problem.users), 100)):
        tried += 1
        users = _split(case, i)
        tasks = case.answer(case.scenario.cluster, users)
        together = float(tasks[i] + tasks[i + 1])
        gain = float(lost(float(case.tasks[i]), together))
        if gain > worst:
            worst, liar, after = gain, i, together
    text = f"none of {some(tried, 'user')} gains by becoming two with half the weight each"
    me = case.name(liar)
    if worst > max(MARGIN, case.tolerance):
        text = f"{me} gains by becoming two users: {tasks_text(case.tasks[liar])} become "
        text += number(after)
    example = case.changed(
        f"{me} becomes two users", text, users=_split(case, liar),
        before={me: float(case.tasks[liar])}, after={me: after},
    )  # fmt: skip
    amount = worst if worst > MARGIN else 0.0
    return case.found(
        "split-proof", amount, text, counterexample=example, tries=tried, searched=True
    )


def _split(case: Case, user: int) -> list[User]:
    record = case.scenario.users[user]
    names = {u.name for u in case.scenario.users}
    other = next(
        name for k in range(len(names) + 1) if (name := f"{record.name}-{k + 2}") not in names
    )
    tasks = None if record.tasks is None else record.tasks / 2
    if case.whole and tasks is not None:
        tasks = max(1.0, np.floor(tasks))
    half = replace(record, weight=record.weight / 2, tasks=tasks)
    users = list(case.scenario.users)
    users[user : user + 1] = [half, replace(half, name=other)]
    return users
