"""``fair``, ``promise-kept`` and ``price-of-fairness``: how far from three yardsticks."""

from __future__ import annotations

import numpy as np

from drfh.auditor.case import Case, lost
from drfh.auditor.finding import Finding
from drfh.formatting import format_count, format_number, format_percent
from drfh.mechanisms.utilitarian import utilitarian

__all__ = ["fair", "price_of_fairness", "promise_kept"]


def fair(case: Case) -> Finding:
    """Everybody has at least its level in the exact DRFH optimum."""
    problem = case.problem
    best = case.fair.placement.user_tasks
    short = lost(case.tasks, best)
    i = int(np.argmax(short))
    amount = float(short[i])
    if amount <= case.tolerance:
        return case.found("fair", amount, "everybody has at least its share of the DRFH optimum")
    me = case.name(i)
    text = (
        f"{format_percent(amount)} from fair: {me} has {format_count(case.tasks[i], 'task', 4)}, "
    )
    text += f"{format_number(best[i])} in the DRFH optimum"
    over = int(np.argmax(case.tasks / np.where(best > 0, best, np.inf)))
    if lost(best[over], case.tasks[over]) > case.tolerance:
        text += f"; {case.name(over)} is over, {format_number(case.tasks[over])} instead of "
        text += format_number(best[over])
    example = case.changed(
        f"{me} is below its fair level",
        text,
        before=dict(zip(problem.names(), case.tasks.tolist(), strict=True)),
        after=dict(zip(problem.names(), best.tolist(), strict=True)),
    )
    return case.found("fair", amount, text, hurt=case.hurt(short), counterexample=example)


def promise_kept(case: Case) -> Finding:
    """All that a pooled mechanism promises can be placed on the servers at hand."""
    if case.promised is None:
        return case.skipped("promise-kept", "nothing is promised beyond what is placed")
    short = lost(case.tasks, case.promised)
    i = int(np.argmax(short))
    amount = float(short[i])
    if amount <= case.tolerance:
        return case.found("promise-kept", amount, "all that is promised can be placed")
    me = case.name(i)
    text = (
        f"{me} is promised {format_count(case.promised[i], 'task', 4)} and "
        f"{format_number(case.tasks[i])} can be "
    )
    text += "placed"
    example = case.changed(
        f"the promise to {me} cannot be placed", text, before={me: float(case.promised[i])},
        after={me: float(case.tasks[i])},
    )  # fmt: skip
    return case.found("promise-kept", amount, text, hurt=case.hurt(short), counterexample=example)


def price_of_fairness(case: Case) -> Finding:
    """Tasks in total against the most that could run (`utilitarian`)."""
    total = float(case.tasks.sum())
    most = float(utilitarian(case.problem).placement.user_tasks.sum())
    if not most > 0:
        return case.skipped("price-of-fairness", "no task can run")
    text = (
        f"{format_count(total, 'task', 4)} in total; {format_number(most)} could run if "
        "fairness did not count"
    )
    return Finding("price-of-fairness", "measured", float(lost(total, most)), text)
