"""The case under audit: a problem, the bundles, and the mechanism."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np

from drfh.allocation.problem import Floats, Ints, Problem, by_mix
from drfh.allocation.proofs.certificate import Certificate, Proof
from drfh.allocation.proofs.welfare import WelfareProof
from drfh.auditor.bundles import Bundles
from drfh.auditor.finding import Counterexample, Finding, Verdict
from drfh.formatting import format_count, format_number, join_names
from drfh.mechanisms import Mechanism, Solution
from drfh.mechanisms.shared.leximin import lexicographic
from drfh.model.cluster import Cluster
from drfh.model.scenario import Scenario
from drfh.model.users import Kind, User

__all__ = ["Case", "lost", "rows_of_others", "worst_of"]

Step = TypeVar("Step")

#: A relative difference below this is round-off: the flat top of a welfare leaves tasks open to
#: about 5e-6 on degenerate problems, however small the gap.
ROUND_OFF = 1e-5
_MOST_NOISE = 1e-4
_LAST_DIGITS = 1e-10
_MOST_KINDS = 3


def lost(has: Floats | float, should: Floats | float) -> Floats:
    """Return the missing part of what somebody should have, 0 to 1.

    Examples
    --------
    >>> lost(3.0, 4.0).item(), lost(4.0, 3.0).item()
    (0.25, 0.0)
    """
    has, should = np.asarray(has, dtype=float), np.asarray(should, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        part: Floats = np.where(should > has, 1 - has / should, 0.0)
    return np.where(part > _LAST_DIGITS, part, 0.0)


def rows_of_others(problem: Problem, users: Sequence[int]) -> Ints:
    """Return the positions in a problem of all but some users.

    Examples
    --------
    >>> from drfh import Server
    >>> everybody = [User(name, {"cpu": 1}) for name in ("a", "b", "c")]
    >>> rows_of_others(Problem.build(Cluster([Server({"cpu": 4})]), everybody), [1]).tolist()
    [0, 2]
    """
    rows = np.concatenate([problem.rows_of(user) for user in users])
    return np.delete(np.arange(len(problem.users)), rows)


def worst_of(amounts: Floats) -> int:
    """Return the position of the largest amount, of the first of those that differ by round-off.

    Examples
    --------
    >>> worst_of(np.array([0.1, 0.3, 0.3 + 1e-12]))
    1
    """
    return int(np.argmax(amounts >= amounts.max() * (1 - _LAST_DIGITS)))


@dataclass(frozen=True, eq=False)
class Case:
    """What is audited.

    Attributes
    ----------
    scenario : Scenario
        Cluster, users, mechanism and parameters.
    bundles : Bundles
        What everybody holds.
    mechanism : callable or None
        Asks the mechanism about another problem; None for what was observed somewhere.
    filled : bool
        Whether whole tasks were filled in, so that what is proven for divisible tasks is not.
    promised : array or None
        Tasks that were promised before they met the servers.
    seed : int
        For what is sampled.
    tries : int
        About how many problems a search may solve.
    seconds : float
        How long the search for one property may go on.
    progress : callable
        Called with the part that is done, from 0 to 1.
    """

    scenario: Scenario
    bundles: Bundles
    mechanism: Mechanism | None = None
    certificate: Proof | None = None
    filled: bool = False
    promised: Floats | None = None
    seed: int = 0
    tries: int = 6_000
    seconds: float = 20.0
    progress: Callable[[float], None] = lambda part: None

    @property
    def problem(self) -> Problem:
        """Cluster and users as arrays."""
        return self.bundles.problem

    @property
    def whole(self) -> bool:
        """Whether tasks are whole."""
        return self.bundles.whole

    @property
    def tasks(self) -> Floats:
        """Tasks of each user, of each of its kinds."""
        return self.bundles.tasks

    @cached_property
    def outcome(self) -> Floats:
        """Tasks that each user could run with what it holds, its kinds placed anew."""
        return self._outcome(self.bundles, self.certificate)

    def outcome_of(self, answer: Solution) -> Floats:
        """Return the tasks that each user could run after another answer."""
        if answer.placement.problem.mixes is None:
            return answer.placement.user_tasks
        bundles = Bundles.of(answer.placement, whole=self.whole)
        return self._outcome(bundles, answer.certificate)

    @staticmethod
    def _outcome(bundles: Bundles, proof: Proof | None) -> Floats:
        # The rounds of a mix leave nobody anything to gain by placing its kinds anew.
        if isinstance(proof, Certificate) and proof.rule is by_mix:
            return bundles.tasks
        return bundles.best_tasks

    def outcome_beside(self, users: Sequence[int], tasks: Floats) -> Floats:
        """Return the outcome with other tasks for all but some users."""
        outcome = self.outcome.copy()
        outcome[rows_of_others(self.problem, users)] = tasks
        return outcome

    def decisive(self, has: Floats, other: Floats) -> tuple[Floats, Floats]:
        """Return the numbers by which each user tells two outcomes apart.

        Its tasks; with several kinds of tasks the first that differ of the sorted numbers of
        mixes, tasks / ratio.
        """
        mixes = self.problem.mixes
        if mixes is None:
            return has, other
        pair = []
        for tasks in (has, other):
            number = tasks / mixes.ratio
            pair.append(number[np.lexsort((number, mixes.owner))])
        differ = np.maximum(lost(*pair), lost(*pair[::-1])) > self.tolerance
        # The first of each user, and before it the first that differs, if there is one.
        order = np.lexsort((~differ, mixes.owner))
        _, first = np.unique(mixes.owner, return_index=True)
        return pair[0][order[first]], pair[1][order[first]]

    def lost(self, has: Floats, should: Floats) -> Floats:
        """Return what part each user misses of another outcome."""
        return lost(*self.decisive(has, should))

    @property
    def weight(self) -> Floats:
        """Weight of each user."""
        mixes = self.problem.mixes
        return self.problem.weight if mixes is None else mixes.weight

    def shares(self, tasks: Floats) -> Floats:
        """Return the dominant share of each user with so many tasks of each kind."""
        problem = self.problem
        if problem.mixes is None:
            share: Floats = tasks * problem.task_share
            return share
        most: Floats = problem.mixes.sums(tasks[:, None] * problem.part_of_pool).max(axis=1)
        return most

    @cached_property
    def levels(self) -> Floats:
        """Dominant share / weight of each user."""
        levels: Floats = self.tasks * self.problem.task_share / self.problem.weight
        return levels

    @cached_property
    def fair(self) -> Solution:
        """The exact DRFH optimum beside it."""
        return lexicographic(self.problem)

    #: Relative differences below this are round-off.
    tolerance: ClassVar[float] = ROUND_OFF

    @property
    def unproven(self) -> str:
        """Say so if the mechanism's own answer is not proven."""
        proof = self.certificate
        if proof is None or proof.closed:
            return ""
        return f"the answer is NOT proven {proof.what}: relative gap {proof.gap:.1e}"

    def noise(self, answer: Solution) -> float:
        """Return the relative round-off of two answers; inf if one is unproven."""
        worst = ROUND_OFF
        for proof in (self.certificate, answer.certificate):
            if proof is None:
                continue
            if not proof.closed:
                return math.inf
            if isinstance(proof, WelfareProof):
                # Near the top a welfare is flat: it fixes tasks to half as many digits.
                worst = max(worst, min(_MOST_NOISE, 10 * math.sqrt(proof.gap)))
        return worst

    def fall(self, answer: Solution, before: Floats, after: Floats) -> Floats:
        """Return what each user misses after a change, beyond solver noise."""
        part = self.lost(after, before)
        return np.where(part > self.noise(answer), part, 0.0)

    def ask(self, problem: Problem) -> Solution:
        """Return the mechanism's answer to another problem."""
        if self.mechanism is None:
            raise RuntimeError("an observed case has no mechanism to ask")
        return self.mechanism(problem)

    def answer(self, cluster: Cluster, users: Iterable[User]) -> Solution:
        """Return what the mechanism gives in another case."""
        return self.ask(Problem.build(cluster, users))

    def by_name(self, tasks: Floats, users: Iterable[int] | None = None) -> dict[str, float]:
        """Return tasks by user (and kind), of all users or of some."""
        named = dict(zip(self.problem.names(), tasks.tolist(), strict=True))
        if users is None:
            return named
        rows = np.concatenate([self.problem.rows_of(user) for user in users])
        return {name: named[name] for name in map(self.kind_name, rows.tolist())}

    def name(self, user: int) -> str:
        """Return the name of a user."""
        return self.scenario.users[user].name

    def kind_name(self, row: int) -> str:
        """Return the name of a row of the problem, ``user/kind``."""
        return self.problem.users[row].name

    def kinds_of(self, user: int) -> list[Kind]:
        """Return a user's kinds of tasks, names and ratios filled in."""
        kinds, mixes = self.scenario.users[user].kinds, self.problem.mixes
        if mixes is None or not kinds:
            return []
        ratios = mixes.ratio[self.problem.rows_of(user)].tolist()
        return [
            replace(kind, ratio=ratio, name=kind.name or str(number))
            for number, (kind, ratio) in enumerate(zip(kinds, ratios, strict=True), start=1)
        ]

    def shown(self, user: int, tasks: Floats, other: Floats) -> tuple[str, str]:
        """Return two outcomes of a user in words, where they differ."""
        rows = self.problem.rows_of(user)
        kinds = self.scenario.users[user].kinds
        if not kinds:
            return format_count(tasks[rows[0]], "task", 4), format_number(other[rows[0]])
        differ = np.maximum(lost(tasks, other), lost(other, tasks))[rows] > self.tolerance
        chosen = np.flatnonzero(differ) if differ.any() else np.arange(len(rows))
        first, second = (
            join_names(
                [
                    f"{format_number(number)} {kinds[k].name or f'of kind {k + 1}'}"
                    for k, number in zip(chosen.tolist(), outcome[rows[chosen]], strict=True)
                ],
                most=_MOST_KINDS,
                thing="other kind",
            )
            for outcome in (tasks, other)
        )
        return first, second

    def hurt(
        self, amounts: Floats, names: Sequence[str] | None = None, most: int = 10
    ) -> tuple[str, ...]:
        """Return names of users (or others) with the largest amounts."""
        order = np.argsort(-amounts, kind="stable")[:most].tolist()
        names = [user.name for user in self.scenario.users] if names is None else names
        return tuple(names[i] for i in order if amounts[i] > self.tolerance)

    def changed(
        self,
        title: str,
        text: str,
        *,
        detail: str = "",
        cluster: Cluster | None = None,
        users: Sequence[User] | None = None,
        before: dict[str, float] | None = None,
        after: dict[str, float] | None = None,
    ) -> Counterexample:
        """Return a counterexample: the case with another cluster or other users.

        Its story is the text of the finding, and `detail`.
        """
        base = self.scenario
        story = f"{text}. {detail}" if detail else text
        scenario = replace(
            base,
            cluster=base.cluster if cluster is None else cluster,
            users=base.users if users is None else tuple(users),
            title=title,
            description=story,
        )
        return Counterexample(story, scenario, before or {}, after or {}, detail)

    def found(
        self,
        name: str,
        amount: float,
        text: str,
        *,
        hurt: tuple[str, ...] = (),
        counterexample: Counterexample | None = None,
        tries: int | None = None,
        searched: bool = False,
    ) -> Finding:
        """Return a finding whose verdict follows from the amount."""
        fails = amount > self.tolerance
        verdict: Verdict = "fails" if fails else "not found" if searched else "holds"
        return Finding(
            name,
            verdict,
            float(amount) if fails else 0.0,
            text,
            hurt if fails else (),
            counterexample if fails else None,
            tries=tries,
        )

    def skipped(self, name: str, why: str) -> Finding:
        """Return a finding for a property that cannot be measured here."""
        return Finding(name, "not applicable", 0.0, why)

    def timed(self, steps: Sequence[Step]) -> Iterator[Step]:
        """Yield steps and report progress, until the time is up."""
        started = time.perf_counter()
        for done, step in enumerate(steps):
            if time.perf_counter() - started > self.seconds:
                return
            self.progress(done / len(steps))
            yield step

    def shuffled(self, count: int, most: int) -> list[int]:
        """Return all positions if few, else a seeded sample, in order."""
        if count <= most:
            return list(range(count))
        chosen = np.random.default_rng(self.seed).choice(count, most, replace=False)
        return sorted(int(i) for i in chosen)
