"""Asking a mechanism what it gives for a workbook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drfh.allocation import Allocation
from drfh.comparison import WHOLE_TASKS
from drfh.errors import DrfhError, SolverError
from drfh.files import Scenario
from drfh.mechanisms import Mechanism, allocate
from drfh.web.slots import check_servers, slots_mechanism
from drfh.web.workbook import Workbook
from drfh.workload import User

__all__ = ["Answer", "answer_of", "own_mechanism", "own_parameters"]


@dataclass(frozen=True, eq=False)
class Answer:
    """What a mechanism gives, and what is known about it.

    Attributes
    ----------
    scenario : Scenario
        As the users report it.
    allocation : Allocation
        The answer.
    fair : Allocation
        The DRFH answer: the ideal. The same one, if that is the mechanism.
    mechanism : str
        Its name.
    seconds : float
        How long the solver took, certificate included.
    gap : float or None
        Relative gap of the proof; None if the mechanism has none.
    proven : bool
        Whether the gap is closed.
    truths : dict
        The true record of every user that lies.
    """

    scenario: Scenario
    allocation: Allocation
    fair: Allocation
    mechanism: str
    seconds: float
    gap: float | None
    proven: bool
    truths: Mapping[str, User] = field(default_factory=dict)

    @property
    def lies(self) -> dict[str, Mapping[str, float]]:
        """The true demand of every user that lies."""
        return {name: user.demand for name, user in self.truths.items()}


def answer_of(book: Workbook, mechanism: str = "drfh") -> Answer:
    """Return what a mechanism gives for a workbook.

    Parameters
    ----------
    book
        What to share, among whom.
    mechanism
        A name as `drfh.allocate` takes it; ``whole-tasks``; or ``slots:N``.

    Raises
    ------
    DrfhError
        If the mechanism has no answer.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> answer = answer_of(Workbook(load_scenario("paper-two-servers")))
    >>> answer.allocation.tasks, answer.proven
    ({'ann': 10.0, 'bob': 10.0}, True)
    """
    scenario = book.scenario
    allocation = _allocated(scenario, mechanism)
    fair = allocation if mechanism == "drfh" else allocation.divisible
    proof = allocation.certificate
    return Answer(
        scenario,
        allocation,
        _allocated(scenario, "drfh") if fair is None else fair,
        mechanism,
        allocation.seconds,
        None if proof is None else proof.gap,
        proof is not None and proof.closed,
        book.truths,
    )


def own_mechanism(scenario: Scenario) -> str:
    """Return the mechanism that a scenario asks for.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> own_mechanism(load_scenario("claim-h-whole-tasks"))
    'whole-tasks'
    """
    if scenario.mechanism == "drfh" and scenario.parameters.get("whole_tasks"):
        return WHOLE_TASKS
    return scenario.mechanism


def own_parameters(scenario: Scenario, mechanism: str) -> dict[str, Any]:
    """Return the parameters that a scenario has for a mechanism.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> own_parameters(load_scenario("claim-h-whole-tasks"), "whole-tasks")
    {}
    """
    whole = mechanism == WHOLE_TASKS
    if scenario.mechanism != ("drfh" if whole else mechanism):
        return {}
    left_out = {"whole_tasks"} if whole else {"whole_tasks", "reference"}
    return {name: value for name, value in scenario.parameters.items() if name not in left_out}


def _allocated(scenario: Scenario, mechanism: str) -> Allocation:
    whole = mechanism == WHOLE_TASKS
    chosen: str | Mechanism = "drfh" if whole else mechanism
    own = own_parameters(scenario, mechanism)
    if whole:
        check_servers(scenario.cluster.size)
    if mechanism.startswith("slots:"):
        chosen = slots_mechanism(mechanism)
    try:
        return allocate(
            scenario.cluster, scenario.users, mechanism=chosen, whole_tasks=whole, **own
        )
    except DrfhError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())
        raise SolverError(f"{mechanism}: {type(error).__name__}: {words}") from error
