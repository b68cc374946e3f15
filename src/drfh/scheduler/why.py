"""Why a task waits, or why it never runs: what is missing where, and who is ahead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from drfh.resources import format_quantity, some
from drfh.scheduler.ahead import Ahead, earlier_tasks, users_ahead
from drfh.scheduler.core import NEVER, RUNNING
from drfh.scheduler.missing import Missing, Survey
from drfh.workload import shown_restriction

if TYPE_CHECKING:
    from drfh.scheduler.looking import Looking

__all__ = ["Why", "explain_task"]

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
    return f"the {some(len(survey.servers), 'server')}{which}"


def _waiting(desk: Looking, survey: Survey) -> str:
    if survey.fitting:
        have = "have" if survey.fitting > 1 else "has"
        servers = some(survey.fitting, "server")
        return f"can start when its turn comes: {servers} {have} room"
    if desk.policy.fits is not None:
        return f"waits: the policy's own check takes it on none of {_all_servers(survey)} now"
    may = " that it may use" if survey.restricted else ""
    wait = [m for m in survey.missing if not m.too_small]
    small = [m for m in survey.missing if m.too_small]
    parts = [_lacking(m, may) for m in wait[:_NAMED]]
    if len(wait) > _NAMED:
        rest = sum(m.servers for m in wait[_NAMED:])
        parts.append(f"{some(rest, 'other server')} lack{'s' * (rest == 1)} more")
    if small:
        number = sum(m.servers for m in small)
        parts.append(f"{some(number, 'server')} {'is' if number == 1 else 'are'} too small")
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
        parts.append(f"{some(earlier, 'earlier task')} of {owner} {goes} first.")
    if ahead:
        named = [f"{one.user} ({one.reason})" for one in ahead[:_NAMED]]
        if len(ahead) > _NAMED:
            named.append(some(len(ahead) - _NAMED, "other user"))
        goes = "goes" if len(ahead) == 1 else "go"
        end = ", and nobody may overtake" if strict else ""
        parts.append(f"{_joined(named)} {goes} before {owner}{end}.")
    return " ".join(parts)


def _listed(amounts: Sequence[tuple[str, float]], joint: str = "and") -> str:
    return _joined([f"{format_quantity(amount)} {name}" for name, amount in amounts], joint)


def _joined(words: Sequence[str], joint: str = "and") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {joint} {words[-1]}"
