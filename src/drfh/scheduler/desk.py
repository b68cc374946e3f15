"""What the scheduler knows, with names, and the steps that its calls are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from drfh.errors import DrfhError, InputError, UnknownNameError
from drfh.model.users import Restriction
from drfh.policies import Policy
from drfh.scheduler.core import NEVER, QUEUED, RUNNING, Core, CoreState
from drfh.scheduler.nodes import Fleet
from drfh.scheduler.plain import PlainCore
from drfh.scheduler.restrictions import Restrictions, Terms, to_json
from drfh.scheduler.rules import Rules
from drfh.scheduler.units import Units

__all__ = ["STATES", "Amounts", "Engine", "SchedulerDesk"]

Amounts = Mapping[str, float | str]
Engine = Literal["auto", "plain", "indexed"]
#: What states are called.
STATES = {QUEUED: "queued", NEVER: "never", RUNNING: "running"}

_ENGINES = ("auto", "plain", "indexed")
_MOST_KNOWN_DEMANDS = 2**16
_MOST_NAMES_COMPARED = 1000  # finding the nearest of a million takes minutes
_SMALL_FLEET = 64  # so many servers are searched faster than an index is kept


class SchedulerDesk:
    """The state of a scheduler by name, and what its calls share."""

    def _open(
        self, fleet: Fleet, units: Units, policy: Policy, seed: int, engine: str, keep: bool
    ) -> None:
        """Start empty: servers and users come next."""
        if engine not in _ENGINES:
            raise UnknownNameError("engine", str(engine), _ENGINES)
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64:
            raise InputError("seed", "must be a whole number from 0 to 2**64 − 1", seed)
        self._rules = Rules(policy, units.resources, units.sizes, seed)
        self._engine = _chosen(engine, self._rules, len(fleet.members))
        self._core: Core = self._new_core()
        self._fleet, self._units = fleet, units
        self._restrictions = Restrictions(fleet)
        self._server_names = [member.name for member in fleet.members]
        self._up = [True] * len(fleet.members)
        self._totals = [0] * len(units.resources)
        self._groups: dict[str, int] = {}
        self._group_rows: list[tuple[int, float]] = []  # parent, weight
        self._users: dict[str, int] = {}
        self._user_names: list[str] = []  # of users who left, too
        self._weights: list[float] = []
        self._parents: list[str | None] = []
        self._user_terms: list[Terms | None] = []
        self._tasks: dict[str, int] = {}  # queued or running
        self._past: dict[str, str] = {}  # done or cancelled, if they are remembered
        self._remembers = True
        self._task_names: list[str] = []  # by number
        self._owners: list[str] = []
        self._shapes: dict[tuple[tuple[int, ...], int], int] = {}
        self._needs: list[tuple[tuple[int, ...], int]] = []  # shape → need, restriction
        self._demands: list[dict[str, float]] = []  # shape → what the log says
        self._known_demands: dict[Any, int] = {}
        self._user_evictions: dict[str, int] = {}
        self._task_evictions: dict[str, int] = {}
        self._evictions = 0
        self._records: list[dict[str, Any]] = []
        self._keeps_log = bool(keep)

    def _new_core(self) -> Core:
        if self._engine == "indexed":
            from drfh.scheduler.indexed import IndexedCore  # brings numba: only when needed

            return IndexedCore(self._rules)
        plain = PlainCore(self._rules)
        # Methods, not lambdas: a copy of the scheduler asks the copy.
        plain.user_name, plain.server_name = self._name_of_user, self._name_of_server
        return plain

    def _name_of_user(self, user: int) -> str:
        return self._user_names[user]

    def _name_of_server(self, server: int) -> str:
        return self._server_names[server]

    def _take_over(self, state: CoreState) -> None:
        """Put a core with this state in the place of the one that is there."""
        names, owners = self._task_names, self._owners
        core = self._new_core()
        core.load(state)
        self._core = core
        # A restored core numbers the tasks that are left from 0.
        self._task_names = [names[task] for task in state.tasks]
        self._owners = [owners[task] for task in state.tasks]
        self._tasks = {name: task for task, name in enumerate(self._task_names)}

    def _add_group(self, name: str, parent: int, weight: float) -> None:
        self._groups[name] = len(self._group_rows)
        self._group_rows.append((parent, weight))
        if self._rules.mode == "tree":  # no other turn asks for it
            self._core.add_group(parent, weight)

    # Names to numbers

    def _user(self, name: str) -> int:
        number = self._users.get(name) if isinstance(name, str) else None
        if number is None:
            raise UnknownNameError("user", str(name), self._users)
        return number

    def _server(self, name: str) -> int:
        position = self._fleet.position.get(name) if isinstance(name, str) else None
        if position is None:
            known = [n for n, up in zip(self._server_names, self._up, strict=True) if up]
            raise UnknownNameError("server", str(name), known)
        if not self._up[position]:
            raise InputError("server", "must be up (it was removed)", name)
        return position

    def _task(self, name: str, wanted: str) -> int:
        """Return the number of a task that is queued or running."""
        number = self._tasks.get(name) if isinstance(name, str) else None
        if number is not None:
            return number
        past = self._past.get(name) if isinstance(name, str) else None
        if past is None and len(self._tasks) > _MOST_NAMES_COMPARED:
            raise InputError("task", "must be one that was submitted", name)
        if past is None:
            raise UnknownNameError("task", str(name), self._tasks)
        raise InputError("task", f"must be {wanted} (it is {past})", name)

    # Steps that several calls share

    def _remember_tasks(self, names: Sequence[str], user: str, first: int) -> None:
        self._tasks.update(zip(names, range(first, first + len(names)), strict=True))
        self._task_names.extend(names)
        self._owners.extend([user] * len(names))

    def _shape(
        self, user: int, demand: Amounts, servers: Restriction | None
    ) -> tuple[int, Terms | None]:
        """Return the shape of a task of this user, a known one if there is one."""
        key = None
        if servers is None and type(demand) is dict:
            values = demand.values()
            # With the types: True is no amount, but it equals 1.
            key = (user, *demand, *values, *map(type, values))
            try:
                known = self._known_demands.get(key)
            except TypeError:  # a list, say; the reader below will say it better
                key = known = None
            if known is not None:
                return known, None
        need = tuple(self._units.demand(demand))
        terms = self._restrictions.read(servers)
        shape = self._shape_of(need, (self._user_terms[user], terms))
        if key is not None:
            if len(self._known_demands) >= _MOST_KNOWN_DEMANDS:
                self._known_demands.clear()
            self._known_demands[key] = shape
        return shape, terms

    def _shape_of(self, need: tuple[int, ...], pair: tuple[Terms | None, Terms | None]) -> int:
        restriction = self._restrictions.find(pair)
        if restriction is None:
            row = self._restrictions.both(*pair)
            self._core.add_restriction(row)
            restriction = self._restrictions.add(pair, row)
        shape = self._shapes.get((need, restriction))
        if shape is None:
            shape = self._core.add_shape(need, restriction)
            self._name_shape(need, restriction)
        return shape

    def _name_shape(self, need: tuple[int, ...], restriction: int) -> None:
        """Note the shape that the core has, or will have, under the next number."""
        self._shapes[need, restriction] = len(self._needs)
        self._needs.append((need, restriction))
        self._demands.append(self._amounts(need))

    def _amounts(self, row: Sequence[int]) -> dict[str, float]:
        """Return the amounts that are not 0, as people write them."""
        return {name: amount for name, amount in self._units.amounts(row).items() if amount}

    def _running_task(self, name: str) -> int:
        number = self._task(name, "running")
        if self._core.state(number) != RUNNING:
            raise InputError(
                "task", f"must be running (it is {STATES[self._core.state(number)]})", name
            )
        return number

    def _drop(self, name: str) -> None:
        number = self._tasks.pop(name)
        runs = self._core.state(number) == RUNNING
        (self._core.finish if runs else self._core.cancel)(number)
        self._ended(name, "cancelled")

    def _ended(self, name: str, how: str) -> None:
        if self._remembers:
            self._past[name] = how

    @contextmanager
    def _unharmed(self, *, asks: bool = True) -> Iterator[None]:
        """Undo all steps where a function of the policy, which `asks` is about, fails half-way."""
        core = self._core
        if not asks or not self._rules.policy.own or not isinstance(core, PlainCore):
            yield
            return
        before, known, shapes = core.copy(), self._restrictions.known, len(self._needs)
        try:
            yield
        except Exception as error:
            self._core = before
            self._restrictions.forget(known)
            for need in self._needs[shapes:]:
                del self._shapes[need]
            del self._needs[shapes:], self._demands[shapes:]
            self._known_demands.clear()
            if isinstance(error, DrfhError):
                raise
            rule = f"must have functions that accept everything ({type(error).__name__}: {error})"
            raise InputError("policy", rule) from error

    @property
    def _asks_about_tasks(self) -> bool:
        """Whether the policy has a check of its own, which looks at tasks as they come."""
        return self._rules.policy.fits is not None

    def _keep(
        self, record: dict[str, Any], terms: Terms | None = None, known: int | None = None
    ) -> None:
        """Write a call down once it has succeeded; `known` predicates were there before it."""
        if not self._keeps_log:
            return
        if terms is not None:
            record["servers"] = to_json(terms)
            new = self._restrictions.answers[known:]
            if new:
                record["accepted"] = [sorted(names) for names in new]
        self._records.append(record)


def _chosen(engine: str, rules: Rules, servers: int) -> str:
    cannot = bool(rules.policy.own) or rules.turn == "hdrf"
    if engine == "indexed" and cannot:
        rule = "must be plain or auto for hdrf and for a policy with functions of your own"
        raise InputError("engine", rule, engine)
    if engine == "auto":
        return "plain" if cannot or servers <= _SMALL_FLEET else "indexed"
    return engine
