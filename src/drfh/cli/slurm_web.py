"""``--web`` of ``drfh slurm run`` and ``status``: the live view in a browser."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from drfh.errors import DrfhError

if TYPE_CHECKING:
    from drfh.cli.slurm_options import OpenSite
    from drfh.engines.slurm.controller import Controller, Cycle
    from drfh.web.feed import Feed

__all__ = ["WebOption", "WebPortOption", "open_view", "port_of", "told_to", "watch_in_browser"]

_PORT = 8437
_PANEL = "Live view"

WebOption = Annotated[
    bool,
    typer.Option(
        "--web",
        rich_help_panel=_PANEL,
        help=f"Show the cluster in a browser, on port {_PORT} of 127.0.0.1.",
    ),
]
WebPortOption = Annotated[
    int | None,
    typer.Option(
        "--web-port",
        metavar="PORT",
        envvar="DRFH_SLURM_WEB_PORT",
        rich_help_panel=_PANEL,
        help="The same on another port (0: any free one).",
    ),
]


def port_of(web: bool, web_port: int | None) -> int | None:
    """Return the port of the live view; None if nobody wants one.

    Examples
    --------
    >>> port_of(False, None), port_of(True, None), port_of(False, 0)
    (None, 8437, 0)
    """
    if web_port is None and not web:
        return None
    from drfh.web.live_server import check_web

    check_web()
    return _PORT if web_port is None else web_port


def open_view(
    stack: ExitStack, title: str, how: str, port: int, say: Callable[[str], None]
) -> Feed | None:
    """Serve a live view until the stack is closed, and say where it is.

    Parameters
    ----------
    stack
        Closes it.
    title, how
        What the cluster is called, and how it is shared.
    port
        0: any free one.
    say
        Told where it is.

    Returns
    -------
    Feed or None
        What is to be told of each round; None if pages cannot be served, which must not keep a
        controller from its work.
    """
    from drfh.web.feed import Feed
    from drfh.web.live_server import serve_live

    feed = Feed(title, how)
    try:
        server = stack.enter_context(serve_live(feed, port))
    except DrfhError:
        raise
    except Exception as error:
        say(f"there is no live view ({type(error).__name__}: {error})")
        return None
    say(f"live view: {server.url}")
    return feed


def told_to(
    feed: Feed | None,
    controller: Controller,
    seen: Callable[[Cycle], None],
    say: Callable[[str], None],
) -> Callable[[Cycle], None]:
    """Return what is done after a round: what was done before, and the live view is told.

    Parameters
    ----------
    feed
        The live view; None if there is none.
    controller
        Who goes round.
    seen
        What was done before.
    say
        Told once if the live view cannot follow.
    """
    if feed is None:
        return seen
    failed = False

    def after(done: Cycle) -> None:
        nonlocal failed
        seen(done)
        try:
            feed.round(controller, done)
            failed = False
        except Exception as error:  # a page is not worth a round
            if not failed:
                say(f"the live view could not follow ({type(error).__name__}: {error})")
            failed = True

    return after


def watch_in_browser(
    look: Callable[[], OpenSite], seconds: float, port: int, say: Callable[[str], None]
) -> None:
    """Show a cluster in a browser that somebody else controls, until Ctrl-C; nothing is touched.

    Parameters
    ----------
    look
        Finds the cluster; again each time, as a controller may start or start again.
    seconds
        Between two looks.
    port
        0: any free one.
    say
        Told where it is.
    """
    site = look()
    first = site.look()  # must succeed; later slurmctld may be away for a while
    how = f"{first.mirror.policy.name}, by {site.site.user_by}; a view that only looks"
    try:
        with ExitStack() as stack:
            feed = open_view(stack, site.name, how, port, say)
            if feed is None:
                return
            feed.look(first)
            while True:
                time.sleep(seconds)
                try:
                    feed.look(look().look())
                except DrfhError as error:
                    feed.trouble(str(error))
    except KeyboardInterrupt:  # the way to end it, not a failure
        return
