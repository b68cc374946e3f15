"""Serves the live view on loopback, from a thread beside the one that looks at the cluster."""

from __future__ import annotations

import importlib.util
import ipaddress
import logging
import os
import socket
import threading
import time
from types import TracebackType
from typing import Any, Self

from drfh.errors import InputError
from drfh.web.feed import Feed

__all__ = ["LiveServer", "check_web", "serve_live"]

_LONGEST_START = 30.0  # seconds
_LONGEST_STOP = 5.0


def check_web() -> None:
    """Raise unless what serves pages is installed."""
    if importlib.util.find_spec("nicegui") is None:
        rule = "must be installed to see pages: pip install 'drfh[web]'"
        raise InputError("the extra web", rule)


class LiveServer:
    """A running server; made by :func:`serve_live`.

    Attributes
    ----------
    url : str
        Where the page is.
    """

    def __init__(self, server: Any, thread: threading.Thread, url: str) -> None:
        self._server, self._thread, self.url = server, thread, url

    def stop(self) -> None:
        """Stop serving and end the thread; again is nothing."""
        self._server.should_exit = True
        self._thread.join(_LONGEST_STOP)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def serve_live(feed: Feed, port: int, host: str = "127.0.0.1") -> LiveServer:
    """Serve the live view, from a thread that does not keep the program alive.

    There can be one in a process.

    Parameters
    ----------
    feed
        What it shows.
    port
        0: any free one.
    host
        ``127.0.0.1``, ``::1`` or ``localhost``. There is no password: other addresses are refused.

    Examples
    --------
    >>> serve_live(Feed(), 8437, "0.0.0.0")
    Traceback (most recent call last):
    drfh.errors.InputError: the host of the page must be a loopback address in this version, such \
as 127.0.0.1, got '0.0.0.0'
    """
    listener = _listen(port, host)
    try:
        check_web()
        address, opened = listener.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        server = _server(feed, [address, "localhost", shown])
    except BaseException:
        listener.close()
        raise
    thread = threading.Thread(
        target=_run, args=(server, listener), name="drfh-live-view", daemon=True
    )
    thread.start()
    end = time.monotonic() + _LONGEST_START
    while not server.started:
        if not thread.is_alive() or time.monotonic() > end:
            server.should_exit = True
            raise RuntimeError("the page could not be served")
        time.sleep(0.01)
    return LiveServer(server, thread, f"http://{shown}:{opened}/")


def _listen(port: int, host: str) -> socket.socket:
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        address = ipaddress.ip_address("0.0.0.0")
    if not address.is_loopback:
        rule = "must be a loopback address in this version, such as 127.0.0.1"
        raise InputError("the host of the page", rule, host)
    if not 0 <= port <= 65535:
        raise InputError("--web-port", "must be a port, 0 to 65535", port)
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        return socket.create_server((str(address), port), family=family, backlog=64)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        rule = f"must be a port that can be opened on {host} ({reason})"
        raise InputError("--web-port", rule, port) from None


def _server(feed: Feed, hosts: list[str]) -> Any:
    import uvicorn
    from fastapi import FastAPI
    from nicegui import ui
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    from drfh.web.live import LivePage

    @ui.page("/")
    def page() -> None:
        LivePage(feed).build()

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    # A name of somebody else's that leads to this machine must not lead to this page.
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)
    ui.run_with(
        app,
        title="drfh live",
        favicon="⚖️",
        dark=None,
        tailwind=False,
        show_welcome_message=False,
        reconnect_timeout=30.0,
    )
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=1
    )
    return uvicorn.Server(config)


def _run(server: Any, listener: socket.socket) -> None:
    # What goes wrong with one page is no news for the terminal of a controller.
    for name in ("uvicorn", "nicegui"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with listener:
        server.run(sockets=[listener])
