"""``drfh slurm demo``: a real Slurm on this machine, shared by three users who come and go."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drfh.cli.cluster.web import view_at
from drfh.cli.render.console import console, print_json
from drfh.cli.slurm.options import WebOption, WebPortOption
from drfh.errors import DrfhError, InputError
from drfh.formatting import format_percent

if TYPE_CHECKING:
    from drfh.engines.slurm.demo import Demo, DemoMoment

__all__ = ["demo"]

_PACKAGES = "slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins"
_SNAPSHOTS = 6  # in a pipe
_LEVELS = " ▁▂▃▄▅▆▇█"
_CELLS = 40
_NEWS = 3  # on a terminal


def demo(
    nodes: Annotated[int, typer.Option(metavar="N", help="How many nodes, up to 64.")] = 16,
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long it takes, apart from the start.")
    ] = 75.0,
    policy: Annotated[
        str, typer.Option(metavar="NAME", help="The policy that decides.")
    ] = "best-fit-drfh",
    record: Annotated[
        Path | None,
        typer.Option(metavar="LOG", help="Keep the event log here, for drfh slurm replay."),
    ] = None,
    web: WebOption = False,
    web_port: WebPortOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON at the end, and nothing before.")
    ] = False,
) -> None:
    """Start a Slurm cluster on this machine, and watch drfh share it among three users.

    Ann, bob and cat join one after the other and leave again. Everything is
    real, but for the sizes of the nodes, and is gone when it ends: by itself, or
    at Ctrl-C. It needs Slurm's programs and root.

    Try:

      drfh slurm demo --web

      drfh slurm demo --record demo.journal

      drfh slurm replay demo.journal --policy slots:14
    """
    from drfh.engines.slurm.demo import Demo, demo_nodes, open_directory
    from drfh.engines.slurm.sandbox import missing
    from drfh.policies import find_policy

    if not 0 < seconds < 1e6:
        raise InputError("--seconds", "must be > 0", seconds)
    demo_nodes(nodes)
    place = view_at(web, None, web_port)
    name = find_policy(policy).name
    if record is not None and record.exists():
        raise InputError("--record", "must be a new file", str(record))
    reason = missing()
    if reason is not None:
        how = f"; as root: apt-get install --no-install-recommends {_PACKAGES}, or make slurm"
        raise DrfhError(f"a Slurm cluster on this machine {reason}{how}")
    with tempfile.TemporaryDirectory(
        prefix="drfh-demo-", dir=open_directory(), ignore_cleanup_errors=True
    ) as directory:
        show = Demo(Path(directory), nodes, seconds, name, record)
        show.web_port = None if place is None else place.port
        with show.signals():
            if not as_json:
                console().print(f"starting a Slurm cluster of {nodes} nodes in {directory}")
            with show, _screen(show, as_json) as draw:
                show.run(draw, every=min(1.0, seconds / 8))
                done = show.completed()
        if as_json:
            print_json(_as_data(show, done))
        else:
            _print_summary(show, done, record)


@contextmanager
def _screen(demo: Demo, as_json: bool) -> Iterator[Callable[[DemoMoment], None]]:
    """Yield what shows a look: drawn again and again on a terminal, now and then in a pipe."""
    from drfh.cli.cluster.render import StatusLines, print_status, write_status

    out = console()
    if demo.live_view:
        console(stderr=True).print(f"live view: {demo.live_view}", soft_wrap=True)
    elif demo.no_live_view:
        console(stderr=True).print(demo.no_live_view, style="yellow", soft_wrap=True)
    if as_json:
        yield lambda moment: None
        return
    if not out.is_terminal:
        yield _Snapshots(demo, lambda moment: print_status(moment.status)).show
        return
    from rich.console import Console, Group
    from rich.live import Live as Screen

    plain = Console(markup=False, highlight=False, emoji=False)
    news: list[str] = []
    with Screen(console=plain, screen=True, auto_refresh=False) as screen:

        def draw(moment: DemoMoment) -> None:
            news.extend(_news(moment))
            lines = StatusLines(plain.width)
            lines.print(f"drfh slurm demo: {moment.seconds:.0f} of {demo.seconds:.0f} s; "
                        "Ctrl-C ends it")  # fmt: skip
            if demo.live_view:
                lines.print(f"live view: {demo.live_view}", style="bold")
            for line in news[-_NEWS:]:
                lines.print(line)
            write_status(lines, moment.status)
            lines.print(
                f"in another terminal: export SLURM_CONF={demo.directory / 'slurm.conf'}; "
                "drfh slurm status; squeue",
                style="dim",
            )
            screen.update(Group(*lines.kept), refresh=True)

        yield draw


class _Snapshots:
    """Prints the news, and a few looks."""

    def __init__(self, demo: Demo, print_moment: Callable[[DemoMoment], None]) -> None:
        self.every = demo.seconds / _SNAPSHOTS
        self.print_moment = print_moment
        self.printed = 0

    def show(self, moment: DemoMoment) -> None:
        """Print what is new, and the look if it is time for one."""
        for line in _news(moment):
            typer.echo(line)
        if moment.seconds >= self.every * (self.printed + 0.5):
            self.printed += 1
            typer.echo()
            self.print_moment(moment)
            typer.echo()


def _news(moment: DemoMoment) -> list[str]:
    return [f"{moment.seconds:4.0f} s  {line}" for line in moment.news]


# The end


def _as_data(demo: Demo, done: dict[str, int]) -> dict[str, Any]:
    return {
        "nodes": demo.nodes,
        "seconds": demo.moments[-1].seconds if demo.moments else 0.0,
        "policy": demo.policy,
        "stopped": demo.stop_requested.is_set(),
        "users": [
            {
                "user": visitor.name,
                "cpus": visitor.cpus,
                "memory_mib": visitor.memory,
                "completed": done.get(visitor.name, 0),
                **_means(demo, visitor.name),
            }
            for visitor in demo.visitors
        ],
        "looks": [
            {
                "seconds": moment.seconds,
                "distance_from_fair": moment.status.distance,
                "users": {
                    user.name: {
                        "share": user.share,
                        "ideal": user.fair_share,
                        "running": user.running,
                        "starting": user.starting,
                        "waiting": user.waiting,
                    }
                    for user in moment.status.users
                },
                "news": list(moment.news),
            }
            for moment in demo.moments
        ],
    }


def _of(demo: Demo, name: str) -> list[tuple[float, float | None]]:
    """Return the share and the ideal share of a user at every look."""
    rows: list[tuple[float, float | None]] = []
    for moment in demo.moments:
        user = next((user for user in moment.status.users if user.name == name), None)
        rows.append((user.share, user.fair_share) if user is not None else (0.0, None))
    return rows


def _means(demo: Demo, name: str) -> dict[str, float | None]:
    """Return the mean shares over the looks at which somebody had jobs that ran or waited."""
    rows = [(share, ideal) for share, ideal in _of(demo, name) if ideal is not None]
    if not rows:
        return {"mean_share": None, "mean_ideal": None}
    return {
        "mean_share": sum(share for share, _ in rows) / len(rows),
        "mean_ideal": sum(ideal for _, ideal in rows) / len(rows),
    }


def _print_summary(demo: Demo, done: dict[str, int], record: Path | None) -> None:
    out = console()
    total = sum(done.values())
    took = demo.moments[-1].seconds if demo.moments else 0.0
    word = "stopped" if demo.stop_requested.is_set() else "done"
    out.print(
        f"{word}: {total:,} jobs ran on {demo.nodes} nodes of a real Slurm in {took:.0f} s, placed "
        f"by {demo.policy}; everything is stopped again",
        style="bold",
    )
    if demo.moments:
        rows = {visitor.name: _of(demo, visitor.name) for visitor in demo.visitors}
        top = max((max(share, ideal or 0.0) for row in rows.values() for share, ideal in row),
                  default=0.0) or 1.0  # fmt: skip
        cells = min(_CELLS, len(demo.moments))
        out.print(
            f"\nglobal dominant shares from 0 to {took:.0f} s, a full block is "
            f"{format_percent(top)}"
        )
        for visitor in demo.visitors:
            row, mean = rows[visitor.name], _means(demo, visitor.name)
            ran = f"{done.get(visitor.name, 0):,} jobs of {visitor.words}"
            share = _strip([share for share, _ in row], top, cells)
            ideal = _strip([ideal or 0.0 for _, ideal in row], top, cells)
            out.print(
                f"{visitor.name:5} has    {share}  mean {format_percent(mean['mean_share'])}, {ran}"
            )
            out.print(
                f"{'':5} ideal  {ideal}  mean {format_percent(mean['mean_ideal'])}", style="dim"
            )
    out.print(
        "\nWhole jobs that are not interrupted follow the ideal with a delay: who joins gets what "
        "others give back."
    )
    if record is not None:
        out.print(f"Another policy:  drfh slurm replay {record} --policy slots:14")
    else:
        out.print("Another policy:  drfh slurm demo --record demo.journal, then")
        out.print("                 drfh slurm replay demo.journal --policy slots:14")
    out.print("On your cluster: drfh slurm --help")


def _strip(values: list[float], top: float, cells: int) -> str:
    """Return one glyph for each part of the time, by the mean there."""
    strip = ""
    for cell in range(cells):
        some = values[cell * len(values) // cells : (cell + 1) * len(values) // cells] or [0.0]
        level = sum(some) / len(some) / top
        strip += _LEVELS[min(int(level * (len(_LEVELS) - 1) + 0.5), len(_LEVELS) - 1)]
    return strip
