"""``truthful``, ``group-truthful`` and ``split-proof``: a search for lies that pay."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from drfh.auditor.bundles import Bundles
from drfh.auditor.case import Case, lost
from drfh.auditor.finding import Counterexample, Finding
from drfh.auditor.lies import Lie, candidates, told, utility
from drfh.auditor.words import amount_text, number, percent, tasks_text
from drfh.cluster import Cluster, Server
from drfh.errors import InputError, SolverError
from drfh.files import Scenario
from drfh.mechanisms import Mechanism, Solution, prepare
from drfh.mechanisms.filling import progressive_filling
from drfh.mechanisms.nash import nash
from drfh.problem import Floats, Problem
from drfh.resources import some
from drfh.workload import User

__all__ = ["group_truthful", "split_proof", "truthful"]

#: A gain below this is not told from a solver's noise.
MARGIN = 1e-4
_BEST = 5
_SMALLEST_STEP = 0.02
_PAIRS_OF_LIES = 16
_PART_FOR_PAIRS = 8  # of all tries, a part goes to pairs
_RANDOM = 4
_MOST_MOVES = 60


def truthful(case: Case) -> Finding:
    """No user gains by a lie: a directed search, then a pattern search from the best lies.

    A lie that pays is solved again and reported only if the certificates of both answers are
    closed (or tasks are whole, and counted in integers). With every search goes a control: the
    same search must find lies against Nash welfare and against filling with whole tasks.
    """
    control, fine = _control()
    search = _Search(case)
    best = search.run()
    said = f"no lie found in {search.tries:,} tries"
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
    example = _example(case, [lie], text, {me: truth}, {me: gained})
    finding = case.found(
        "truthful", float(lost(truth, gained)), text, hurt=_others(case, [lie]),
        counterexample=example, tries=search.tries,
    )  # fmt: skip
    return replace(finding, text=f"{text} (verified by {how}, {search.tries:,} tries)")


def group_truthful(case: Case) -> Finding:
    """No two users both gain by lying together; pairs are sampled."""
    n = len(case.problem.users)
    if n < 2:
        return case.skipped("group-truthful", "there is one user only")
    rng = np.random.default_rng(case.seed)
    pairs = [(i, j) for i in range(n) for j in range(i)] if n <= 60 else []
    if not pairs:
        drawn = rng.integers(0, n, (3 * case.tries, 2))
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
            answer = _asked(case, lies)
            gained = [0.0, 0.0] if answer is None else [utility(case, answer, i) for i in pair]
            gain = min(float(lost(t, g)) for t, g in zip(truth, gained, strict=True))
            if gain > MARGIN and answer is not None and _verified(case, answer):
                names = [case.name(i) for i in pair]
                text = f"{names[0]} and {names[1]} both gain by lying together: "
                text += f"{number(truth[0])} and {tasks_text(truth[1])} become "
                text += f"{number(gained[0])} and {number(gained[1])}"
                example = _example(
                    case, lies, text, dict(zip(names, truth, strict=True)),
                    dict(zip(names, gained, strict=True)),
                )  # fmt: skip
                return case.found(
                    "group-truthful", gain, text, hurt=_others(case, lies),
                    counterexample=example, tries=tries,
                )  # fmt: skip
    said = f"no pair of lies found that pays for both, in {tries:,} tries with "
    said += f"{some(looked_at, 'pair')} of users"
    return case.found("group-truthful", 0.0, said, tries=tries, searched=True)


def _together(menus: list[list[Lie]], most: int, rng: np.random.Generator) -> list[list[Lie]]:
    """Return pairs of lies: half of them the same in words, the others drawn at random."""
    second = {lie.words: lie for lie in menus[1]}
    same = [[lie, second[lie.words]] for lie in menus[0] if lie.words in second]
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


class _Search:
    """Directed candidates for every user, then a pattern search from the best of them."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.tries = 0
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
        for lie in case.timed([lies[k] for k in order]):
            self._try(lie)
        for _, _, lie in case.timed(list(self._best)):
            if lie.demand is not None:
                self._pattern(lie)
        for gain, gained, lie in self._best:
            if gain <= MARGIN:
                break
            answer = _asked(case, [lie])
            if answer is not None and (how := _verified(case, answer)):
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
        answer = _asked(case, [lie])
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


def _asked(case: Case, lies: list[Lie]) -> Solution | None:
    try:
        return case.ask(told(case, lies))
    except (InputError, SolverError):
        return None  # such a claim is refused


def _verified(case: Case, answer: Solution) -> str:
    """Return how both answers are proven, or nothing."""
    if case.whole:
        return "counting in integers"
    first, second = case.certificate, answer.certificate
    if first is None or second is None:
        # Closed formulas without a certificate: round-off is far below the margin.
        return "closed formulas" if first is None and second is None else ""
    return "certificates" if first.verify() and second.verify() else ""


def _others(case: Case, lies: list[Lie]) -> tuple[str, ...]:
    """Return who pays for the lie."""
    answer = _asked(case, lies)
    if answer is None:
        return ()
    fall = lost(answer.placement.user_tasks, case.tasks)
    for lie in lies:
        fall[lie.user] = 0.0
    return case.hurt(fall)


def _example(
    case: Case, lies: list[Lie], text: str, before: dict[str, float], after: dict[str, float]
) -> Counterexample:
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
        truths.append(f"{user.name} in truth: {users[lie.user]!r}")
        users[lie.user] = user
    who = " and ".join(case.name(lie.user) for lie in lies)
    return case.changed(
        f"{who} {'lies' if len(lies) == 1 else 'lie'}", f"{text}. {'; '.join(truths)}.",
        users=users, before=before, after=after,
    )  # fmt: skip


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
        found = _Search(_control_case(cluster, users, mechanism)).run()
        fine = fine and found is not None
        gain = 0.0 if found is None else found[2] / found[1] - 1
        words.append(f"{percent(gain)} against {name}")
    return f"the same search gains {' and '.join(words)}", fine


def _control_case(cluster: Cluster, users: list[User], mechanism: Mechanism) -> Case:
    solution = mechanism(Problem.build(cluster, users))
    bundles = Bundles.of(solution.placement, whole=solution.whole)
    scenario = Scenario(cluster, tuple(users))
    return Case(scenario, bundles, mechanism, solution.certificate, filled=solution.whole)
