"""``drfh explore``: the what-if explorer in a browser."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drfh.cli.input import (
    FileArgument,
    SetOption,
    SplitOption,
    StrictOption,
    TraceOption,
    read_input,
)
from drfh.cli.render.console import print_json
from drfh.cli.whatif import Edits, WeightOption, WeightsOption
from drfh.errors import InputError

if TYPE_CHECKING:
    from drfh.web.server.app import Address

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
    settings: SetOption = None,
    strict: StrictOption = False,
    split: SplitOption = None,
    weight: WeightOption = None,
    weights: WeightsOption = None,
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
    as_json: Annotated[
        bool, typer.Option("--json", help="Print where it is served as one line of JSON.")
    ] = False,
) -> None:
    """Open a page to look at a cluster and ask what if: edit, compare, audit, play, share.

    Without FILE it opens with an example of the paper. It is served on this machine only, and
    everything that it shows comes from here: it needs no internet.

    Try:

      drfh explore google-2011

      drfh explore --kubectl nodes.json pods.json

      drfh explore --run runs/day
    """
    from drfh.web.server.app import PageServer, listen, require_nicegui

    require_nicegui()
    from drfh.web.explorer.page import Start, explorer_page

    if kubectl is not None:
        if trace is not None:
            raise InputError("--kubectl", "must not be given together with --trace")
        trace = f"kubernetes:{kubectl[0]},{kubectl[1]}"
    start = Start(folder=_folder(folder, run), run=run, panel="runs" if run is not None else "")
    edits = Edits(weight=weight, weights=weights)
    if file or trace or settings or strict or split is not None or edits:
        given = read_input(
            file,
            trace,
            verb="explore",
            settings=settings,
            strict=strict,
            split=split,
            kinds=False,
            edits=edits,
        )
        given.print_account()
        start = replace(start, scenario=given.scenario, trace=given.weighted)
    address, listener = listen(host, port)

    def on_start() -> None:
        if as_json:
            data = {"url": address.url, "host": address.host, "port": address.port}
            token = {"token": address.token} if address.token else {}
            print_json({**data, **token}, in_a_line=True)
        else:
            typer.echo(f"drfh explore: {address.url}")
            if address.token:
                typer.echo("whoever has this address sees the page; the token is printed only here")
            typer.echo("Ctrl-C stops it")
        sys.stdout.flush()
        if not no_open:
            _open_browser(address)

    server = PageServer(
        address, listener, explorer_page(start), title="drfh explorer", on_start=on_start
    )
    try:
        server.run()
    except KeyboardInterrupt:
        if not as_json:
            typer.echo("stopped")


def _folder(folder: Path | None, run: Path | None) -> Path | None:
    """Return the directory whose files the page may open."""
    for option, directory in (("--run", run), ("--folder", folder)):
        if directory is not None and not directory.is_dir():
            raise InputError(option, "must be a directory that exists", str(directory))
    return run.resolve().parent if folder is None and run is not None else folder


def _open_browser(address: Address) -> None:
    """Open the page where there is a screen to see it on."""
    if sys.platform == "linux" and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        return
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(address.url,), daemon=True).start()
