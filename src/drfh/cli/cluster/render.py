"""A live cluster as text: shares of users, a map of the nodes, explanations, replays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drfh.cli.render.console import Column, bar, console, print_columns, print_line
from drfh.cli.render.simulation import spans
from drfh.files.atomic import shown_path
from drfh.formatting import (
    escaped,
    format_amounts,
    format_count,
    format_duration,
    format_percent,
    format_quantity,
    format_rest,
    format_time,
    plural,
    short_resource,
)

if TYPE_CHECKING:
    from drfh.engines.engine import ControllerFacts, TaskExplanation
    from drfh.engines.journal.reader import Journal
    from drfh.engines.journal.replay import Replay
    from drfh.engines.journal.workload import JournalWorkload
    from drfh.engines.snapshot import BlockedReason
    from drfh.engines.status import NodeStatus, Status, UserStatus

__all__ = [
    "StatusLines",
    "glyph",
    "print_explanation",
    "print_nodes",
    "print_replay",
    "print_status",
    "write_status",
]


_LEVELS = "·▁▂▃▄▅▆▇█"
_CLOSING, _DOWN = "◇", "✘"
#: From empty to full: cold to warm. A terminal of 16 colours shows the nearest.
_STYLES = ("bright_black", "color(31)", "color(37)", "color(36)", "color(71)", "color(107)",
           "color(143)", "color(178)", "color(208)")  # fmt: skip
_STATE_STYLES = {_CLOSING: "color(141)", _DOWN: "bold red"}
_GROUP = 10  # cells between two blanks
_MOST_CELLS = 640
_MOST_SHAPES = 12
_LONGEST_NAME = 20


def glyph(node: NodeStatus) -> str:
    """Return the cell of a node.

    Examples
    --------
    >>> from drfh.engines.status import NodeStatus
    >>> size = {"cpu": 8.0}
    >>> [glyph(NodeStatus("n", "up", size, {"cpu": used}, 1)) for used in (0.0, 0.1, 4.0, 7.9, 8.0)]
    ['·', '▁', '▄', '▇', '█']
    >>> glyph(NodeStatus("n", "down", size, {}, 0))
    '✘'
    """
    if node.state != "up":
        return _DOWN if node.state == "down" else _CLOSING
    return _level(node.fullness)


def _level(fullness: float) -> str:
    """Return a glyph; only what is empty looks empty, and only what is full looks full."""
    if fullness <= 0:
        return _LEVELS[0]
    if fullness >= 1 - 1e-9:
        return _LEVELS[-1]
    return _LEVELS[1 + int(fullness * (len(_LEVELS) - 2))]


def print_nodes(out: Any, nodes: Sequence[NodeStatus], width: int) -> None:
    """Print a map of the nodes, and what its glyphs mean.

    Parameters
    ----------
    out
        A console, or what keeps lines as one.
    nodes
        In the order in which they are shown.
    width
        Columns.
    """
    if not nodes:
        return
    out.print()
    out.print(_head(nodes), style="bold")
    if len(nodes) > _MOST_CELLS:
        out.print("by size, each from its fullest nodes to its empty ones", style="dim")
        _print_shapes(out, nodes, width)
    else:
        _print_cells(out, nodes, width)
    _print_legend(out, nodes)


def _head(nodes: Sequence[NodeStatus]) -> str:
    states = Counter(node.state for node in nodes)
    words = {"up": "up", "closing": "take nothing new", "down": "down"}
    if states["closing"] == 1:
        words["closing"] = "takes nothing new"
    listed = [f"{states[state]:,} {word}" for state, word in words.items() if states[state]]
    return f"{format_count(len(nodes), 'node')}: {', '.join(listed)}"


def _print_cells(out: Any, nodes: Sequence[NodeStatus], width: int) -> None:
    """Print a cell for each node, in lines that begin with the name of the first."""
    longest = min(max(len(node.name) for node in nodes), _LONGEST_NAME)
    groups = max((width - longest - 1) // (_GROUP + 1), 1)
    per_line = groups * _GROUP
    for start in range(0, len(nodes), per_line):
        line = nodes[start : start + per_line]
        name = line[0].name
        if len(name) > longest:
            name = f"…{name[1 - longest :]}"  # the end of a name is what tells nodes apart
        out.print(_cells(f"{name:>{longest}} ", [glyph(node) for node in line]))


def _cells(label: str, glyphs: Sequence[str], *, apart: bool = True) -> Any:
    from rich.text import Text

    line = Text(escaped(label), no_wrap=True)
    for position, one in enumerate(glyphs):
        if apart and position and position % _GROUP == 0:
            line.append(" ")
        line.append(one, style=_style(one))
    return line


def _style(one: str) -> str:
    return _STATE_STYLES.get(one) or _STYLES[_LEVELS.index(one)]


def _print_shapes(out: Any, nodes: Sequence[NodeStatus], width: int) -> None:
    """Print a strip for each size of node: those that are up, the fullest first."""
    shapes: dict[str, list[NodeStatus]] = {}
    for node in nodes:
        shapes.setdefault(format_amounts(node.size, resource_first=True), []).append(node)
    listed = sorted(shapes.items(), key=lambda item: -len(item[1]))
    if len(listed) > _MOST_SHAPES:
        rest = [node for _, group in listed[_MOST_SHAPES - 1 :] for node in group]
        kinds = format_count(len(listed) - _MOST_SHAPES + 1, "other size")
        listed = [*listed[: _MOST_SHAPES - 1], (kinds, rest)]
    label = max(len(shape) for shape, _ in listed)
    number = max(len(f"{len(group):,}") for _, group in listed)
    columns = width - number - 4
    together = label + 22 <= columns  # else the size has a line of its own
    strip = min(columns - label - 1 if together else columns, 80)
    for shape, group in listed:
        count = f"{len(group):>{number},} × "
        glyphs = _strip_of_nodes(group, strip)
        if together:
            out.print(_cells(f"{count}{shape:{label}} ", glyphs, apart=False))
        else:
            out.print(f"{count}{shape}")
            out.print(_cells(" " * (number + 3), glyphs, apart=False))


def _strip_of_nodes(nodes: Sequence[NodeStatus], width: int) -> list[str]:
    """Return the nodes from full to empty, then those that are not up, in so many cells."""
    up = sorted((node.fullness for node in nodes if node.state == "up"), reverse=True)
    cells = [_level(fullness) for fullness in up]
    cells += [_CLOSING for node in nodes if node.state == "closing"]
    cells += [_DOWN for node in nodes if node.state == "down"]
    if len(cells) <= width:
        return cells
    picked = [cells[(2 * i + 1) * len(cells) // (2 * width)] for i in range(width)]
    # One node that is down must not vanish among thousands.
    for position, state in ((-1, _DOWN), (-2, _CLOSING)):
        if state in cells and state not in picked:
            picked[position] = state
    return picked


def _print_legend(out: Any, nodes: Sequence[NodeStatus]) -> None:
    there = Counter(node.state for node in nodes)
    line = _cells("", _LEVELS[0])
    line.append(" empty ", style="dim")
    for one in _LEVELS[1:]:
        line.append(one, style=_style(one))
    line.append(" full, by its fullest resource", style="dim")
    for state, one, word in (("closing", _CLOSING, "draining"), ("down", _DOWN, "down")):
        if there[state]:
            line.append("  ")
            line.append(one, style=_style(one))
            line.append(f" {word}", style="dim")
    out.print(line)


_MOST_USERS = 24
_BAR, _NARROW_BAR = 16, 9
_ROOMY = 100  # columns from which bars are that wide
_WIDEST = 120  # a wider map is not easier to read
_MOST_BROKEN = 3


class StatusLines:
    """Keeps what would be printed, for a display that is drawn again and again."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.kept: list[Any] = []

    def print(self, thing: Any = "", style: str | None = None) -> None:
        """Keep a line or a table."""
        from rich.styled import Styled
        from rich.text import Text

        shown = Text(escaped(thing)) if isinstance(thing, str) else thing
        self.kept.append(Styled(shown, style) if style else shown)


def print_status(
    status: Status, *, controller: ControllerFacts | None = None, everyone: bool = False
) -> None:
    """Print the status of a cluster.

    Parameters
    ----------
    controller
        Who schedules it, for the top.
    everyone
        All users, however many there are.
    """
    most = None if everyone else _MOST_USERS
    write_status(console(), status, controller=controller, most=most)


def write_status(
    out: Any,
    status: Status,
    *,
    controller: ControllerFacts | None = None,
    most: int | None = None,
) -> None:
    """Write the status of a cluster to a console, or to :class:`StatusLines`.

    Parameters
    ----------
    controller
        As for :func:`print_status`.
    most
        How many users at most; None: all.
    """
    when = format_time(status.time, date=True)
    running = sum(user.running + user.starting for user in status.users)
    waiting = sum(user.waiting for user in status.users)
    runs = plural(running, "runs", "run")
    counted = f"{format_count(running, 'job')} {runs}, {waiting:,} {_wait(waiting)}"
    out.print(f"{when}  {counted}  ({status.policy})", style="bold")
    if controller is not None and controller.text:
        out.print(controller.text, style="yellow" if controller.running is False else "dim")
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
        end = "nearer to fair (--all shows them, --json has them)"
        out.print(format_rest(len(users) - len(shown), "user", end), style="dim")
    if idle:
        has = plural(idle, "has", "have")
        out.print(f"{format_count(idle, 'user')} with a weight {has} no job", style="dim")
    if any(user.uneven for user in shown):
        out.print("≈ of its mean job, as its jobs differ in more than size", style="dim")
    if status.worst is not None:
        worst = next(user for user in status.users if user.name == status.worst)
        out.print(
            f"distance from fair {format_percent(status.distance)}; worst off: {worst.name} has "
            f"{format_percent(worst.fulfilled)} of its fair share"
        )
    elif any(user.fair_share for user in status.users):
        out.print("distance from fair 0 %: nobody has less than its fair share")


def _columns(users: Sequence[UserStatus], width: int) -> list[Column]:
    scale = max(max(user.share, user.fair_share or 0.0) for user in users) or 1.0
    cells = _BAR if width >= _ROOMY else _NARROW_BAR
    counts = {
        "run": [user.running + user.starting for user in users],
        "wait": [user.waiting for user in users],
        "aside": [sum(user.blocked.values()) for user in users],
        "never": [user.never for user in users],
    }
    weights = Column("weight", [f"{user.weight:g}" for user in users])
    return [
        *([weights] if any(user.weight != 1.0 for user in users) else []),
        Column("now", [format_percent(user.share) for user in users]),
        Column("", [_strip(user, scale, cells) for user in users], right=False, spare=2),
        Column("│~in~the fair allocation", [_fair_share(user) for user in users], wraps=True),
        Column("largest in", [short_resource(user.resource or "–") for user in users], right=False,
               wraps=True),
        *(
            Column(word, [f"{number:,}" if number else "–" for number in numbers],
                   spare=int(word == "aside"))
            for word, numbers in counts.items()
            if word in ("run", "wait") or any(numbers)
        ),
    ]  # fmt: skip


def _strip(user: UserStatus, scale: float, cells: int) -> str:
    """Return a bar for what a user has, with a line at its share in the fair allocation."""
    strip = bar(user.share / scale, cells)
    if user.fair_share is None:
        return strip
    at = min(int(user.fair_share / scale * cells), cells - 1)
    return f"{strip[:at]}│{strip[at + 1 :]}"


def _fair_share(user: UserStatus) -> str:
    return (
        f"≈ {format_percent(user.fair_share)}" if user.uneven else format_percent(user.fair_share)
    )


def _write_totals(out: Any, status: Status) -> None:
    out.print()
    used = {
        name: f"{format_quantity(total.used)} of {format_quantity(total.capacity)}"
        for name, total in status.totals.items()
    }
    left = max((len(short_resource(name)) for name in used), default=0)
    right = max((len(words) for words in used.values()), default=0)
    for name, total in status.totals.items():
        part = total.used / total.capacity if total.capacity else 0.0
        head = f"{short_resource(name):{left}}  {used[name]:>{right}} used"
        out.print(f"{head}  {format_percent(part):>7}  {bar(part, _BAR)}".rstrip())


def _write_notes(out: Any, status: Status) -> None:
    starting = sum(user.starting for user in status.users)
    if starting:
        have = plural(starting, "has", "have")
        out.print(f"of those that run, {starting:,} {have} a node and will start", style="dim")
    blocked: Counter[BlockedReason] = Counter()
    for user in status.users:
        blocked.update(user.blocked)
    for why, number in blocked.most_common():
        out.print(f"aside: {format_count(number, 'job')}: {why}", style="dim")
    for why, number in status.unmanaged.items():
        out.print(
            f"not drfh's: {format_count(number, 'job')} that {_wait(number)}: {why}", style="dim"
        )
    for note in status.notes:
        out.print(f"note: {note}", style="yellow")
    for line in status.broken[:_MOST_BROKEN]:
        out.print(f"broken: {line}", style="yellow")
    if len(status.broken) > _MOST_BROKEN:
        rest = format_rest(len(status.broken) - _MOST_BROKEN, end="more (--json has them)")
        out.print(rest, style="yellow")


def _wait(number: int) -> str:
    return plural(number, "waits", "wait")


def print_explanation(explanation: TaskExplanation) -> None:
    """Print why a job waits, or where it runs."""
    out = console()
    # On a terminal words are not broken; a pipe gets each sentence in one line.
    as_lines = not out.is_terminal
    out.print(explanation.text, soft_wrap=as_lines)
    if explanation.first is not None:
        out.print(f"The first that does not run: {explanation.first.text}", soft_wrap=as_lines)


_MOST_REPLAYED_USERS = 12


def print_replay(
    journal: Journal,
    replayed: Replay,
    workload: JournalWorkload,
    table: Mapping[str, Any],
    *,
    everyone: bool = False,
) -> None:
    """Print whether the placements are the same again, and what policies would have done."""
    out = console()
    header = journal.headers[-1]
    facts = f"{header.engine}, {header.policy}, {format_count(journal.entries, 'look')}"
    out.print(
        f"{shown_path(journal.path)}: {facts} in {format_duration(journal.horizon)}", style="bold"
    )
    print_line(str(replayed), None if replayed.same else "red")
    print_line(workload.cluster.summary)
    print_line(f"{format_count(len(workload.workload.users), 'user')}, {workload.workload.summary}")
    out.print()
    runs: Sequence[Mapping[str, Any]] = table["runs"]
    _print_runs(out, runs)
    _print_users(out, table["users"], [row["run"] for row in runs], everyone=everyone)
    if any(row["done"] < row["tasks"] for row in runs):
        whom = "the tasks that started (waiting) and that ended (turnaround): not all did"
        print_line(f"means are of {whom}", "yellow")
    for row in runs:
        if row["evictions"]:
            were = plural(row["evictions"], "was", "were")
            print_line(f"{row['run']}: {format_count(row['evictions'], 'task')} {were} put back "
                "when servers left or shrank, and had to start again")  # fmt: skip
    for remark in workload.remarks:
        print_line(remark, "yellow")


def _print_runs(out: Any, runs: Sequence[Mapping[str, Any]]) -> None:
    work = [
        Column("tasks done", [f"{row['done']:,}" for row in runs], wraps=True),
        Column("of", [f"{row['tasks']:,}" for row in runs]),
        Column("as recorded", [f"{row['as_recorded']:,}" for row in runs], wraps=True),
        Column("mean waiting", spans([row["mean_waiting"] for row in runs]), wraps=True),
        Column("mean turnaround", spans([row["mean_turnaround"] for row in runs]), wraps=True),
        Column("makespan", spans([row["makespan"] for row in runs])),
    ]
    full = [
        Column(resource, [format_percent(row["utilisation"][resource]) for row in runs])
        for resource in runs[0]["utilisation"]
    ]
    print_columns(out, Column("run", [row["run"] for row in runs], right=False), [work, full])


def _print_users(
    out: Any, rows: Sequence[Mapping[str, Any]], runs: Sequence[str], *, everyone: bool
) -> None:
    """Print a table for each measure: a row for each user, a column for each run."""
    cells = {(row["user"], row["run"]): row for row in rows}
    users = list(dict.fromkeys(row["user"] for row in rows))
    shown = users
    if len(users) > _MOST_REPLAYED_USERS and not everyone:
        shown = sorted(users, key=lambda user: -cells[user, runs[0]]["mean_share"])[
            :_MOST_REPLAYED_USERS
        ]
    measures: dict[str, tuple[str, Callable[[float | None], str]]] = {
        "mean_waiting": ("Mean waiting of users", format_duration),
        "mean_turnaround": ("Mean turnaround of users", format_duration),
        "mean_share": ("Mean dominant share of users", format_percent),
    }
    for measure, (title, words) in measures.items():
        print_line(title)
        columns = [
            Column(run, [words(cells[user, run][measure]) for user in shown]) for run in runs
        ]
        print_columns(out, Column("user", shown, right=False), [columns])
    if len(shown) < len(users):
        print_line(
            format_rest(len(users) - len(shown), "user", "more with less (--all shows them)")
        )
