"""A scenario and its edit steps, with undo and redo."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

from drfh.errors import InputError, UnknownNameError
from drfh.files.scenario_file import parse_scenario, scenario_text, shipped_scenarios, shipped_text
from drfh.files.validation import problems
from drfh.model.scenario import Scenario
from drfh.model.users import User
from drfh.web.session.steps import MOST_RESOURCES, Step, WorkbookState, step_from_list

__all__ = ["MOST_STEPS", "Workbook", "base_from_data", "base_to_data", "completed"]


def completed(scenario: Scenario) -> Scenario:
    """Return the scenario with a demand for each user.

    A user without one gets the mean over its jobs' tasks, and as many tasks as they have.

    Raises
    ------
    InputError
        If a user has neither demand nor jobs.

    Examples
    --------
    >>> from drfh import Cluster, Job, Server, User
    >>> jobs = [Job("ann", demand={"cpu": 1}, duration=60, tasks=3),
    ...         Job("ann", demand={"cpu": 3}, duration=60)]
    >>> completed(Scenario(Cluster([Server({"cpu": 8})]), (User("ann"),), jobs=jobs)).users
    (User('ann', {'cpu': 1.5}, tasks=4.0),)
    """
    for user in scenario.users:
        if user.kinds:
            rule = "must be one kind: the explorer shows one kind of tasks a user"
            raise InputError(f"kinds of {user.name}", rule)
    users = tuple(user if user.demand else _of_jobs(user, scenario) for user in scenario.users)
    return scenario if users == scenario.users else replace(scenario, users=users)


def _of_jobs(user: User, scenario: Scenario) -> User:
    jobs = [job for job in scenario.jobs if job.user == user.name and job.demand]
    tasks = sum(job.tasks for job in jobs)
    if not tasks:
        raise InputError(f"demand of {user.name}", "must be given (it has no jobs either)")
    total: dict[str, float] = {}
    for job in jobs:
        for resource, amount in (job.demand or {}).items():
            total[resource] = total.get(resource, 0.0) + amount * job.tasks
    demand = {resource: amount / tasks for resource, amount in total.items()}
    return replace(user, demand=demand, tasks=float(tasks) if user.tasks is None else user.tasks)


_MOST_ENTRIES = 100_000


@cache
def _shipped(name: str) -> Scenario:
    return parse_scenario(shipped_text(name), f"{name}.yaml", strict=True)


@cache
def _titles() -> dict[str, str]:
    """Return name by title; titles differ."""
    return {title: name for name, title in shipped_scenarios().items()}


def base_to_data(scenario: Scenario) -> dict[str, Any] | str:
    """Return a scenario as plain data; a shipped one is a name.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> base_to_data(load_scenario("gpu-day"))
    'gpu-day'
    """
    name = _titles().get(scenario.title)
    if name is not None and _shipped(name) == scenario:
        return name
    data: dict[str, Any] = json.loads(scenario_text(scenario, as_json=True))
    return data


def base_from_data(data: Any) -> Scenario:
    """Return the scenario of plain data, checked as a scenario file.

    Examples
    --------
    >>> base_from_data("paper-two-servers").title
    'Two servers, two users'
    """
    if isinstance(data, str):
        if data not in _titles().values():  # never the name of a file
            raise UnknownNameError("base", data, list(_titles().values()))
        return _shipped(data)
    if not isinstance(data, Mapping):
        rule = "must be the name of a shipped scenario, or a scenario"
        raise InputError("base", rule, data)
    _check_size(data)
    text = json.dumps(data)
    return parse_scenario(text, "base", strict=True)


def _check_size(data: Mapping[str, Any]) -> None:
    """Raise if tables would be too large, before they are built."""
    for key in ("cluster", "users", "jobs", "events"):
        entries = data.get(key)
        if isinstance(entries, list) and len(entries) > _MOST_ENTRIES:
            raise InputError(key, f"must have at most {_MOST_ENTRIES:,} entries", len(entries))
    groups = data.get("cluster")
    names: set[Any] = set()
    for group in groups if isinstance(groups, list) else ():
        resources = group.get("resources") if isinstance(group, Mapping) else None
        names |= set(resources) if isinstance(resources, Mapping) else set()
        if len(names) > MOST_RESOURCES:
            rule = f"must have at most {MOST_RESOURCES} resources in all"
            raise InputError("cluster", rule)


#: Steps that a workbook holds.
MOST_STEPS = 1_000
LONGEST_TITLE = 200

# States that are kept for undo; an older one is made again from the base.
_KEPT = 20
_VERSION = 1


class Workbook:
    """A scenario and the edit steps applied to it.

    Parameters
    ----------
    scenario
        Before all steps. A user without a demand gets the mean of its jobs' tasks.
    steps
        Steps to apply.
    undone
        Steps that were undone; the last one is done again first.
    title
        Its title; by default that of the scenario.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.web.session.steps import SetServer
    >>> book = Workbook(load_scenario("paper-two-servers"))
    >>> book.do(SetServer("high-cpu", "count", "3"))
    >>> book.scenario.cluster, book.texts
    (Cluster(4 servers in 2 groups: cpu 38, memory 18), ('high-cpu: 3 servers instead of 1',))
    >>> book.undo()
    SetServer(group='high-cpu', field='count', value='3')
    >>> book.scenario == book.base
    True
    """

    def __init__(
        self,
        scenario: Scenario,
        steps: Iterable[Step] = (),
        undone: Iterable[Step] = (),
        title: str = "",
    ) -> None:
        if not isinstance(scenario, Scenario):
            raise InputError("scenario", "must be a drfh.Scenario", scenario)
        self.base = completed(scenario)
        start = WorkbookState(self.base)
        for error in problems(self.base.cluster, self.base.users, scenario.jobs, scenario.events):
            raise error
        _ = start.problem  # raises what no mechanism can run
        self.title = _title(title or self.base.title)
        self._steps: list[Step] = []
        self._texts: list[str] = []
        # The states before the last steps and after all of them, at most _KEPT + 1.
        self._states = [start]
        self._base_data: dict[str, Any] | str | None = None
        self._undone: list[Step] = []
        for step in steps:
            self.do(step)
        self._undone = list(undone)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps, in order."""
        return tuple(self._steps)

    @property
    def undone(self) -> tuple[Step, ...]:
        """The undone steps; the last is done again first."""
        return tuple(self._undone)

    @property
    def texts(self) -> tuple[str, ...]:
        """The steps as text, each with the value before it."""
        return tuple(self._texts)

    @property
    def state(self) -> WorkbookState:
        """The scenario after all steps, and the true values."""
        return self._states[-1]

    @property
    def scenario(self) -> Scenario:
        """The scenario after all steps, as the users report it."""
        return self.state.scenario

    @property
    def truths(self) -> dict[str, User]:
        """Every user that lies, with its true values."""
        return self.state.true_users

    def rename(self, title: str) -> None:
        """Change the title, cut to :data:`LONGEST_TITLE`."""
        self.title = _title(title)

    def after(self, *steps: Step) -> list[WorkbookState]:
        """Return the state after each step; the workbook stays as it is.

        Raises
        ------
        InputError
            If one is refused.
        """
        if len(self._steps) + len(steps) > MOST_STEPS:
            rule = f"must be at most {MOST_STEPS:,} (save the scenario and start from there)"
            raise InputError("steps", rule)
        states: list[WorkbookState] = []
        for step in steps:
            if not isinstance(step, Step):
                raise InputError("step", "must be a drfh.web.session.steps.Step", step)
            states.append(step.apply(states[-1] if states else self.state))
        return states

    def do(self, *steps: Step, states: Sequence[WorkbookState] | None = None) -> None:
        """Apply steps, all or none; steps that were undone are dropped.

        Parameters
        ----------
        *steps
            The steps.
        states
            What :meth:`after` returned for them; by default they are applied now.

        Raises
        ------
        InputError
            If one is refused.
        """
        self._append(steps, self.after(*steps) if states is None else states)
        self._undone = []

    def _append(self, steps: Sequence[Step], states: Sequence[WorkbookState]) -> None:
        for step, state in zip(steps, states, strict=True):
            self._texts.append(step.describe(self.state))
            self._steps.append(step)
            self._states.append(state)
        del self._states[: -_KEPT - 1]

    def undo(self) -> Step:
        """Undo the last step and return it."""
        if not self._steps:
            raise InputError("undo", "must have a step to take back")
        self._states.pop()
        self._texts.pop()
        step = self._steps.pop()
        self._undone.append(step)
        if not self._states:
            self._replay()
        return step

    def redo(self) -> Step:
        """Apply the step that was undone last, and return it."""
        if not self._undone:
            raise InputError("redo", "must have a step that was taken back")
        step = self._undone[-1]
        self._append([step], self.after(step))
        return self._undone.pop()

    def reset(self) -> None:
        """Undo all steps."""
        self._undone += reversed(self._steps)
        self._steps, self._texts = [], []
        self._states = [WorkbookState(self.base)]

    def _replay(self) -> None:
        """Compute again the states that were not kept."""
        states = [WorkbookState(self.base)]
        for step in self._steps:
            states.append(step.apply(states[-1]))
            del states[: -_KEPT - 1]
        self._states = states

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; a shipped scenario is its name.

        Examples
        --------
        >>> from drfh import load_scenario
        >>> Workbook(load_scenario("paper-two-servers")).to_dict()
        {'drfh': 1, 'base': 'paper-two-servers'}
        """
        if self._base_data is None:
            self._base_data = base_to_data(self.base)
        data: dict[str, Any] = {"drfh": _VERSION, "base": self._base_data}
        if self.title != self.base.title:
            data["title"] = self.title
        for name, steps in (("steps", self._steps), ("undone", self._undone)):
            if steps:
                data[name] = [step.to_list() for step in steps]
        return data

    @classmethod
    def from_dict(cls, data: Any) -> Workbook:
        """Return the workbook of plain data.

        Raises
        ------
        InputError
            If anything is wrong with it.

        Examples
        --------
        >>> Workbook.from_dict({"drfh": 1, "base": "paper-two-servers"}).scenario.cluster
        Cluster(2 servers in 2 groups: cpu 14, memory 14)
        """
        if not isinstance(data, Mapping) or "base" not in data:
            raise InputError("workbook", "must be a mapping with the keys drfh and base", data)
        if data.get("drfh") != _VERSION:
            rule = f"must be {_VERSION}: this was made by another version of drfh"
            raise InputError("drfh", rule, data.get("drfh"))
        for key in data:
            if key not in ("drfh", "base", "title", "steps", "undone"):
                raise InputError("workbook", "must have no other keys than its own", key)
        done, undone = (_steps(data.get(name, []), name) for name in ("steps", "undone"))
        if len(done) + len(undone) > MOST_STEPS:
            raise InputError("steps", f"must be at most {MOST_STEPS:,}", len(done) + len(undone))
        book = cls(base_from_data(data["base"]), title=_title(data.get("title", "")))
        for position, step in enumerate(done):
            with _at(f"steps[{position}]"):
                book.do(step)
        # What was undone must be valid too.
        state = book.state
        for position in range(len(undone) - 1, -1, -1):
            with _at(f"undone[{position}]"):
                state = undone[position].apply(state)
        book._undone = undone
        return book

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Workbook):
            return NotImplemented
        return (self.base, self.title, self._steps, self._undone) == (
            other.base, other.title, other._steps, other._undone,
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Workbook({self.title!r}, {len(self._steps)} steps, {self.scenario.cluster})"


def _title(title: Any) -> str:
    if not isinstance(title, str):
        raise InputError("title", "must be text", title)
    # Half a character cannot be sent.
    return " ".join(title.encode(errors="replace").decode().split())[:LONGEST_TITLE]


def _steps(data: Any, name: str) -> list[Step]:
    if not isinstance(data, list):
        raise InputError(name, "must be a list of steps", data)
    steps = []
    for position, entry in enumerate(data):
        with _at(f"{name}[{position}]"):
            steps.append(step_from_list(entry))
    return steps


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Set the place of an error raised inside."""
    try:
        yield
    except InputError as error:
        error.place = place
        raise
