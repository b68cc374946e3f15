"""Connection limits: count, header size, read timeout; open pages.

Imports uvicorn, so it is itself imported only once a page is served. The live view is served inside
a controller, which needs file descriptors and memory of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import wraps
from inspect import isawaitable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["MAX_CONNECTIONS", "MAX_HEADER_BYTES", "MAX_PAGES", "MAX_UNSHOWN_PAGES",
           "LimitedProtocol", "limit_events", "limit_pages"]  # fmt: skip

#: Open connections of all browsers together; a process may often have 1,024 files open.
MAX_CONNECTIONS = 400
#: Bytes of the request line and the headers.
MAX_HEADER_BYTES = 65_536
#: Pages shown in browsers.
MAX_PAGES = 200
#: Pages requested and not yet shown, which takes a browser a moment.
MAX_UNSHOWN_PAGES = 24
_LOG = logging.getLogger(__name__)
_HEADER_TIMEOUT = 10.0  # seconds until the headers are complete


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 connection, aborted if there are too many or its headers are late."""

    _timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the header timeout, or abort where there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
        else:
            self._start_timeout()

    def data_received(self, data: bytes) -> None:
        """End the header timeout once a request has begun; start it for the next."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._cancel_timeout()
        elif self._timeout is None:
            self._start_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the header timeout."""
        self._cancel_timeout()
        super().connection_lost(exc)

    def _start_timeout(self) -> None:
        self._timeout = self.loop.call_later(_HEADER_TIMEOUT, self.transport.abort)

    def _cancel_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None


def limit_events() -> None:
    """Make NiceGUI ignore events of browsers that are not as its own pages send them."""
    from nicegui import core

    handlers = core.sio.handlers["/"]
    for name in ("handshake", "event", "javascript_response", "ack", "log"):
        if not hasattr(handlers[name], "__wrapped__"):
            handlers[name] = _forgiving(handlers[name])


def _forgiving(handler: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(handler)
    async def handled(*args: Any) -> Any:
        try:
            found = handler(*args)
            return await found if isawaitable(found) else found
        except Exception as error:
            _LOG.warning("event ignored error=%s", type(error).__name__)
            return False

    return handled


def limit_pages(page: Callable[..., Any]) -> Callable[..., Any]:
    """Return a page function that refuses to build more than :data:`MAX_PAGES`.

    The oldest pages that no browser shows are deleted with their background work, so that requests
    without end keep nobody out.
    """

    @wraps(page)
    def limited(*args: Any, **kwargs: Any) -> Any:
        from nicegui import Client, ui

        this = ui.context.client
        others = [client for client in Client.instances.values() if client is not this]
        unshown = [client for client in others if client.tab_id is None]
        if len(others) - len(unshown) >= MAX_PAGES:
            ui.label(f"{MAX_PAGES} pages are open here, and there can be no more: close some.")
            return None
        unshown.sort(key=lambda client: client.created)
        for client in unshown[: max(0, len(unshown) - MAX_UNSHOWN_PAGES + 1)]:
            # One that has just lost its connection is to be deleted later, and cannot be twice.
            for later in client._delete_tasks.values():
                later.cancel()
            client.delete()
        return page(*args, **kwargs)

    return limited
