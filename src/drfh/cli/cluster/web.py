"""The live view of ``--web``: served beside a controller, or of a cluster that is only observed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from drfh.errors import DrfhError, InputError

if TYPE_CHECKING:
    from drfh.engines.engine import Engine, LiveCluster
    from drfh.web.live.publisher import Publisher
    from drfh.web.live.store import LiveStore

__all__ = [
    "WEB_HOST",
    "WEB_PORT",
    "WebAddress",
    "open_view",
    "publish",
    "view_at",
    "watch_in_browser",
]

WEB_HOST, WEB_PORT = "127.0.0.1", 8437
_LATE, _MISSED = 15.0, 3  # seconds, and observations that were due, until pages say so


class StartPrinter(Protocol):
    """Prints a start message, such as :class:`drfh.cli.service.Printer`."""

    def __call__(self, text: str, **facts: Any) -> None:
        """Print a message; `facts` are what it says for programs."""


@dataclass(frozen=True)
class WebAddress:
    """Where a live view is served."""

    host: str
    port: int


def view_at(web: bool, host: str | None, port: int | None) -> WebAddress | None:
    """Return where the live view is served; None if nobody wants one.

    Examples
    --------
    >>> view_at(False, None, None), view_at(True, None, 0)
    (None, WebAddress(host='127.0.0.1', port=0))
    """
    if host is None and port is None and not web:
        return None
    from drfh.web.server.app import require_nicegui

    require_nicegui()
    if port is not None and not 0 <= port < 65_536:
        raise InputError("--web-port", "must be from 0 to 65535", port)
    return WebAddress(WEB_HOST if host is None else host, WEB_PORT if port is None else port)


def open_view(
    stack: ExitStack,
    title: str,
    how: str,
    address: WebAddress,
    printer: StartPrinter,
    pause: float,
    cluster_type: type[LiveCluster] | None = None,
) -> LiveStore:
    """Serve a live view until the stack is closed, and print where it is.

    Parameters
    ----------
    title, how
        As of :class:`~drfh.web.live.store.LiveView`.
    pause
        Seconds between two observations.
    cluster_type
        Checks names of jobs before the first observation.
    """
    from drfh.engines.engine import LiveCluster
    from drfh.web.live.page import live_server
    from drfh.web.live.store import LiveStore

    late = max(_LATE, _MISSED * pause)
    store = LiveStore(title, how, late=late, cluster_type=cluster_type or LiveCluster)
    server = stack.enter_context(live_server(store, address.port, address.host))
    printer(f"live view: {server.address.url}", live_view=server.address.url)
    if server.address.token:
        printer("whoever has this address sees the page; the token is printed only here")
    return store


def publish(
    stack: ExitStack,
    title: str,
    how: str,
    address: WebAddress,
    printer: StartPrinter,
    pause: float,
    cluster_type: type[LiveCluster] | None = None,
) -> Publisher | None:
    """Serve a live view of a controller, and return the publisher of its cycles.

    None if there can be no view, such as on a port that is taken: that is printed, and must not
    keep a controller from its work.

    Parameters
    ----------
    stack, title, how, address, printer, pause, cluster_type
        As of :func:`open_view`.
    """
    from drfh.web.live.publisher import Publisher

    try:
        store = open_view(stack, title, how, address, printer, pause, cluster_type)
    except Exception as error:
        kind = "" if isinstance(error, DrfhError) else f"{type(error).__name__}: "
        text = f"there is no live view ({kind}{error})"
        printer(text, live_view_error=text)
        return None
    return stack.enter_context(Publisher(store))


def watch_in_browser(
    connect: Callable[[], Engine],
    seconds: float,
    address: WebAddress,
    printer: StartPrinter,
) -> None:
    """Show a cluster in a browser until Ctrl-C, without touching it.

    Parameters
    ----------
    connect
        Opens the cluster; again each time, as a controller may start or start again.
    seconds
        Between two observations.
    """
    engine = connect()
    first = engine.observe()  # must succeed; later the engine may be away for a while
    how = f"{first.cache.policy.name}, by {engine.user_by}; a view that only looks"
    try:
        with ExitStack() as stack:
            store = open_view(stack, engine.name, how, address, printer, seconds)
            store.observe(first)
            while True:
                time.sleep(seconds)
                try:
                    store.observe(connect().observe())
                except DrfhError as error:
                    store.trouble(str(error))
    except KeyboardInterrupt:  # the way to end it, not a failure
        return
