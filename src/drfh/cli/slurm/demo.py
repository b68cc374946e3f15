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
from drfh.cli.service import LogFormatOption, LogLevelOption, check_log_options
from drfh.cli.slurm.options import WebOption, WebPortOption
from drfh.errors import DrfhError, InputError
from drfh.formatting import escaped, format_percent

if TYPE_CHECKING:
    from drfh.engines.slurm.demo import Demo, DemoSample

__all__ = ["demo"]

_PACKAGES = "slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins"
_PIPE_SAMPLES = 6
_LEVELS = " ▁▂▃▄▅▆▇█"
_CELLS = 40
_EVENT_LINES = 3  # on a terminal


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
    log_level: LogLevelOption = "info",
    log_format: LogFormatOption = "text",
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
    check_log_options(log_level, log_format)
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
        show.log_options = (f"--log-level={log_level}", f"--log-format={log_format}")
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
def _screen(demo: Demo, as_json: bool) -> Iterator[Callable[[DemoSample], None]]:
    """Yield a function that shows a sample: redrawn on a terminal, now and then in a pipe."""
    from drfh.cli.cluster.render import StatusLines, print_status, write_status

    out = console()
    if demo.live_view:
        console(stderr=True).print(f"live view: {demo.live_view}", soft_wrap=True)
    elif demo.live_view_error:
        console(stderr=True).print(demo.live_view_error, style="yellow", soft_wrap=True)
    if as_json:
        yield lambda sample: None
        return
    if not out.is_terminal:
        yield _SamplePrinter(demo, lambda sample: print_status(sample.status)).show
        return
    from rich.console import Group
    from rich.live import Live as Screen

    plain = console(soft_wrap=False)
    events: list[str] = []
    with Screen(console=plain, screen=True, auto_refresh=False) as screen:

        def draw(sample: DemoSample) -> None:
            events.extend(_events(sample))
            lines = StatusLines(plain.width)
            lines.print(f"drfh slurm demo: {sample.seconds:.0f} of {demo.seconds:.0f} s; "
                        "Ctrl-C ends it")  # fmt: skip
            if demo.live_view:
                lines.print(f"live view: {demo.live_view}", style="bold")
            for line in events[-_EVENT_LINES:]:
                lines.print(line)
            write_status(lines, sample.status)
            lines.print(
                f"in another terminal: export SLURM_CONF={demo.directory / 'slurm.conf'}; "
                "drfh slurm status; squeue",
                style="dim",
            )
            screen.update(Group(*lines.kept), refresh=True)

        yield draw


class _SamplePrinter:
    """Prints events, and a few samples."""

    def __init__(self, demo: Demo, print_sample: Callable[[DemoSample], None]) -> None:
        self.every = demo.seconds / _PIPE_SAMPLES
        self.print_sample = print_sample
        self.printed = 0

    def show(self, sample: DemoSample) -> None:
        """Print what happened, and the status if it is time for it."""
        for line in _events(sample):
            typer.echo(escaped(line))
        if sample.seconds >= self.every * (self.printed + 0.5):
            self.printed += 1
            typer.echo()
            self.print_sample(sample)
            typer.echo()


def _events(sample: DemoSample) -> list[str]:
    return [f"{sample.seconds:4.0f} s  {line}" for line in sample.events]


# The end


def _as_data(demo: Demo, done: dict[str, int]) -> dict[str, Any]:
    return {
        "nodes": demo.nodes,
        "seconds": demo.samples[-1].seconds if demo.samples else 0.0,
        "policy": demo.policy,
        "stopped": demo.stop_requested.is_set(),
        "users": [
            {
                "user": user.name,
                "cpus": user.cpus,
                "memory_mib": user.memory,
                "completed": done.get(user.name, 0),
                **_means(demo, user.name),
            }
            for user in demo.users
        ],
        "looks": [
            {
                "seconds": sample.seconds,
                "distance_from_fair": sample.status.distance,
                "users": {
                    user.name: {
                        "share": user.share,
                        "ideal": user.fair_share,
                        "running": user.running,
                        "starting": user.starting,
                        "waiting": user.waiting,
                    }
                    for user in sample.status.users
                },
                "news": list(sample.events),
            }
            for sample in demo.samples
        ],
    }


def _shares(demo: Demo, name: str) -> list[tuple[float, float | None]]:
    """Return the share and the ideal share of a user in every sample."""
    rows: list[tuple[float, float | None]] = []
    for sample in demo.samples:
        user = next((user for user in sample.status.users if user.name == name), None)
        rows.append((user.share, user.fair_share) if user is not None else (0.0, None))
    return rows


def _means(demo: Demo, name: str) -> dict[str, float | None]:
    """Return the mean shares over the samples in which a user had jobs that ran or waited."""
    rows = [(share, ideal) for share, ideal in _shares(demo, name) if ideal is not None]
    if not rows:
        return {"mean_share": None, "mean_ideal": None}
    return {
        "mean_share": sum(share for share, _ in rows) / len(rows),
        "mean_ideal": sum(ideal for _, ideal in rows) / len(rows),
    }


def _print_summary(demo: Demo, done: dict[str, int], record: Path | None) -> None:
    out = console()
    total = sum(done.values())
    took = demo.samples[-1].seconds if demo.samples else 0.0
    result = "stopped" if demo.stop_requested.is_set() else "done"
    out.print(
        f"{result}: {total:,} jobs ran on {demo.nodes} nodes of a real Slurm in {took:.0f} s, "
        f"placed by {demo.policy}; everything is stopped again",
        style="bold",
    )
    if demo.samples:
        rows = {user.name: _shares(demo, user.name) for user in demo.users}
        top = max((max(share, ideal or 0.0) for row in rows.values() for share, ideal in row),
                  default=0.0) or 1.0  # fmt: skip
        cells = min(_CELLS, len(demo.samples))
        out.print()
        out.print(
            f"global dominant shares from 0 to {took:.0f} s, a full block is {format_percent(top)}"
        )
        for user in demo.users:
            row, mean = rows[user.name], _means(demo, user.name)
            ran = f"{done.get(user.name, 0):,} jobs of {user.request}"
            share = _strip([share for share, _ in row], top, cells)
            ideal = _strip([ideal or 0.0 for _, ideal in row], top, cells)
            out.print(
                f"{user.name:5} has    {share}  mean {format_percent(mean['mean_share'])}, {ran}"
            )
            out.print(
                f"{'':5} fair   {ideal}  mean {format_percent(mean['mean_ideal'])}", style="dim"
            )
    out.print()
    out.print(
        "Whole jobs that are not interrupted follow the fair allocation with a delay: who joins "
        "gets what others give back."
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
