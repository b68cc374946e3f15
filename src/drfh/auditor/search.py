"""A search for lies that pay: directed candidates, then patterns from the best of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from drfh.auditor.case import Case, lost
from drfh.auditor.finding import Counterexample
from drfh.auditor.lies import Lie, candidates, told, utility
from drfh.auditor.words import amount_text
from drfh.errors import InputError, SolverError
from drfh.mechanisms import Solution, prepare
from drfh.problem import Floats
from drfh.workload import User, shown_restriction

__all__ = ["MARGIN", "Search", "asked", "lying", "verified", "who_pays"]

#: A gain below this is not told from a solver's noise.
MARGIN = 1e-4
_BEST = 5
_SMALLEST_STEP = 0.02
_RANDOM = 4
_MOST_MOVES = 60


class Search:
    """Directed candidates for every user, then a pattern search from the best of them."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.tries = 0
        self.planned = 0
        self._best: list[tuple[float, float, Lie]] = []  # (gain, utility, lie)

    def run(self) -> tuple[Lie, float, float, str] | None:
        """Return the best lie that stands, what the truth and the lie give, and the proof."""
        case = self._case
        n = len(case.problem.users)
        prepare(case.problem, case.tries)
        rng = np.random.default_rng(case.seed)
        lies = [
            lie
            for i in case.shuffled(n, max(1, case.tries // 20))
            for lie in (*candidates(case, i, rng), *self._random(i, rng))
        ]
        # In any order: what is cut off, by their number or by time, is a sample of all.
        order = rng.permutation(len(lies))[: case.tries].tolist()
        self.planned = len(order)
        for lie in case.timed([lies[k] for k in order]):
            self._try(lie)
        for _, _, lie in case.timed(list(self._best)):
            if lie.demand is not None:
                self._pattern(lie)
        for gain, gained, lie in self._best:
            if gain <= MARGIN:
                break
            answer = asked(case, [lie])
            if answer is not None and (how := verified(case, answer)):
                return lie, float(case.tasks[lie.user]), gained, how
        return None

    def _random(self, user: int, rng: np.random.Generator) -> list[Lie]:
        true = self._case.problem.demand[user]
        return [
            Lie(user, "a demand drawn at random", true * rng.lognormal(0, 0.5, len(true)))
            for _ in range(_RANDOM)
        ]

    def _try(self, lie: Lie) -> float:
        self.tries += 1
        case = self._case
        answer = asked(case, [lie])
        if answer is None:
            return 0.0
        gained = utility(case, answer, lie.user)
        truth = float(case.tasks[lie.user])
        gain = float(lost(truth, gained))
        if gain > 1e-9:
            self._best.append((gain, gained, lie))
            self._best.sort(key=lambda entry: -entry[0])
            del self._best[_BEST:]
        return gain

    def _pattern(self, lie: Lie) -> None:
        """Move one coordinate at a time while it pays; halve the step where it does not."""
        if lie.demand is None:
            return
        best, demand, step = self._try(lie), lie.demand, 0.5
        last = self.tries + _MOST_MOVES
        while step > _SMALLEST_STEP and self.tries < last:
            moved = False
            for r in np.flatnonzero(demand > 0).tolist():
                for factor in (1 + step, 1 / (1 + step)):
                    claim: Floats = demand.copy()
                    claim[r] *= factor
                    gain = self._try(Lie(lie.user, _described(self._case, lie.user, claim), claim))
                    if gain > best * (1 + 1e-9):
                        best, demand, moved = gain, claim, True
            if not moved:
                step /= 2


def _described(case: Case, user: int, claim: Floats) -> str:
    names = case.problem.cluster.resources
    parts = [f"{amount_text(a)} {r}" for r, a in zip(names, claim.tolist(), strict=True) if a > 0]
    true = case.problem.demand[user]
    instead = [f"{amount_text(a)} {r}" for r, a in zip(names, true.tolist(), strict=True) if a > 0]
    return f"{', '.join(parts)} instead of {', '.join(instead)}"


def asked(case: Case, lies: list[Lie]) -> Solution | None:
    """Return the mechanism's answer when users lie; None if such a claim is refused."""
    try:
        return case.ask(told(case, lies))
    except (InputError, SolverError):
        return None


def verified(case: Case, answer: Solution) -> str:
    """Return how both answers are proven, or nothing."""
    if case.whole:
        return "counting in integers"
    first, second = case.certificate, answer.certificate
    if first is None or second is None:
        # Nothing to prove it with: the answer was asked for twice, and the reader is told so.
        return "asking again only, there is no certificate" if first is second else ""
    return "certificates" if first.verify() and second.verify() else ""


def who_pays(case: Case, lies: list[Lie]) -> tuple[str, ...]:
    """Return who pays for the lie."""
    answer = asked(case, lies)
    if answer is None:
        return ()
    fall = lost(answer.placement.user_tasks, case.tasks)
    for lie in lies:
        fall[lie.user] = 0.0
    return case.hurt(fall)


def lying(
    case: Case, lies: list[Lie], text: str, before: dict[str, float], after: dict[str, float]
) -> Counterexample:
    """Return the counterexample: the case as the users claim it to be."""
    users = list(case.scenario.users)
    names = case.problem.cluster.resources
    truths = []
    for lie in lies:
        user = users[lie.user]
        if lie.record is not None:
            user = lie.record
        if lie.demand is not None:
            claim = dict(zip(names, lie.demand.tolist(), strict=True))
            user = replace(user, demand={r: a for r, a in claim.items() if a > 0})
        truths.append(f"{user.name} in truth: {_in_truth(users[lie.user])}")
        users[lie.user] = user
    who = " and ".join(case.name(lie.user) for lie in lies)
    return case.changed(
        f"{who} {'lies' if len(lies) == 1 else 'lie'}", f"{text}. {'; '.join(truths)}.",
        users=users, before=before, after=after,
    )  # fmt: skip


def _in_truth(user: User) -> str:
    parts = [f"{amount_text(amount)} {r}" for r, amount in user.demand.items() if amount > 0]
    if user.tasks is not None:
        parts.append(f"{amount_text(user.tasks)} tasks")
    if user.servers is not None:
        parts.append(f"servers {shown_restriction(user.servers)}")
    return ", ".join(parts)
