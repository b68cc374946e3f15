"""Why a task waits, or why it never runs: what is missing where, and who is ahead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from drfh.formatting import format_count, format_quantity, join_names
from drfh.model.users import shown_restriction
from drfh.scheduler.core import NEVER, QUEUED, RUNNING, Ints
from drfh.scheduler.plain import PlainCore

if TYPE_CHECKING:
    from drfh.scheduler.looking import Looking

__all__ = [
    "Ahead",
    "Lack",
    "Missing",
    "Survey",
    "Why",
    "earlier_tasks",
    "explain_task",
    "users_ahead",
]


@dataclass(frozen=True, slots=True)
class Ahead:
    """A user whose turn comes first: its level, that of the one who asks, and the reason."""

    user: str
    level: float
    own_level: float
    reason: str


def earlier_tasks(desk: Looking, task: int) -> int:
    """Return how many tasks of the same user go before this one."""
    core = desk._core
    inside = desk.policy.inside
    if callable(inside):
        return 0  # only the function knows
    count = 0
    for other in core.queue_of(core.user_of(task)):
        if other == task:
            break
        same = inside == "fifo" or core.shape_of(other) == core.shape_of(task)
        count += same and core.state(other) == QUEUED
    return count


def users_ahead(desk: Looking, user: int) -> tuple[Ahead, ...]:
    """Return the users with queued tasks whose turn comes first, the next one in front."""
    core = desk._core
    own = float(core.level(user))
    waiting = [number for number in desk._users.values() if core.counts(number)[1]]
    if desk._rules.mode == "tree" and isinstance(core, PlainCore):
        ahead = []
        while (first := core._down_the_tree(waiting)) != user:
            waiting.remove(first)
            reason = "first down the tree of users"
            ahead.append(Ahead(desk._user_names[first], float(core.level(first)), own, reason))
        return tuple(ahead)
    levels = {number: float(core.level(number)) for number in waiting}
    before = sorted((level, n) for n, level in levels.items() if (level, n) < (own, user))
    return tuple(
        Ahead(desk._user_names[n], level, own, _reason(desk, n, level, user, own))
        for level, n in before
    )


def _reason(desk: Looking, other: int, level: float, user: int, own: float) -> str:
    turn = desk._rules.turn
    if turn == "fifo":
        return "its oldest task is older"
    words = {
        "drfh": "dominant share",
        "tsf": "part of what it could run alone",
        "asset": "sum of shares",
        "max-min": f"share of {str(desk.policy.turn).partition(':')[2]}",
        "slots": "number of slots",
    }
    word = words.get(turn, "value of the policy's function")
    if turn in words and (desk._weights[other] != 1 or desk._weights[user] != 1):
        word += " by weight"
    if level == own:
        return f"same {word} {own:.3g}, added first"
    digits = 3
    while f"{level:.{digits}g}" == f"{own:.{digits}g}" and digits < 17:
        digits += 1
    lower = "smaller" if turn in ("slots", "tsf") else "lower"
    return f"{lower} {word} {level:.{digits}g} < {own:.{digits}g}"


@dataclass(frozen=True, slots=True)
class Lack:
    """A resource of which there is not enough: what is needed, and the most that is free."""

    resource: str
    needed: float
    free: float


@dataclass(frozen=True, slots=True)
class Missing:
    """What servers of one size lack.

    `group` is the group of all of them, or the name of a single one; None where equal servers
    are from several groups. `free` in `lacks` is the most on any of them; where each resource
    alone would fit somewhere but never all together, it is that of the server `nearest`. A kind
    that is `too_small` would not do empty. Where adopted tasks overfill a server, `free` is
    below 0, and that alone keeps others out.
    """

    group: str | None
    servers: int
    capacity: dict[str, float]
    lacks: tuple[Lack, ...]
    too_small: bool = False
    nearest: str | None = None


class Survey:
    """A look at all servers for one task."""

    def __init__(self, desk: Looking, task: int) -> None:
        core, rules = desk._core, desk._rules
        shape = core.shape_of(task)
        base, restriction = desk._needs[shape]
        allows = desk._restrictions.allows
        self._desk = desk
        self.restrictions = desk._restrictions.pair(restriction)
        self.restricted = restriction > 0
        self.servers = [s for s, up in enumerate(desk._up) if up and allows(restriction, s)]
        if isinstance(core, PlainCore):  # whose policy may look at whose task it is
            self.fitting = sum(core.takes(task, server) for server in self.servers)
        else:
            self.fitting = sum(core.fits(shape, server) for server in self.servers)
        sizes: Ints = np.array(
            [core.capacity(s) for s in range(len(desk._server_names))], dtype=np.int64
        )
        need = np.array(base, dtype=np.int64)
        self.refused = rules.refuses(need, sizes)
        self._room = rules.server_rows(sizes)[self.servers]
        self._need = rules.shape_row(need, sizes)
        self._free = self._free_rows(sizes)
        self._columns = list(rules.fit)  # also where it needs 0: a server may be overfilled
        self.needs = [
            (self._name(c), self._amount(c, self._need[c]))
            for c in self._columns
            if self._need[c] > 0
        ]
        most = self._room.max(axis=0, initial=0)
        self.too_large = [
            (self._name(c), self._amount(c, self._need[c]), self._amount(c, most[c]))
            for c in self._columns
            if most[c] < self._need[c]
        ]
        self.missing = () if self.fitting or not self.servers else self._missing()

    def _free_rows(self, sizes: Ints) -> Ints:
        """Return what is free by column; slots are counted from the tasks on the server."""
        desk = self._desk
        core, rules = desk._core, desk._rules
        rows: Ints = np.array([core.free(s) for s in self.servers], dtype=np.int64)
        rows = rows.reshape(-1, len(rules.resources))
        if not rules.extra:
            return rows
        slots = self._room[:, -1].copy()
        of_shape: dict[int, int] = {}
        for row, server in enumerate(self.servers):
            for task in core.running_on(server):
                shape = core.shape_of(task)
                if shape not in of_shape:
                    need = np.array(desk._needs[shape][0], dtype=np.int64)
                    of_shape[shape] = int(rules.shape_row(need, sizes)[-1])
                slots[row] -= of_shape[shape]
        return np.column_stack((rows, slots))

    def _name(self, column: int) -> str:
        resources = self._desk._units.resources
        return resources[column] if column < len(resources) else "slots"

    def _amount(self, column: int, units: int) -> float:
        row = [0] * len(self._desk._units.resources)
        if column >= len(row):
            return float(units)
        row[column] = int(units)
        return self._desk._units.amounts(row)[self._name(column)]

    def _missing(self) -> tuple[Missing, ...]:
        kinds: dict[tuple[int, ...], list[int]] = {}
        for row, server in enumerate(self.servers):
            kinds.setdefault(tuple(self._desk._core.capacity(server)), []).append(row)
        found = [self._of_kind(rows, size) for size, rows in kinds.items()]
        found.sort(key=lambda pair: (pair[1].too_small, pair[0]))
        return tuple(missing for _, missing in found)

    def _group(self, rows: list[int]) -> str | None:
        members = [self._desk._fleet.members[self.servers[row]] for row in rows]
        if len(members) == 1:
            return members[0].name
        groups = {member.group for member in members}
        return groups.pop() if len(groups) == 1 else None

    def _of_kind(self, rows: list[int], size: tuple[int, ...]) -> tuple[float, Missing]:
        """Return how far it is from fitting (of what it needs), and what is missing."""
        columns, need = self._columns, self._need
        wanted = np.maximum(need[columns], 1).astype(float)
        small = bool((self._room[rows[0]][columns] < need[columns]).any())
        rooms = (self._room if small else self._free)[rows][:, columns]
        short = np.maximum((need[columns] - rooms) / wanted, 0.0).max(axis=1, initial=0.0)
        best = int(short.argmin())
        most = rooms.max(axis=0)
        apart = not (most < need[columns]).any()
        free = rooms[best] if apart else most
        lacks = tuple(
            Lack(self._name(c), self._amount(c, need[c]), self._amount(c, amount))
            for c, amount in zip(columns, free.tolist(), strict=True)
            if amount < need[c]
        )
        nearest = self._desk._server_names[self.servers[rows[best]]] if apart else None
        capacity = self._desk._units.amounts(size)
        missing = Missing(self._group(rows), len(rows), capacity, lacks, small, nearest)
        return float(short[best]), missing


_NAMED = 3  # so many kinds of servers, or users, are named before the rest is counted


@dataclass(frozen=True, slots=True)
class Why:
    """Why a task is where it is.

    Parameters
    ----------
    task, user
        The task and whose it is; no user for a task that has ended.
    state
        ``waiting``, ``never``, ``running``, ``done`` or ``cancelled``.
    text
        The answer in one or two sentences.
    missing
        For each kind of server that the task may use, what the best of them lacks.
    ahead
        Users whose turn comes first, and why.
    earlier
        How many tasks of the same user go first.

    Examples
    --------
    >>> from drfh import Cluster, Scheduler, Server
    >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="big", count=2)]))
    >>> scheduler.add_user("ann")
    >>> names = scheduler.submit("job", "ann", {"cpu": 3}, count=4)
    >>> placed = scheduler.place()
    >>> why = scheduler.why("job/3")
    >>> print(why.text)
    job/3 of ann waits: it needs 3 cpu; the 2 big servers have at most 1 cpu free. \
1 earlier task of ann goes first.
    >>> why.missing[0].lacks
    (Lack(resource='cpu', needed=3.0, free=1.0),)
    """

    task: str
    user: str | None
    state: str
    text: str
    missing: tuple[Missing, ...] = ()
    ahead: tuple[Ahead, ...] = ()
    earlier: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data.

        Examples
        --------
        >>> Why("t1", None, "done", "t1 is done.").to_dict()["text"]
        't1 is done.'
        """
        data = asdict(self)
        data["missing"] = [{**m, "lacks": list(m["lacks"])} for m in data["missing"]]
        data["ahead"] = list(data["ahead"])
        return data


def explain_task(desk: Looking, task: str) -> Why:
    """Return why a task is where it is."""
    state = desk.state(task)
    if state in ("done", "cancelled"):
        return Why(task, None, state, f"{task} is {state}.")
    core = desk._core
    number = desk._tasks[task]
    user = core.user_of(number)
    owner = desk._user_names[user]
    if core.state(number) == RUNNING:
        server = desk._server_names[core.server_of(number)]
        return Why(task, owner, state, f"{task} of {owner} runs on {server}.")
    survey = Survey(desk, number)
    if core.state(number) == NEVER:
        text = f"{task} of {owner} never runs: {_never(desk, survey)}."
        return Why(task, owner, "never", text, survey.missing)
    earlier = earlier_tasks(desk, number)
    ahead = users_ahead(desk, user)
    text = f"{task} of {owner} {_waiting(desk, survey)}."
    order = _order(owner, earlier, ahead, strict=desk.policy.blocked == "strict")
    return Why(task, owner, "waiting", f"{text} {order}".rstrip(), survey.missing, ahead, earlier)


def _never(desk: Looking, survey: Survey) -> str:
    if not any(desk._up):
        return "there is no server"
    if not survey.servers:
        both = [terms for terms in survey.restrictions if terms is not None]
        shown = " and ".join(shown_restriction(_for_words(terms)) for terms in both)
        return f"no server is among those that it may use ({shown})"
    slots = desk.policy.slots
    if slots is not None and survey.refused:
        return f"it is larger than a slot, which {desk.policy.name} does not take"
    if desk.policy.fits is not None:
        where = _all_servers(survey)
        return f"the policy's own check takes it on none of {where}, even empty"
    which = " that it may use" if survey.restricted else ""
    if not survey.too_large:
        return f"it needs {_listed(survey.needs)}, and no server{which} has all of it"
    wanted = _listed([(name, amount) for name, amount, _ in survey.too_large])
    largest = _listed([(name, size) for name, _, size in survey.too_large], "or")
    return f"it needs {wanted}, and no server{which} has more than {largest}"


def _for_words(terms: Sequence[Any]) -> list[Any]:
    return [_a_predicate if isinstance(term, int) else term for term in terms]


def _a_predicate(server: Any) -> bool:
    raise NotImplementedError


_a_predicate.__name__ = "a predicate"


def _all_servers(survey: Survey) -> str:
    which = " that it may use" if survey.restricted else ""
    return f"the {format_count(len(survey.servers), 'server')}{which}"


def _waiting(desk: Looking, survey: Survey) -> str:
    if survey.fitting:
        have = "have" if survey.fitting > 1 else "has"
        servers = format_count(survey.fitting, "server")
        return f"can start when its turn comes: {servers} {have} room"
    if desk.policy.fits is not None:
        return f"waits: the policy's own check takes it on none of {_all_servers(survey)} now"
    may = " that it may use" if survey.restricted else ""
    wait = [m for m in survey.missing if not m.too_small]
    small = [m for m in survey.missing if m.too_small]
    parts = [_lacking(m, may) for m in wait[:_NAMED]]
    if len(wait) > _NAMED:
        rest = sum(m.servers for m in wait[_NAMED:])
        parts.append(f"{format_count(rest, 'other server')} lack{'s' * (rest == 1)} more")
    if small:
        number = sum(m.servers for m in small)
        parts.append(f"{format_count(number, 'server')} {'is' if number == 1 else 'are'} too small")
    return f"waits: it needs {_listed(survey.needs)}; {'; '.join(parts)}"


def _lacking(missing: Missing, may: str) -> str:
    free = _listed([(lack.resource, lack.free) for lack in missing.lacks]).replace("-", "−")
    if missing.servers == 1:
        return f"{missing.group} has {free} free"
    servers = f"the {missing.servers:,} {missing.group} servers"
    if missing.group is None:
        size = _listed([(name, amount) for name, amount in missing.capacity.items() if amount])
        servers = f"the {missing.servers:,} servers of {size}"
    if missing.nearest is not None:
        return f"{missing.nearest}, the nearest of {servers}{may}, has {free} free"
    return f"{servers}{may} have at most {free} free"


def _order(owner: str, earlier: int, ahead: Sequence[Ahead], *, strict: bool) -> str:
    parts = []
    if earlier:
        goes = "goes" if earlier == 1 else "go"
        parts.append(f"{format_count(earlier, 'earlier task')} of {owner} {goes} first.")
    if ahead:
        named = [f"{one.user} ({one.reason})" for one in ahead[:_NAMED]]
        if len(ahead) > _NAMED:
            named.append(format_count(len(ahead) - _NAMED, "other user"))
        goes = "goes" if len(ahead) == 1 else "go"
        end = ", and nobody may overtake" if strict else ""
        parts.append(f"{join_names(named)} {goes} before {owner}{end}.")
    return " ".join(parts)


def _listed(amounts: Sequence[tuple[str, float]], joint: str = "and") -> str:
    return join_names([f"{format_quantity(amount)} {name}" for name, amount in amounts], joint)
