"""The auditor: every fairness property measured on a given cluster, with counterexamples."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, Literal

from drfh.allocation.allocation import Allocation
from drfh.allocation.problem import Problem
from drfh.auditor.answer import FairnessAnswer, Sentence, TeamShare, Topic
from drfh.auditor.bundles import Bundles
from drfh.auditor.case import Case
from drfh.auditor.finding import OBSERVED, Counterexample, Finding, Report
from drfh.auditor.observed import Table, observed_bundles
from drfh.auditor.properties.consistency import consistent
from drfh.auditor.properties.distance import fair, price_of_fairness, promise_kept
from drfh.auditor.properties.efficiency import feasible, non_wasteful, pareto
from drfh.auditor.properties.envy import envy_free, envy_free_1, envy_free_literal
from drfh.auditor.properties.monotonicity import population_monotone, resource_monotone
from drfh.auditor.properties.reductions import (
    bbf,
    bottleneck_fair,
    bottleneck_share,
    single_resource,
    single_server,
)
from drfh.auditor.properties.sharing import dedicated_cloud, sharing_incentive
from drfh.auditor.properties.truthfulness import group_truthful, split_proof, truthful
from drfh.auditor.running import answer_of
from drfh.errors import InputError, UnknownNameError
from drfh.mechanisms import Mechanism, check_kinds, check_parameters, find_mechanism, solve
from drfh.mechanisms.drfh import drfh
from drfh.mechanisms.shared.card import beyond_kinds, card_of
from drfh.mechanisms.shared.progressive_filling import progressive_filling
from drfh.model.cluster import Cluster
from drfh.model.scenario import Scenario
from drfh.model.users import User

__all__ = [
    "PROPERTIES",
    "Counterexample",
    "FairnessAnswer",
    "Finding",
    "Property",
    "PropertyGroup",
    "Report",
    "Sentence",
    "TeamShare",
    "Topic",
    "answer_of",
    "audit",
    "case_of",
]


class PropertyGroup(StrEnum):
    """What a property is about, as a heading."""

    CLUSTER = "About your cluster"
    RULE = "About the rule"


@dataclass(frozen=True, slots=True)
class Property:
    """A property that can be measured.

    Attributes
    ----------
    title : str
        What it asks, in at most eight words.
    check : callable
        From a case to a finding.
    of_mechanism : bool
        Whether it is about a mechanism (what it would do in another case) and not about one
        allocation.
    kinds : str
        Where users have several kinds of tasks it is measured ``"always"``, only if tasks are
        ``"divisible"`` (how many whole ones fit into a bundle is not computed), or ``"never"``.
    """

    title: str
    check: Callable[[Case], Finding]
    of_mechanism: bool = False
    kinds: Literal["always", "divisible", "never"] = "always"

    @property
    def group(self) -> PropertyGroup:
        """What it is about: the cluster as it is, or the rule."""
        return PropertyGroup.RULE if self.of_mechanism else PropertyGroup.CLUSTER

    def not_for(self, case: Case) -> str:
        """Return why several kinds of tasks keep it unmeasured, or nothing."""
        if case.problem.mixes is None or self.kinds == "always":
            return ""
        if self.kinds == "never":
            return "measured for one kind of tasks a user"
        return "measured for divisible tasks, or one kind of tasks a user" if case.whole else ""


#: Every property by name.
PROPERTIES: dict[str, Property] = {
    "feasible": Property("everything fits on its servers", feasible),
    "non-wasteful": Property("teams can use all that they hold", non_wasteful),
    "promise-kept": Property("what is promised can be placed", promise_kept),
    "fair": Property("nobody has less than its fair share", fair),
    "envy-free": Property(
        "nobody would run more with another's part", envy_free, kinds="divisible"
    ),
    "envy-free-literal": Property(
        "no envy, weights and numbers of tasks ignored", envy_free_literal, kinds="never"
    ),
    "envy-free-1": Property("no envy, give or take one task", envy_free_1, kinds="never"),
    "pareto": Property("nobody could have more without others losing", pareto),
    "sharing-incentive": Property(
        "as good as its part of every server", sharing_incentive, kinds="divisible"
    ),
    "dedicated-cloud": Property(
        "as good as servers of one's own", dedicated_cloud, kinds="divisible"
    ),
    "bottleneck-fair": Property(
        "equal parts of what all need most", bottleneck_fair, kinds="never"
    ),
    "bottleneck-share": Property("its part of what all need most", bottleneck_share, kinds="never"),
    "bbf": Property("no justified complaint about a full resource", bbf, kinds="never"),
    "price-of-fairness": Property("tasks against the most that could run", price_of_fairness),
    "population-monotone": Property("nobody loses when a team leaves", population_monotone, True),
    "resource-monotone": Property("nobody loses when servers are added", resource_monotone, True),
    "consistent": Property("stable when a team leaves with its part", consistent, True),
    "single-server": Property("on one server it is DRF", single_server, True, kinds="never"),
    "single-resource": Property(
        "with one resource it is max-min fair", single_resource, True, kinds="never"
    ),
    "split-proof": Property("becoming two teams does not pay", split_proof, True),
    "truthful": Property(
        "misreporting what one needs does not pay", truthful, True, kinds="divisible"
    ),
    "group-truthful": Property(
        "misreporting together does not pay both", group_truthful, True, kinds="divisible"
    ),
}


def audit(
    subject: Allocation | Scenario | Cluster,
    users: Iterable[User] | None = None,
    *,
    mechanism: str | Mechanism | None = None,
    whole_tasks: bool = False,
    observed: Table | None = None,
    properties: Sequence[str] | None = None,
    seed: int = 0,
    tries: int = 6_000,
    seconds: float = 20.0,
    progress: Callable[[str, float], None] | None = None,
    on_answer: Callable[[FairnessAnswer], None] | None = None,
    **parameters: Any,
) -> Report:
    """Measure every fairness property of an allocation, a mechanism, or what really ran.

    Parameters
    ----------
    subject
        An allocation; or a scenario; or a cluster, with its `users`.
    users
        Who shares the cluster, if `subject` is one.
    mechanism
        A name or a function; by default that of the scenario.
    whole_tasks
        Fill with whole tasks, as :func:`drfh.allocate` does.
    observed
        What another scheduler did: rows, or a polars, pandas or Arrow table, with user, server
        and tasks or amounts. Then properties of mechanisms do not apply.
    properties
        Names from :data:`PROPERTIES`; by default all.
    seed, tries
        For the searches: what is sampled, and about how many problems are solved.
    seconds
        For the searches: how long the one for a property may go on.
    progress
        Called with the name of a property and the part of it that is done.
    on_answer
        With `observed`: called with the answer, before properties are measured.
    **parameters
        For the mechanism.

    Returns
    -------
    Report
        One finding a property, the worst first; of what was observed, the answer too.

    Examples
    --------
    >>> import drfh
    >>> cluster = drfh.Cluster([
    ...     drfh.Server({"cpu": 6, "memory": 1}), drfh.Server({"cpu": 1, "memory": 6}),
    ... ])
    >>> users = [drfh.User("ann", {"cpu": 1, "memory": 0.1}),
    ...          drfh.User("bob", {"cpu": 1, "memory": 1})]
    >>> report = audit(cluster, users, properties=["envy-free", "sharing-incentive"])
    >>> report["envy-free"].verdict
    'holds'
    >>> report["sharing-incentive"].text
    'ann has 1.818 tasks and would have 3.5 with its part of every server'
    """
    started = time.perf_counter()
    case = case_of(
        subject,
        users,
        mechanism=mechanism,
        whole_tasks=whole_tasks,
        observed=observed,
        **parameters,
    )
    case = replace(case, seed=seed, tries=tries, seconds=seconds)
    chosen = list(PROPERTIES) if properties is None else list(properties)
    for name in chosen:
        if name not in PROPERTIES:
            raise UnknownNameError("property", str(name), PROPERTIES)
    answer = answer_of(case) if case.mechanism is None else None
    if answer is not None and on_answer is not None:
        on_answer(answer)
    findings = []
    for name in chosen:
        report = partial(progress, name) if progress is not None else case.progress
        report(0.0)
        findings.append(_checked(replace(case, progress=report), name))
        report(1.0)
    tasks = case.by_name(case.tasks)
    warnings = (case.unproven,) if case.unproven else ()
    took = time.perf_counter() - started
    return Report.of(case.scenario, _subject(case), findings, tasks, took, warnings, answer)


def _checked(case: Case, name: str) -> Finding:
    """Measure one property; add what is proven about it."""
    started = time.perf_counter()
    asked = PROPERTIES[name]
    if asked.of_mechanism and case.mechanism is None:
        finding = case.skipped(name, "needs a mechanism: one allocation cannot show it")
    elif asked.of_mechanism and case.unproven:
        finding = case.skipped(name, case.unproven)
    elif why := asked.not_for(case):
        finding = case.skipped(name, why)
    else:
        try:
            finding = asked.check(case)
        except InputError as error:
            finding = case.skipped(name, f"the mechanism refuses a case of this check: {error}")
    claim = None
    if case.mechanism is not None and not case.filled:
        claim = card_of(case.mechanism).claims.get(name)
    if claim is not None and claim.holds and finding.verdict != "not applicable":
        unmet = claim.unmet(case.problem, whole=case.whole, parameters=case.scenario.parameters)
        proof = "" if unmet or case.unproven else claim.source
        finding = replace(finding, proof=proof, outside=unmet)
    elif claim is not None and not claim.holds and finding.verdict in ("holds", "not found"):
        finding = replace(finding, known=claim.source)
    elif case.filled and finding.verdict != "not applicable" and _proven_if_divisible(name):
        finding = replace(finding, outside=("divisible tasks", *beyond_kinds(case.problem)))
    return replace(finding, seconds=time.perf_counter() - started)


def _proven_if_divisible(name: str) -> bool:
    """Return whether DRFH has the property, had whole tasks not been filled in."""
    claim = card_of(drfh).claims.get(name)
    return claim is not None and claim.holds


def _subject(case: Case) -> str:
    if case.mechanism is None:
        return OBSERVED
    return f"{case.scenario.mechanism}{', whole tasks' if case.filled else ''}"


def case_of(
    subject: Allocation | Scenario | Cluster,
    users: Iterable[User] | None = None,
    *,
    mechanism: str | Mechanism | None = None,
    whole_tasks: bool = False,
    observed: Table | None = None,
    **parameters: Any,
) -> Case:
    """Return what is to be audited: parameters as for :func:`audit`."""
    if isinstance(subject, Allocation):
        if users is not None or mechanism is not None or observed is not None or parameters:
            raise InputError("subject", "must be a Scenario or a Cluster to go with anything else")
        return _of_allocation(subject)
    if mechanism == "whole-tasks":  # as `compare` calls it
        mechanism, whole_tasks = "drfh", True
    if isinstance(subject, Scenario):
        # Jobs and events are of no matter here, and users of a counterexample may have none.
        scenario = replace(subject, jobs=(), events=())
        if mechanism is None:
            parameters = {**scenario.parameters, **parameters}
            whole_tasks = bool(parameters.pop("whole_tasks", False)) or whole_tasks
    elif isinstance(subject, Cluster):
        if users is None:
            raise InputError("users", "must be given with a cluster")
        scenario = Scenario(subject, tuple(users))
    else:
        raise InputError("subject", "must be an Allocation, a Scenario or a Cluster", subject)
    problem = Problem.build(scenario.cluster, scenario.users)
    if observed is not None:
        bundles = observed_bundles(problem, observed, whole=whole_tasks)
        return Case(scenario, bundles)
    name, function = find_mechanism(scenario.mechanism if mechanism is None else mechanism)
    check_parameters(name, function, parameters, whole_tasks=whole_tasks)
    return _of_mechanism(scenario, name, function, parameters, problem, whole_tasks)


def _of_mechanism(
    scenario: Scenario,
    name: str,
    function: Mechanism,
    parameters: dict[str, Any],
    problem: Problem,
    whole_tasks: bool,
) -> Case:
    check_kinds(problem, name, function)
    if whole_tasks:
        if name != "drfh":
            raise InputError("whole_tasks", "must be used with the mechanism drfh", name)
        chosen = {k: v for k, v in parameters.items() if k == "reference"}
        bound: Mechanism = partial(progressive_filling, **chosen)
    else:
        bound = partial(function, **parameters) if parameters else function
    solution = solve(name, bound, problem)
    kept = {**parameters, **({"whole_tasks": True, "filling": "paper"} if whole_tasks else {})}
    return Case(
        replace(scenario, mechanism=name, parameters=kept),
        Bundles.of(solution.placement, whole=solution.whole),
        bound,
        solution.certificate,
        whole_tasks,
        solution.promised,
    )


def _of_allocation(allocation: Allocation) -> Case:
    problem = allocation.problem
    scenario = Scenario(
        problem.cluster,
        allocation.users,
        mechanism=allocation.mechanism,
        parameters=allocation.parameters,
    )
    filled = allocation.divisible is not None
    return Case(
        scenario,
        Bundles.of(allocation.assignment, whole=allocation.whole),
        allocation.source,
        allocation.certificate,
        filled,
        allocation.promised_tasks,
    )
