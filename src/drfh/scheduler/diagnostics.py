"""Diagnostics: why a task waits or never runs, and who is ahead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from drfh.formatting import format_count, format_quantity, join_names, plural
from drfh.model.users import shown_restriction
from drfh.scheduler.core import NEVER, QUEUED, RUNNING
from drfh.scheduler.feasibility import Shortage, Survey
from drfh.scheduler.plain import PlainCore

if TYPE_CHECKING:
    from drfh.scheduler.state import SchedulerState

__all__ = ["UserAhead", "Why", "explain_task"]


@dataclass(frozen=True, slots=True)
class UserAhead:
    """A user whose turn comes first, with both levels and the reason."""

    user: str
    level: float
    own_level: float
    reason: str


def _earlier_tasks(state: SchedulerState, task: int) -> int:
    """Return how many tasks of the same user go before this one."""
    core = state.core
    inside = state.rules.policy.inside
    if callable(inside):
        return 0  # only the function knows
    count = 0
    for other in core.queue_of(core.user_of(task)):
        if other == task:
            break
        same = inside == "fifo" or core.shape_of(other) == core.shape_of(task)
        count += same and core.state(other) == QUEUED
    return count


def _users_ahead(state: SchedulerState, user: int) -> tuple[UserAhead, ...]:
    """Return the users with queued tasks whose turn comes first, the next one in front."""
    core = state.core
    own = float(core.level(user))
    waiting = [number for number in state.users.values() if core.counts(number)[1]]
    if state.rules.mode == "tree":
        assert isinstance(core, PlainCore)
        ahead = []
        while (first := core.next_user(waiting)) != user:
            waiting.remove(first)
            reason = "first down the tree of users"
            ahead.append(UserAhead(state.user_names[first], float(core.level(first)), own, reason))
        return tuple(ahead)
    levels = {number: float(core.level(number)) for number in waiting}
    before = sorted((level, n) for n, level in levels.items() if (level, n) < (own, user))
    return tuple(
        UserAhead(state.user_names[n], level, own, _reason(state, n, level, user, own))
        for level, n in before
    )


def _reason(state: SchedulerState, other: int, level: float, user: int, own: float) -> str:
    turn = state.rules.turn
    if turn == "fifo":
        return "its oldest task is older"
    measures = {
        "drfh": "dominant share",
        "tsf": "part of what it could run alone",
        "asset": "sum of shares",
        "max-min": "share",
        "slots": "number of slots",
    }
    measure = measures.get(turn, "value of the policy's function")
    if turn == "max-min":
        measure += f" of {state.rules.resources[state.rules.level.start]}"
    if turn in measures and (state.weights[other] != 1 or state.weights[user] != 1):
        measure += " by weight"
    if level == own:
        return f"same {measure} {own:.3g}, added first"
    digits = 3
    while f"{level:.{digits}g}" == f"{own:.{digits}g}" and digits < 17:
        digits += 1
    lower = "smaller" if turn in ("slots", "tsf") else "lower"
    return f"{lower} {measure} {level:.{digits}g} < {own:.{digits}g}"


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
    missing: tuple[Shortage, ...] = ()
    ahead: tuple[UserAhead, ...] = ()
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


def explain_task(state: SchedulerState, task: str) -> Why:
    """Return why a task is where it is."""
    now = state.task_state(task)
    if now in ("done", "cancelled"):
        return Why(task, None, now, f"{task} is {now}.")
    core = state.core
    number = state.tasks[task]
    user = core.user_of(number)
    owner = state.user_names[user]
    if core.state(number) == RUNNING:
        server = state.server_names[core.server_of(number)]
        return Why(task, owner, now, f"{task} of {owner} runs on {server}.")
    survey = Survey(state, number)
    if core.state(number) == NEVER:
        text = f"{task} of {owner} never runs: {_never(state, survey)}."
        return Why(task, owner, "never", text, survey.missing)
    earlier = _earlier_tasks(state, number)
    ahead = _users_ahead(state, user)
    text = f"{task} of {owner} {_waiting(state, survey)}."
    order = _order(owner, earlier, ahead, strict=state.rules.policy.blocked == "strict")
    return Why(task, owner, "waiting", f"{text} {order}".rstrip(), survey.missing, ahead, earlier)


def _never(state: SchedulerState, survey: Survey) -> str:
    if not any(state.up):
        return "there is no server"
    if not survey.servers:
        both = [terms for terms in survey.restrictions if terms is not None]
        shown = join_names(shown_restriction(_printable(terms)) for terms in both)
        return f"no server is among those that it may use ({shown})"
    slots = state.rules.policy.slots
    if slots is not None and survey.refused:
        return f"it is larger than a slot, which {state.rules.policy.name} does not take"
    if state.rules.policy.fits is not None:
        where = _all_servers(survey)
        return f"the policy's own check takes it on none of {where}, even empty"
    which = " that it may use" if survey.restricted else ""
    if not survey.too_large:
        return f"it needs {_listed(survey.needs)}, and no server{which} has all of it"
    required = _listed([(name, amount) for name, amount, _ in survey.too_large])
    largest = _listed([(name, size) for name, _, size in survey.too_large], "or")
    return f"it needs {required}, and no server{which} has more than {largest}"


def _printable(terms: Sequence[Any]) -> list[Any]:
    return [_predicate if isinstance(term, int) else term for term in terms]


def _predicate(server: Any) -> bool:
    raise NotImplementedError


_predicate.__name__ = "a predicate"


def _all_servers(survey: Survey) -> str:
    which = " that it may use" if survey.restricted else ""
    return f"the {format_count(len(survey.servers), 'server')}{which}"


def _waiting(state: SchedulerState, survey: Survey) -> str:
    if survey.fitting:
        have = plural(survey.fitting, "has", "have")
        servers = format_count(survey.fitting, "server")
        return f"can start when its turn comes: {servers} {have} room"
    if state.rules.policy.fits is not None:
        return f"waits: the policy's own check takes it on none of {_all_servers(survey)} now"
    may = " that it may use" if survey.restricted else ""
    wait = [m for m in survey.missing if not m.too_small]
    small = [m for m in survey.missing if m.too_small]
    parts = [_lacking(m, may) for m in wait[:_NAMED]]
    if len(wait) > _NAMED:
        rest = sum(m.servers for m in wait[_NAMED:])
        parts.append(f"{format_count(rest, 'other server')} {plural(rest, 'lacks', 'lack')} more")
    if small:
        number = sum(m.servers for m in small)
        are = plural(number, "is", "are")
        parts.append(f"{format_count(number, 'server')} {are} too small")
    return f"waits: it needs {_listed(survey.needs)}; {'; '.join(parts)}"


def _lacking(missing: Shortage, may: str) -> str:
    free = _listed([(lack.resource, lack.free) for lack in missing.lacks])
    if missing.servers == 1:
        return f"{missing.group} has {free} free"
    servers = f"the {missing.servers:,} {missing.group} servers"
    if missing.group is None:
        size = _listed([(name, amount) for name, amount in missing.capacity.items() if amount])
        servers = f"the {missing.servers:,} servers of {size}"
    if missing.nearest is not None:
        return f"{missing.nearest}, the nearest of {servers}{may}, has {free} free"
    return f"{servers}{may} have at most {free} free"


def _order(owner: str, earlier: int, ahead: Sequence[UserAhead], *, strict: bool) -> str:
    parts = []
    if earlier:
        goes = plural(earlier, "goes", "go")
        parts.append(f"{format_count(earlier, 'earlier task')} of {owner} {goes} first.")
    if ahead:
        named = [f"{one.user} ({one.reason})" for one in ahead[:_NAMED]]
        if len(ahead) > _NAMED:
            named.append(format_count(len(ahead) - _NAMED, "other user"))
        goes = plural(len(ahead), "goes", "go")
        end = ", and nobody may overtake" if strict else ""
        parts.append(f"{join_names(named)} {goes} before {owner}{end}.")
    return " ".join(parts)


def _listed(amounts: Sequence[tuple[str, float]], joint: str = "and") -> str:
    # Free amounts are below 0 where adopted tasks overfill a server.
    shown = [
        f"{'−' * (amount < 0)}{format_quantity(abs(amount))} {name}" for name, amount in amounts
    ]
    return join_names(shown, joint)
