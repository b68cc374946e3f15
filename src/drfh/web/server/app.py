"""Serves pages: on loopback unless told otherwise, and then only to who has the token."""

from __future__ import annotations

import errno
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from drfh.errors import DrfhError, InputError
from drfh.web.server.auth import MOST_BYTES, Gate, is_loopback
from drfh.web.server.limits import limited

__all__ = ["Address", "MissingExtraError", "Site", "listen", "needs_nicegui"]

_FIRST_PORT = 8090
_TRIES = 20
_ANYWHERE = ("0.0.0.0", "::", "")
_LONGEST_LINE = 2_000
# What a lost connection may take to come back, in seconds.
_PATIENCE = 30.0
_LONGEST_START, _LONGEST_STOP = 30.0, 5.0  # seconds, beside something else


class MissingExtraError(DrfhError):
    """The extra that pages need is not installed."""

    exit_code = 2


def needs_nicegui() -> None:
    """Raise, in words that help, unless NiceGUI is installed."""
    from importlib.util import find_spec

    if find_spec("nicegui") is None:
        raise MissingExtraError("pages need the extra [web]: pip install 'drfh[web]'")


@dataclass(frozen=True)
class Address:
    """Where a page is served.

    Attributes
    ----------
    host, port : str, int
        The address.
    token : str
        What is needed to see it; empty on loopback.
    """

    host: str
    port: int
    token: str = ""

    @property
    def url(self) -> str:
        """What to open.

        Examples
        --------
        >>> Address("127.0.0.1", 8090).url, Address("::1", 8090, "abc").url
        ('http://127.0.0.1:8090/', 'http://[::1]:8090/?token=abc')
        """
        host = socket.gethostname() if self.host in _ANYWHERE else self.host
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self.port}/" + (f"?token={self.token}" if self.token else "")


def listen(
    host: str = "127.0.0.1",
    port: int | None = None,
    *,
    options: tuple[str, str] = ("--host", "--port"),
) -> tuple[Address, socket.socket]:
    """Return an address and the open socket that listens there.

    Parameters
    ----------
    host
        An address or name of this machine; one that others can reach gets a token.
    port
        The port; 0: any; None: 8090, or one of those after it.
    options
        What host and port are called where they were given.

    Examples
    --------
    >>> address, listener = listen(port=0)
    >>> listener.close()
    >>> address.host, address.token
    ('127.0.0.1', '')
    """
    if port is not None and not 0 <= port < 65_536:
        raise InputError(options[1], "must be from 0 to 65535", port)
    wanted = [port] if port is not None else range(_FIRST_PORT, _FIRST_PORT + _TRIES)
    reason = ""
    for number in wanted:
        try:
            family, _, _, _, place = socket.getaddrinfo(
                host.strip("[]"), number, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
        except (OSError, UnicodeError):
            raise InputError(options[0], "must be an address of this machine", host) from None
        try:
            listener = socket.create_server(place[:2], family=family, backlog=64)
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise InputError(options[0], "must be an address of this machine", host) from None
            reason = os.strerror(error.errno or 0)
            continue
        token = "" if is_loopback(host) else secrets.token_urlsafe(16)
        return Address(host.strip("[]"), int(listener.getsockname()[1]), token), listener
    shown = _FIRST_PORT if port is None else port
    raise InputError(options[1], f"must be free on {host} ({reason})", shown)


def _plain(record: logging.LogRecord) -> bool:
    """Make a line of a log harmless for a terminal: no colours, no other lines, no end."""
    text = record.getMessage()[:_LONGEST_LINE]
    record.msg, record.args = "".join(c if c.isprintable() else " " for c in text), ()
    return True


class Site:
    """One page, served at one address; each browser tab gets its own.

    There can be one in a process.

    Parameters
    ----------
    address, listener
        What :func:`listen` gave.
    page
        Builds the page; called for each browser tab. What it takes is what stands after ``?`` in
        the address.
    title
        Of the tab.
    started
        Called once it can be opened.
    """

    def __init__(
        self,
        address: Address,
        listener: socket.socket,
        page: Callable[..., Any],
        *,
        title: str,
        started: Callable[[], None] | None = None,
    ) -> None:
        needs_nicegui()
        import uvicorn
        from fastapi import FastAPI
        from nicegui import app as pages
        from nicegui import ui

        from drfh.web.server.limits import LONGEST_HEADERS, Door

        logging.getLogger("nicegui").addFilter(_plain)  # browsers may write into it
        self.address, self._listener = address, listener
        ui.page("/")(limited(page))
        if started is not None:
            pages.on_startup(started)
        app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        ui.run_with(
            app,
            title=title,
            favicon="⚖️",
            language="en-US",
            dark=None,
            tailwind=False,  # half of the time of the first paint
            show_welcome_message=False,
            reconnect_timeout=_PATIENCE,
            message_history_length=100,
        )
        config = uvicorn.Config(
            Gate(app, address.token),
            http=Door,
            h11_max_incomplete_event_size=LONGEST_HEADERS,
            ws_max_size=MOST_BYTES,
            log_config=None,
            access_log=False,
            lifespan="on",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)

    def run(self) -> None:
        """Serve until interrupted, or until :meth:`stop`."""
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
        with self._listener:
            self._server.run(sockets=[self._listener])

    def stop(self) -> None:
        """End :meth:`run`, from another thread or a handler."""
        self._server.should_exit = True

    # Beside something else

    def start(self) -> Self:
        """Serve from a thread of its own, which does not keep the program alive.

        No signal is handled, and what goes wrong with a page is no news for a terminal.
        """
        logging.getLogger("nicegui").setLevel(logging.CRITICAL)
        self._thread = threading.Thread(target=self._beside, name="drfh-web", daemon=True)
        self._thread.start()
        end = time.monotonic() + _LONGEST_START
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > end:
                self.stop()
                raise RuntimeError("the page could not be served")
            time.sleep(0.01)
        return self

    def _beside(self) -> None:
        # Uvicorn ends the program (SystemExit) where it cannot start: not one that is not its own.
        with suppress(Exception, SystemExit):
            self.run()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._thread.join(_LONGEST_STOP)
