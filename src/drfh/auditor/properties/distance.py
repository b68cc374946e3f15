"""``fair``, ``promise-kept`` and ``price-of-fairness``: how far from three yardsticks."""

from __future__ import annotations

import numpy as np

from drfh.auditor.case import Case, lost, worst_of
from drfh.auditor.finding import Finding
from drfh.formatting import format_count, format_number, format_percent
from drfh.mechanisms.utilitarian import utilitarian

__all__ = ["fair", "price_of_fairness", "promise_kept"]


def fair(case: Case) -> Finding:
    """Everybody has at least its level in the exact DRFH optimum."""
    if case.problem.mixes is not None:
        return _fair_shares(case)
    best = case.fair.placement.user_tasks
    short = lost(case.tasks, best)
    i = worst_of(short)
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
        before=case.by_name(case.tasks),
        after=case.by_name(best),
    )
    return case.found("fair", amount, text, hurt=case.hurt(short), counterexample=example)


def _fair_shares(case: Case) -> Finding:
    """Compare dominant shares of users with several kinds of tasks."""
    best = case.fair.placement.user_tasks
    has, should = case.shares(case.tasks), case.shares(best)
    short = lost(has, should)
    i, over = worst_of(short), worst_of(lost(should, has))
    text = "everybody has at least its share of the DRFH optimum"
    if short[i] > case.tolerance:
        text = f"{format_percent(short[i])} from fair: {case.name(i)} has a dominant share of "
        text += f"{format_percent(has[i])}, {format_percent(should[i])} in the DRFH optimum"
        if lost(should[over], has[over]) > case.tolerance:
            text += f"; {case.name(over)} is over, {format_percent(has[over])} instead of "
            text += format_percent(should[over])
    example = case.changed(
        f"{case.name(i)} is below its fair share", text, before=case.by_name(case.tasks),
        after=case.by_name(best),
    )  # fmt: skip
    return case.found("fair", short[i], text, hurt=case.hurt(short), counterexample=example)


def promise_kept(case: Case) -> Finding:
    """All that a pooled mechanism promises can be placed on the servers at hand."""
    if case.promised is None:
        return case.skipped("promise-kept", "nothing is promised beyond what is placed")
    short = lost(case.tasks, case.promised)
    i = worst_of(short)
    amount = float(short[i])
    if amount <= case.tolerance:
        return case.found("promise-kept", amount, "all that is promised can be placed")
    me = case.kind_name(i)
    text = (
        f"{me} is promised {format_count(case.promised[i], 'task', 4)} and "
        f"{format_number(case.tasks[i])} can be "
    )
    text += "placed"
    example = case.changed(
        f"the promise to {me} cannot be placed", text, before={me: float(case.promised[i])},
        after={me: float(case.tasks[i])},
    )  # fmt: skip
    hurt = case.hurt(short, case.problem.names())
    return case.found("promise-kept", amount, text, hurt=hurt, counterexample=example)


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
