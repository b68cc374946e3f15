"""A live Slurm cluster as text: who has what, and a map of how full the nodes are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from drfh.cli.columns import Column, print_columns
from drfh.cli.output import bar, console, percent
from drfh.cli.slurm_map import print_nodes
from drfh.resources import format_quantity, some

if TYPE_CHECKING:
    from drfh.engines.slurm.status import Status, UserStatus
    from drfh.engines.slurm.why import JobWhy

__all__ = ["Lines", "print_status", "print_why", "write_status"]

_MOST_USERS = 24
_BAR, _NARROW_BAR = 16, 10
_ROOMY = 100  # columns from which bars are that wide
_WIDEST = 120  # a wider map is not easier to read
_MOST_BROKEN = 3


class Lines:
    """Keeps what would be printed, for a display that is drawn again and again."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.kept: list[Any] = []

    def print(self, thing: Any = "", style: str | None = None) -> None:
        """Keep a line or a table."""
        from rich.styled import Styled
        from rich.text import Text

        shown = Text(thing) if isinstance(thing, str) else thing
        self.kept.append(Styled(shown, style) if style else shown)


def print_status(status: Status, *, head: str = "", everyone: bool = False) -> None:
    """Print the state of a cluster.

    Parameters
    ----------
    status
        Its numbers.
    head
        What else to say at the top, such as who drives it.
    everyone
        All users, however many there are.
    """
    most = None if everyone else _MOST_USERS
    write_status(console(), status, head=head, most=most)


def write_status(out: Any, status: Status, *, head: str = "", most: int | None = None) -> None:
    """Write the state of a cluster to a console, or to :class:`Lines`.

    Parameters
    ----------
    out
        Where to.
    status, head
        As for :func:`print_status`.
    most
        How many users at most; None: all.
    """
    when = datetime.fromtimestamp(status.time).strftime("%Y-%m-%d %H:%M:%S")
    running = sum(user.running + user.starting for user in status.users)
    waiting = sum(user.waiting for user in status.users)
    runs = "runs" if running == 1 else "run"
    counted = f"{some(running, 'job')} {runs}, {waiting:,} {_wait(waiting)}"
    out.print(f"{when}  {counted}  ({status.policy})", style="bold")
    if head:
        out.print(head, style="dim" if head.startswith("controller") else "yellow")
    _write_users(out, status, most)
    _write_totals(out, status)
    print_nodes(out, status.nodes, min(out.width, _WIDEST))
    _write_notes(out, status)


def _write_users(out: Any, status: Status, most: int | None) -> None:
    users = [user for user in status.users if user.jobs]
    idle = len(status.users) - len(users)
    shown = users
    if most is not None and len(users) > most:
        # Those who are furthest from what they should have; the others are well.
        order = sorted(users, key=lambda user: (user.fulfilled is None, user.fulfilled or 0.0))
        shown = order[:most]
    if shown:
        print_columns(out, Column("user", [user.name for user in shown], right=False),
                      [_columns(shown, out.width)])  # fmt: skip
    else:
        out.print("nobody has a job")
    if len(shown) < len(users):
        more = some(len(users) - len(shown), "user")
        out.print(f"… and {more} nearer to fair (--all shows them, --json has them)", style="dim")
    if idle:
        has = "has" if idle == 1 else "have"
        out.print(f"{some(idle, 'user')} with a weight {has} no job", style="dim")
    if any(user.uneven for user in shown):
        out.print("≈ of its mean job, as its jobs differ in more than size", style="dim")
    if status.worst is not None:
        worst = next(user for user in status.users if user.name == status.worst)
        out.print(
            f"distance from fair {percent(status.distance)}: {worst.name} has "
            f"{percent(worst.fulfilled)} of its ideal share"
        )
    elif any(user.ideal for user in status.users):
        out.print("distance from fair 0 %: nobody has less than its ideal share")


def _columns(users: Sequence[UserStatus], width: int) -> list[Column]:
    scale = max(max(user.share, user.ideal or 0.0) for user in users) or 1.0
    cells = _BAR if width >= _ROOMY else _NARROW_BAR
    counts = {
        "run": [user.running + user.starting for user in users],
        "wait": [user.waiting for user in users],
        "aside": [sum(user.aside.values()) for user in users],
        "never": [user.never for user in users],
    }
    weights = Column("weight", [f"{user.weight:g}" for user in users])
    return [
        *([weights] if any(user.weight != 1.0 for user in users) else []),
        Column("share", [percent(user.share) for user in users]),
        Column("", [_strip(user, scale, cells) for user in users], right=False, spare=2),
        Column("│ ideal", [_ideal(user) for user in users]),
        Column("of its", [_short(user.resource or "–") for user in users], right=False),
        *(
            Column(word, [f"{number:,}" if number else "–" for number in numbers],
                   spare=int(word == "aside"))
            for word, numbers in counts.items()
            if word in ("run", "wait") or any(numbers)
        ),
    ]  # fmt: skip


def _strip(user: UserStatus, scale: float, cells: int) -> str:
    """Return a bar for what a user has, with a line at what would be ideal."""
    strip = bar(user.share / scale, cells)
    if user.ideal is None:
        return strip
    at = min(int(user.ideal / scale * cells), cells - 1)
    return f"{strip[:at]}│{strip[at + 1 :]}"


def _ideal(user: UserStatus) -> str:
    return f"≈ {percent(user.ideal)}" if user.uneven else percent(user.ideal)


def _short(resource: str) -> str:
    return resource.removeprefix("gres/")


def _write_totals(out: Any, status: Status) -> None:
    out.print()
    used = {
        name: f"{format_quantity(total.used)} of {format_quantity(total.capacity)}"
        for name, total in status.totals.items()
    }
    left = max((len(_short(name)) for name in used), default=0)
    right = max((len(words) for words in used.values()), default=0)
    for name, total in status.totals.items():
        part = total.used / total.capacity if total.capacity else 0.0
        head = f"{_short(name):{left}}  {used[name]:>{right}} used"
        out.print(f"{head}  {percent(part):>7}  {bar(part, _BAR)}".rstrip())


def _write_notes(out: Any, status: Status) -> None:
    starting = sum(user.starting for user in status.users)
    if starting:
        have = "has" if starting == 1 else "have"
        out.print(f"of those that run, {starting:,} {have} a node and will start", style="dim")
    aside: Counter[str] = Counter()
    for user in status.users:
        aside.update(user.aside)
    for why, number in aside.most_common():
        out.print(f"aside: {some(number, 'job')}: {why}", style="dim")
    for why, number in status.outside.items():
        out.print(f"not drfh's: {some(number, 'job')} that {_wait(number)}: {why}", style="dim")
    for note in status.notes:
        out.print(f"note: {note}", style="yellow")
    for line in status.broken[:_MOST_BROKEN]:
        out.print(f"broken: {line}", style="yellow")
    if len(status.broken) > _MOST_BROKEN:
        more = len(status.broken) - _MOST_BROKEN
        out.print(f"… and {more:,} more (--json has them)", style="yellow")


def _wait(number: int) -> str:
    return "waits" if number == 1 else "wait"


def print_why(why: JobWhy) -> None:
    """Print why a job is where it is."""
    out = console()
    # People read words that are not broken; a pipe gets each answer in one line.
    as_lines = not out.is_terminal
    out.print(why.text, soft_wrap=as_lines)
    if why.first is not None:
        out.print(f"The first that does not run: {why.first.text}", soft_wrap=as_lines)
