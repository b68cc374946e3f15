"""The answer about a running cluster: who has what, what is fair, who is short and why."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from drfh.allocation.explain import LimitCode, Scarcity
from drfh.errors import UnknownNameError
from drfh.formatting import (
    format_amount,
    format_count,
    format_number,
    format_percent,
    format_points,
    join_names,
    plural,
)

__all__ = [
    "ALMOST",
    "FairnessAnswer",
    "KindShare",
    "Sentence",
    "TeamShare",
    "Topic",
    "Truthfulness",
]

_MOST_NAMED = 3  # teams that a sentence names before it counts the rest
_MOST_SCARCE = 2
ALMOST = 1e-9  # a task that is short by this part is a whole task


class Topic(StrEnum):
    """What a sentence of an answer is about."""

    FAIR = "fair"
    TASKS = "tasks"
    SHORT = "short"
    WASTE = "waste"
    TRUTHFUL = "truthful"
    CHANGE = "change"
    EXACT = "exact"


class Sentence(NamedTuple):
    """One sentence of an answer: a label, and what there is to say."""

    topic: Topic
    label: str
    text: str

    def __str__(self) -> str:
        return f"{self.label}: {self.text}."


@dataclass(frozen=True, slots=True)
class KindShare:
    """Tasks of one kind of a team, now and in the fair allocation.

    Attributes
    ----------
    name : str
        Of the kind; empty if the team has one.
    tasks, fair_tasks, waiting, fits : float
        As of :class:`TeamShare`.
    code, scarce : LimitCode, tuple of Scarcity
        What limits it in the fair allocation.
    """

    name: str
    tasks: float
    fair_tasks: float
    waiting: float
    fits: float
    code: LimitCode
    scarce: tuple[Scarcity, ...] = ()

    @property
    def limited_by(self) -> str:
        """What limits it in the fair allocation, in a few words."""
        if self.scarce:
            return join_names(_by_servers(self.scarce))
        if self.code is LimitCode.NO_SERVER:
            return "no server that it may use has what it needs"
        if self.code is LimitCode.ALL_TASKS:
            return "nothing: there, all its tasks run" if self.waiting > 0 else "no task waits"
        return "not known"

    def to_dict(self) -> dict[str, Any]:
        """Return the kind as plain data."""
        return {
            "kind": self.name,
            "tasks": self.tasks,
            "fair_tasks": self.fair_tasks,
            "waiting": None if math.isinf(self.waiting) else self.waiting,
            "fits": self.fits,
            "limited_by": self.limited_by,
        }


@dataclass(frozen=True, slots=True)
class TeamShare:
    """What a team has now, and in the fair allocation.

    Attributes
    ----------
    name : str
        Of the team, a user of the scenario.
    weight : float
        Its weight.
    now, fair : float
        Dominant share now and in the fair allocation, from 0 to 1.
    tasks, fair_tasks : float
        Tasks now and in the fair allocation, of all kinds.
    waiting : float
        Tasks that it has and that do not run now; infinite without a number.
    resource : str
        That of which it has the largest part: now if it is above its fair share, else then.
    amount, fair_amount : float
        What it has of this resource, now and in the fair allocation.
    fits : float
        Waiting tasks that would start now if the lowest team went first, again and again.
    below : bool
        Whether it has less than its fair share now.
    within_a_task : bool
        Whether what it lacks is less than each of its waiting tasks.
    above : bool
        Whether it has more than its fair share now.
    code : LimitCode
        What limits it in the fair allocation.
    scarce : tuple of Scarcity
        Resources that limit it there, and on which servers.
    kinds : tuple of KindShare
        Its kinds of tasks.
    held_by : tuple of str
        If it would still be below once what fits has started: teams above their fair share that
        hold what it lacks on servers that it may use, the furthest first.
    beyond : float
        Tasks that it has now beyond those of the scenario, of all kinds.
    """

    name: str
    weight: float
    now: float
    fair: float
    tasks: float
    fair_tasks: float
    waiting: float
    fits: float
    resource: str
    amount: float
    fair_amount: float
    below: bool
    within_a_task: bool
    above: bool
    code: LimitCode
    scarce: tuple[Scarcity, ...] = ()
    kinds: tuple[KindShare, ...] = ()
    held_by: tuple[str, ...] = ()
    beyond: float = 0.0

    @property
    def difference(self) -> float:
        """Share now less fair share."""
        return self.now - self.fair

    @property
    def points(self) -> str:
        """The difference in percentage points, in words."""
        if not (self.below or self.above):
            return format_points(0.0)
        return format_points(self.difference, signed=True)

    @property
    def limited_by(self) -> str:
        """What limits it in the fair allocation, in a few words."""
        whole = KindShare("", self.tasks, self.fair_tasks, self.waiting, self.fits, self.code)
        return replace(whole, scarce=self.scarce).limited_by

    @property
    def sentences(self) -> tuple[str, ...]:
        """Why it has what it has, in words."""
        has, fair = (format_amount(a) for a in (self.amount, self.fair_amount))
        side = "less than" if self.below else "more than" if self.above else "just"
        parts = [
            f"{self.name} has a share of {format_percent(self.now)} now, "
            f"{format_percent(self.fair)} in the fair allocation: {side} its fair share.",
            f"It is largest in {self.resource}: {has} now, {fair} in the fair allocation.",
        ]
        if self.waiting > 0:
            number = "Tasks" if math.isinf(self.waiting) else format_count(self.waiting, "task")
            parts.append(f"{number} of it wait; {format_number(self.fits)} would fit now.")
        else:
            parts.append("No task of it waits.")
        if self.held_by:
            names = join_names(self.held_by, most=_MOST_NAMED)
            more = plural(len(self.held_by), "has more than its", "have more than their")
            parts.append(
                f"What the rest needs is held by others: {names} {more} fair share, on servers "
                f"that {self.name} may use."
            )
        return tuple(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the team as plain data."""
        return {
            "team": self.name,
            "weight": self.weight,
            "now": self.now,
            "fair": self.fair,
            "difference": self.difference,
            "tasks": self.tasks,
            "fair_tasks": self.fair_tasks,
            "waiting": None if math.isinf(self.waiting) else self.waiting,
            "fits": self.fits,
            "resource": self.resource,
            "amount": self.amount,
            "fair_amount": self.fair_amount,
            "beyond": self.beyond,
            "limit": self.code.value,
            "scarce": [part.to_dict() for part in self.scarce],
            "limited_by": self.limited_by,
            "held_by": list(self.held_by),
            "kinds": [kind.to_dict() for kind in self.kinds],
        }


@dataclass(frozen=True, slots=True)
class Truthfulness:
    """Whether the fair allocation is proven to leave no gain by misreporting.

    Attributes
    ----------
    source : str
        Where it is proven, for divisible tasks.
    outside : tuple of str
        Assumptions of the proof that do not hold here.
    """

    source: str
    outside: tuple[str, ...] = ()

    @property
    def proven(self) -> bool:
        """Whether all assumptions hold."""
        return not self.outside


@dataclass(frozen=True, slots=True)
class FairnessAnswer:
    """What runs now beside the fair allocation: the exact DRFH optimum for divisible tasks.

    Attributes
    ----------
    teams : tuple of TeamShare
        The shortest first: by the difference of their shares.
    missing : float
        Missing share: part of all fair shares that their teams do not have, from 0 to 1.
    missing_later : float
        The same, had the waiting tasks started that fit now.
    worst_off : str
        Who has the least of its fair share; empty if nobody is below it.
    worst_missing : float
        The part of its fair share that it lacks.
    free : dict
        Part of each resource of the cluster that nobody holds.
    overfull : bool
        Whether more is held on a server than it has.
    by_group : bool
        Whether only sums over groups of servers are known, so that a task that fits may find no
        single server.
    truthful : Truthfulness
        About misreporting under the fair allocation.
    closed, gap : bool, float
        Whether the fair allocation is proven exact, and its relative gap.
    """

    teams: tuple[TeamShare, ...]
    missing: float
    missing_later: float
    worst_off: str
    worst_missing: float
    free: dict[str, float]
    overfull: bool
    by_group: bool
    truthful: Truthfulness
    closed: bool = True
    gap: float = 0.0

    def __getitem__(self, team: str) -> TeamShare:
        for share in self.teams:
            if share.name == team:
                return share
        raise UnknownNameError("team", team, [share.name for share in self.teams])

    @property
    def short(self) -> tuple[TeamShare, ...]:
        """Teams below their fair share, the shortest first."""
        return tuple(team for team in self.teams if team.below)

    def furthest(self, most: int) -> tuple[TeamShare, ...]:
        """Return the teams furthest from their fair shares, at most so many, the shortest first."""
        far = sorted(range(len(self.teams)), key=lambda i: -abs(self.teams[i].difference))[:most]
        return tuple(self.teams[i] for i in sorted(far))

    @property
    def fair(self) -> bool:
        """Whether nobody is below its fair share."""
        return not self.short

    @property
    def within_a_task(self) -> bool:
        """Whether each team that is short lacks less than one task."""
        return all(team.within_a_task for team in self.short)

    @property
    def fits(self) -> float:
        """Waiting tasks that fit on free capacity now, all together."""
        return sum(team.fits for team in self.teams)

    @property
    def waiting(self) -> float:
        """Tasks that wait; infinite if a team has no number of tasks."""
        return sum(team.waiting for team in self.teams)

    @property
    def bottlenecks(self) -> dict[Scarcity, tuple[str, ...]]:
        """Teams that each scarce resource limits in the fair allocation, most teams first."""
        found: dict[Scarcity, list[str]] = {}
        for team in self.teams:
            for part in team.scarce:
                found.setdefault(part, []).append(team.name)
        order = sorted(found.items(), key=lambda item: -len(item[1]))
        return {part: tuple(names) for part, names in order}

    @property
    def legend(self) -> str:
        """What the shares are, in words."""
        return (
            "A share is the part of the whole cluster that a team has of its dominant resource, "
            "the one it is largest in. Fair, and limited by: in the fair allocation (DRFH) of all "
            "tasks that run or wait, which may divide tasks."
        )

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        """The answer in words: is it fair, who is short, what is wasted, what would change it."""
        parts = [
            _fairness(self),
            *([Sentence(Topic.TASKS, "Warning", text)] if (text := _beyond_text(self)) else []),
            Sentence(Topic.SHORT, "Short", _short_text(self)),
            Sentence(Topic.WASTE, "Wasted", _waste_text(self)),
            Sentence(Topic.TRUTHFUL, "Misreporting", _truthful_text(self.truthful)),
            Sentence(Topic.CHANGE, "What would change it", _change_text(self)),
        ]
        if not self.closed:
            text = f"the fair allocation is not proven, relative gap {self.gap:.1e}"
            parts.append(Sentence(Topic.EXACT, "Not exact", text))
        return tuple(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain data, ready for JSON."""
        return {
            "fair": self.fair,
            "within_a_task": self.within_a_task,
            "missing": self.missing,
            "missing_later": self.missing_later,
            "worst_off": self.worst_off or None,
            "worst_missing": self.worst_missing,
            "teams": [team.to_dict() for team in self.teams],
            "free": self.free,
            "overfull": self.overfull,
            "fits": self.fits,
            "waiting": None if math.isinf(self.waiting) else self.waiting,
            "truthful": {
                "proven": self.truthful.proven,
                "source": self.truthful.source,
                "outside": list(self.truthful.outside),
            },
            "bottlenecks": [
                {**part.to_dict(), "teams": list(names)} for part, names in self.bottlenecks.items()
            ],
            "closed": self.closed,
            "gap": self.gap,
            "sentences": [
                {"about": sentence.topic.value, "text": str(sentence)}
                for sentence in self.sentences
            ],
        }


def _by_servers(scarce: Iterable[Scarcity]) -> list[str]:
    """Return what is used up, the resources of the same servers together."""
    servers: dict[str, list[str]] = {}
    for part in scarce:
        servers.setdefault(part.servers, []).append(part.resource)
    return [f"{join_names(names)} on {where}" for where, names in servers.items()]


def _fairness(answer: FairnessAnswer) -> Sentence:
    if answer.fair:
        end = "" if answer.waiting > 0 else ", and no task waits"
        return Sentence(Topic.FAIR, "Fair", f"every team has its fair share now{end}")
    missing = f"{format_percent(answer.missing)} of all fair shares is missing"
    if answer.within_a_task:
        text = f"{missing}, less than one task of each team"
        return Sentence(Topic.FAIR, "Fair up to whole tasks", text)
    if answer.missing_later < answer.missing:
        later = answer.missing_later
        rest = format_percent(later) if later > 0 else "nothing"
        missing = f"{missing}, {rest} once the waiting tasks that fit have started"
    has = format_percent(1 - answer.worst_missing)
    text = f"{missing}; {answer.worst_off} is worst off, with {has} of its own"
    return Sentence(Topic.FAIR, "Not fair", text)


def _beyond_text(answer: FairnessAnswer) -> str:
    """Return who runs more tasks than the scenario says that it has, or nothing."""
    beyond = sorted((t for t in answer.teams if t.beyond > 0), key=lambda team: -team.beyond)
    if not beyond:
        return ""
    said = [
        f"{team.name} runs {format_count(team.tasks, 'task')}, and the scenario says "
        f"{format_number(team.tasks - team.beyond)}"
        for team in beyond[:_MOST_NAMED]
    ]
    if len(beyond) > _MOST_NAMED:
        rest = format_count(len(beyond) - _MOST_NAMED, "more team")
        said.append(f"{rest} {plural(len(beyond) - _MOST_NAMED, 'runs', 'run')} too many")
    return f"{'; '.join(said)}: is `tasks` only what waits? It must be what runs and what waits"


def _short_text(answer: FairnessAnswer) -> str:
    if answer.fair:
        return "nobody"
    reasons: dict[Any, list[TeamShare]] = {}
    for team in answer.short:
        reasons.setdefault((team.held_by, team.fits > 0, team.within_a_task), []).append(team)
    named = []
    for teams in list(reasons.values())[:_MOST_NAMED]:
        names = join_names(map(_with_points, teams), most=_MOST_NAMED)
        named.append(f"{names}: {_why_short(answer, teams)}")
    rest = sum(map(len, list(reasons.values())[_MOST_NAMED:]))
    more = f"; {format_count(rest, 'team')} more" if rest else ""
    return f"{'; '.join(named)}{more}"


def _why_short(answer: FairnessAnswer, teams: list[TeamShare]) -> str:
    """Return why teams are below their fair share, for the same reasons."""
    it, parts = plural(len(teams), "it", "they"), []
    if teams[0].within_a_task:
        parts.append(f"{plural(len(teams), 'it', 'each')} lacks less than one task")
    fits, waiting = (sum(getattr(team, what) for team in teams) for what in ("fits", "waiting"))
    if fits:
        parts.append(f"{_tasks(fits, waiting)} would fit now")
    if teams[0].held_by:
        holders = [team for name in teams[0].held_by for team in answer.teams if team.name == name]
        names = join_names(map(_with_points, holders), most=_MOST_NAMED)
        have = plural(len(holders), "has more than its", "have more than their")
        parts.append(f"{names} {have} fair share on servers that {it} may use")
    if not parts:
        parts.append("no waiting task fits on what is free; the fair allocation places otherwise")
    return ", and ".join(parts)


def _tasks(number: float, waiting: float) -> str:
    """Return a number of waiting tasks, and of how many if that is a whole number.

    It is none where tasks are endless, or counted in their mean.
    """
    whole = math.isfinite(waiting) and abs(waiting - round(waiting)) <= ALMOST * waiting
    if not whole:
        return format_count(number, "waiting task")
    return f"{format_number(number)} of {format_count(round(waiting), 'waiting task')}"


def _with_points(team: TeamShare) -> str:
    return f"{team.name} ({team.points})"


def _waste_text(answer: FairnessAnswer) -> str:
    over = "more is held on a server than it has; " if answer.overfull else ""
    parts = [f"{format_percent(part, 0)} of {name}" for name, part in answer.free.items()]
    free = f"{over}{join_names(parts)} is free"
    if answer.waiting == 0:
        return f"nothing, as no task waits; {free}"
    if not answer.fits:
        return f"nothing that is free could be used now: {free}, and no waiting task fits there"
    some = sorted((team for team in answer.teams if team.fits), key=lambda team: -team.fits)
    names = [f"{team.name} {format_number(team.fits)}" for team in some]
    where = "by the sums of their groups" if answer.by_group else "with nothing moved"
    return (
        f"{free}, and {_tasks(answer.fits, answer.waiting)} would fit there now, {where} "
        f"({join_names(names, most=_MOST_NAMED)})"
    )


def _truthful_text(truthful: Truthfulness) -> str:
    rule = "which rule placed what runs now is not known"
    if truthful.proven:
        return (
            f"no, proven: nobody gains by it in the fair allocation of divisible tasks "
            f"({truthful.source}); {rule}"
        )
    return (
        f"somebody might gain by it, even in the fair allocation: the proof that nobody does needs "
        f"{join_names(truthful.outside)} (--mechanism drfh searches); {rule}"
    )


def _change_text(answer: FairnessAnswer) -> str:
    parts = []
    if answer.missing_later < answer.missing and not answer.fair:
        fit = plural(answer.fits, "fits", "fit")
        parts.append(f"starting the {format_count(answer.fits, 'waiting task')} that {fit} now")
    if not (answer.fair or answer.within_a_task):
        parts += _giving_back(answer)
    limits: dict[tuple[str, ...], list[Scarcity]] = {}
    for scarcity, names in answer.bottlenecks.items():
        limits.setdefault(names, []).append(scarcity)
    for names, scarce in list(limits.items())[:_MOST_SCARCE]:
        scarcities = join_names(_by_servers(scarce), most=_MOST_NAMED)
        limit = plural(len(scarce), "limits", "limit")
        parts.append(
            f"{scarcities} {limit} {join_names(names, most=_MOST_NAMED)} in the fair allocation"
        )
    if limits:
        return f"{'; '.join(parts)} (--add tries more)"
    parts.append(
        "nothing need be bought, as all tasks would run in the fair allocation"
        if answer.waiting > 0
        else "nothing, as nobody waits for more"
    )
    return "; ".join(parts)


def _giving_back(answer: FairnessAnswer) -> list[str]:
    """Return what teams above their fair shares would give back of their largest resource."""
    giving = [team for team in answer.teams if team.above][::-1]
    if not giving:
        return []
    amounts = [
        f"{team.name} {format_amount(team.amount * (1 - team.fair / team.now))} {team.resource}"
        for team in giving
    ]
    listed = join_names(amounts, most=_MOST_NAMED)
    return [f"giving back what is above the fair shares: {listed}"]
