"""``split-proof``: no user gains by becoming two users."""

from __future__ import annotations

from dataclasses import replace

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
    text = f"none of {some(tried, 'user')} gains by becoming two with half the weight each"
    if worst <= MARGIN:
        return case.found("split-proof", 0.0, text, tries=tried, searched=True)
    me = case.name(liar)
    text = f"{me} gains by becoming two users: {tasks_text(case.tasks[liar])} become "
    text += number(after)
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
