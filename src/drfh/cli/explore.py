"""``drfh explore``: the what-if explorer in a browser."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drfh.cli.subject import FileArgument, TraceOption, read_subject
from drfh.errors import InputError

if TYPE_CHECKING:
    from drfh.web.explorer import Start
    from drfh.web.server import Address

__all__ = ["explore"]


def explore(
    file: FileArgument = None,
    trace: TraceOption = None,
    kubectl: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="NODES PODS",
            rich_help_panel="Trace",
            help="Instead of FILE: what kubectl get nodes and pods -o json print.",
        ),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Show a run directory (drfh simulate -o).")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Let the page open files and runs of this directory."),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="Address to serve on; one that others can reach needs the token that is printed."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(help="Port to serve on (0: any free one; default: 8090 or the next)."),
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Open no browser.")] = False,
) -> None:
    """Open a page to look at a cluster and ask what if: edit, compare, audit, play, share.

    Without FILE it opens with an example of the paper. It is served on this machine only, and
    everything that it shows comes from here: it needs no internet.

    Example: drfh explore google-2011
    """
    from drfh.web.server import Site, listen, needs_nicegui

    needs_nicegui()
    start = _start(file, trace, kubectl, run, folder)
    address, listener = listen(host, port)
    from drfh.web.explorer import explorer_page

    def started() -> None:
        typer.echo(f"drfh explore: {address.url}")
        if address.token:
            typer.echo("whoever has this address sees the page; the token is printed only here")
        typer.echo("Ctrl-C stops it")
        sys.stdout.flush()
        if not no_open:
            _open_browser(address)

    site = Site(address, listener, explorer_page(start), title="drfh explorer", started=started)
    try:
        site.run()
    except KeyboardInterrupt:
        typer.echo("stopped")


def _start(
    file: str | None,
    trace: str | None,
    kubectl: tuple[Path, Path] | None,
    run: Path | None,
    folder: Path | None,
) -> Start:
    from drfh.web.explorer import Start

    for option, directory in (("--run", run), ("--folder", folder)):
        if directory is not None and not directory.is_dir():
            raise InputError(option, "must be a directory that exists", str(directory))
    if kubectl is not None:
        if trace is not None:
            raise InputError("--kubectl", "must not be given together with --trace")
        trace = f"kubernetes:{kubectl[0]},{kubectl[1]}"
    if folder is None and run is not None:
        folder = run.resolve().parent
    panel = "runs" if run is not None else ""
    if file is None and trace is None:
        return Start(folder=folder, run=run, panel=panel)
    subject = read_subject(file, trace, verb="explore")
    subject.print_account()
    return Start(subject.scenario, folder, run, subject.trace, panel)


def _open_browser(address: Address) -> None:
    """Open the page where there is a screen to see it on."""
    if sys.platform == "linux" and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        return
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(address.url,), daemon=True).start()
