"""``--web`` of ``drfh slurm run`` and ``status``: the live view in a browser."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from drfh.errors import DrfhError, InputError

if TYPE_CHECKING:
    from drfh.cli.slurm.options import OpenSite
    from drfh.engines.slurm.controller import Controller, Cycle
    from drfh.web.live.publisher import Publisher
    from drfh.web.live.store import LiveStore

__all__ = [
    "Place",
    "WebHostOption",
    "WebOption",
    "WebPortOption",
    "follow",
    "open_view",
    "told_to",
    "view_at",
    "watch_in_browser",
]

_HOST, _PORT = "127.0.0.1", 8437
_PANEL = "Live view"
_LATE, _MISSED = 15.0, 3  # seconds without a look, and looks that were due, until pages say so

WebOption = Annotated[
    bool,
    typer.Option(
        "--web",
        rich_help_panel=_PANEL,
        help=f"Show the cluster in a browser, on port {_PORT} of {_HOST}.",
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
WebHostOption = Annotated[
    str | None,
    typer.Option(
        "--web-host",
        metavar="ADDRESS",
        envvar="DRFH_SLURM_WEB_HOST",
        rich_help_panel=_PANEL,
        help="The same on another address; one that others can reach needs the token that is "
        "printed at the start.",
    ),
]


@dataclass(frozen=True)
class Place:
    """Where a live view is served."""

    host: str
    port: int


def view_at(web: bool, host: str | None, port: int | None) -> Place | None:
    """Return where the live view is served; None if nobody wants one.

    Examples
    --------
    >>> view_at(False, None, None), view_at(True, None, 0)
    (None, Place(host='127.0.0.1', port=0))
    """
    if host is None and port is None and not web:
        return None
    from drfh.web.server.app import require_nicegui

    require_nicegui()
    if port is not None and not 0 <= port < 65_536:
        raise InputError("--web-port", "must be from 0 to 65535", port)
    return Place(_HOST if host is None else host, _PORT if port is None else port)


def open_view(
    stack: ExitStack,
    title: str,
    how: str,
    place: Place,
    say: Callable[[str], None],
    pause: float,
) -> LiveStore:
    """Serve a live view until the stack is closed, and say where it is.

    Parameters
    ----------
    stack
        Closes it.
    title, how
        What the cluster is called, and how it is shared.
    place
        Where.
    say
        Told where it is.
    pause
        Seconds between two looks.
    """
    from drfh.web.live.page import live_server
    from drfh.web.live.store import LiveStore

    feed = LiveStore(title, how, late=max(_LATE, _MISSED * pause))
    server = stack.enter_context(live_server(feed, place.port, place.host))
    say(f"live view: {server.address.url}")
    if server.address.token:
        say("whoever has this address sees the page; the token is printed only here")
    return feed


def follow(
    stack: ExitStack,
    title: str,
    how: str,
    place: Place,
    say: Callable[[str], None],
    pause: float,
) -> Publisher | None:
    """Serve a live view of a controller, and return what is to be told of its rounds.

    None if there can be no view, such as on a port that is taken: that is said, and must not keep
    a controller from its work.

    Parameters
    ----------
    stack, title, how, place, say, pause
        As of :func:`open_view`.
    """
    from drfh.web.live.publisher import Publisher

    try:
        feed = open_view(stack, title, how, place, say, pause)
    except Exception as error:
        kind = "" if isinstance(error, DrfhError) else f"{type(error).__name__}: "
        say(f"there is no live view ({kind}{error})")
        return None
    return stack.enter_context(Publisher(feed, say))


def told_to(
    follower: Publisher | None,
    controller: Controller,
    seen: Callable[[Cycle], None],
    say: Callable[[str], None],
) -> Callable[[Cycle], None]:
    """Return what is done after a round: what was done before, and the live view is told.

    Parameters
    ----------
    follower
        Follows the controller for the live view; None if there is none.
    controller
        Who goes round.
    seen
        What was done before.
    say
        Told once if the live view cannot be told.
    """
    if follower is None:
        return seen
    failed = False

    def after(done: Cycle) -> None:
        nonlocal failed
        seen(done)
        try:
            follower.round(controller, done)
            failed = False
        except Exception as error:  # a page is not worth a round
            if not failed:
                say(f"the live view could not be told ({type(error).__name__}: {error})")
            failed = True

    return after


def watch_in_browser(
    look: Callable[[], OpenSite], seconds: float, place: Place, say: Callable[[str], None]
) -> None:
    """Show a cluster in a browser that somebody else controls, until Ctrl-C; nothing is touched.

    Parameters
    ----------
    look
        Finds the cluster; again each time, as a controller may start or start again.
    seconds
        Between two looks.
    place
        Where it is served.
    say
        Told where it is.
    """
    site = look()
    first = site.look()  # must succeed; later slurmctld may be away for a while
    how = f"{first.cache.policy.name}, by {site.site.user_by}; a view that only looks"
    try:
        with ExitStack() as stack:
            feed = open_view(stack, site.name, how, place, say, seconds)
            feed.observe(first)
            while True:
                time.sleep(seconds)
                try:
                    feed.observe(look().look())
                except DrfhError as error:
                    feed.trouble(str(error))
    except KeyboardInterrupt:  # the way to end it, not a failure
        return
