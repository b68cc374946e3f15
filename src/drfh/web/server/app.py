"""The web server: address, listening socket, and the application of one page."""

from __future__ import annotations

import errno
import logging
import os
import secrets
import socket
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from drfh.errors import DrfhError, InputError
from drfh.web.server.auth import MAX_REQUEST_BYTES, AuthMiddleware, is_loopback

__all__ = ["Address", "MissingExtraError", "PageServer", "listen", "require_nicegui"]

_FIRST_PORT = 8090
_PORTS = 20
_ANY_ADDRESS = ("0.0.0.0", "::", "")
_MAX_LOG_LINE = 2_000  # characters
_RECONNECT_TIMEOUT = 30.0  # seconds
_START_TIMEOUT, _STOP_TIMEOUT = 30.0, 5.0  # seconds


class MissingExtraError(DrfhError):
    """The optional dependency NiceGUI is not installed."""

    exit_code = 2


def require_nicegui() -> None:
    """Raise :class:`MissingExtraError` unless NiceGUI is installed."""
    from importlib.util import find_spec

    if find_spec("nicegui") is None:
        raise MissingExtraError("pages need the extra [web]: pip install 'drfh[web]'")


@dataclass(frozen=True)
class Address:
    """Host, port and token of a served page; the token is empty on loopback."""

    host: str
    port: int
    token: str = ""

    @property
    def url(self) -> str:
        """The URL to open, with the token.

        Examples
        --------
        >>> Address("127.0.0.1", 8090).url, Address("::1", 8090, "abc").url
        ('http://127.0.0.1:8090/', 'http://[::1]:8090/?token=abc')
        """
        host = socket.gethostname() if self.host in _ANY_ADDRESS else self.host
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self.port}/" + (f"?token={self.token}" if self.token else "")


def listen(
    host: str = "127.0.0.1",
    port: int | None = None,
    *,
    options: tuple[str, str] = ("--host", "--port"),
) -> tuple[Address, socket.socket]:
    """Return an address and the socket that listens there.

    Parameters
    ----------
    host
        Address or name of this machine; one that is not loopback gets a token.
    port
        0: any free one; None: the first free one from 8090 on.
    options
        Names of host and port in errors.

    Examples
    --------
    >>> address, listener = listen(port=0)
    >>> listener.close()
    >>> address.host, address.token
    ('127.0.0.1', '')
    """
    if port is not None and not 0 <= port < 65_536:
        raise InputError(options[1], "must be from 0 to 65535", port)
    ports = [port] if port is not None else range(_FIRST_PORT, _FIRST_PORT + _PORTS)
    reason = ""
    for number in ports:
        try:
            family, _, _, _, address = socket.getaddrinfo(
                host.strip("[]"), number, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
        except (OSError, UnicodeError):
            raise InputError(options[0], "must be an address of this machine", host) from None
        try:
            listener = socket.create_server(address[:2], family=family, backlog=64)
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise InputError(options[0], "must be an address of this machine", host) from None
            reason = os.strerror(error.errno or 0)
            continue
        token = "" if is_loopback(host) else secrets.token_urlsafe(16)
        return Address(host.strip("[]"), int(listener.getsockname()[1]), token), listener
    shown = _FIRST_PORT if port is None else port
    raise InputError(options[1], f"must be free on {host} ({reason})", shown)


def _sanitise(record: logging.LogRecord) -> bool:
    """Make a log record one line, and cut it: browsers write into it."""
    text = record.getMessage()[:_MAX_LOG_LINE]
    if record.exc_info and record.exc_info[1]:  # of an event, which may be forged
        *_, last = traceback.extract_tb(record.exc_info[2]) or [None]
        place = f" ({Path(last.filename).name}, line {last.lineno})" if last else ""
        text = f"{type(record.exc_info[1]).__name__}: {text}{place}"
        record.exc_info = record.exc_text = None
    record.msg, record.args = "".join(c if c.isprintable() else " " for c in text), ()
    return True


class PageServer:
    """Server of one page at one address; at most one in a process.

    :meth:`run` serves in this thread, a ``with`` block in a thread of its own.

    Parameters
    ----------
    address, listener
        As returned by :func:`listen`.
    page
        Builds the page; called for each browser tab with the parameters of the query string.
    title
        Title of the browser tab.
    on_start
        Called once the page can be opened.
    """

    def __init__(
        self,
        address: Address,
        listener: socket.socket,
        page: Callable[..., Any],
        *,
        title: str,
        on_start: Callable[[], None] | None = None,
    ) -> None:
        require_nicegui()
        import uvicorn
        from fastapi import FastAPI
        from nicegui import app as pages
        from nicegui import ui

        from drfh.web.server.limits import (
            MAX_HEADER_BYTES,
            LimitedProtocol,
            limit_events,
            limit_pages,
        )

        logging.getLogger("nicegui").addFilter(_sanitise)
        self.address, self._listener = address, listener
        ui.page("/")(limit_pages(page))
        if on_start is not None:
            pages.on_startup(on_start)
        app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        ui.run_with(
            app,
            title=title,
            favicon="⚖️",
            language="en-US",
            dark=None,
            tailwind=False,  # half of the time of the first paint
            show_welcome_message=False,
            reconnect_timeout=_RECONNECT_TIMEOUT,
            message_history_length=100,
        )
        limit_events()
        config = uvicorn.Config(
            AuthMiddleware(app, address.token),
            http=LimitedProtocol,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            ws_max_size=MAX_REQUEST_BYTES,
            log_config=None,
            access_log=False,
            lifespan="on",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)

    def run(self) -> None:
        """Serve until an interrupt or :meth:`stop`."""
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
        with self._listener:
            self._server.run(sockets=[self._listener])

    def stop(self) -> None:
        """End :meth:`run`; callable from any thread."""
        self._server.should_exit = True

    def __enter__(self) -> Self:
        """Serve in a daemon thread that handles no signals and logs no errors of pages."""
        logging.getLogger("nicegui").setLevel(logging.CRITICAL)
        self._thread = threading.Thread(target=self._run_quietly, name="drfh-web", daemon=True)
        self._thread.start()
        end = time.monotonic() + _START_TIMEOUT
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > end:
                self.stop()
                raise RuntimeError("the page could not be served")
            time.sleep(0.01)
        return self

    def _run_quietly(self) -> None:
        # Uvicorn raises SystemExit where it cannot start; the thread is not the program.
        with suppress(Exception, SystemExit):
            self.run()

    def __exit__(self, *exc: object) -> None:
        self.stop()
        self._thread.join(_STOP_TIMEOUT)
