"""Connections to a page, before anybody knows who it is: few, with small headers, and soon sent.

A live view is served inside a controller, which needs files and memory of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import wraps
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["LONGEST_HEADERS", "MOST_CONNECTIONS", "MOST_PAGES", "MOST_UNSEEN", "Door", "limited"]


#: Connections at a time, of all browsers together: a process may often have 1,024 files open.
MOST_CONNECTIONS = 400
#: Bytes of the address and the headers of a request.
LONGEST_HEADERS = 65_536
# Seconds that these may take.
_PATIENCE = 10.0


class Door(H11Protocol):
    """One connection."""

    _closing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or close it at once where there are too many."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._cancel()
        elif self._closing is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up."""
        self._cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._closing = self.loop.call_later(_PATIENCE, self.transport.abort)

    def _cancel(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None


#: Pages that browsers show.
MOST_PAGES = 200
#: Pages that were asked for and that no browser has shown yet, which takes it a moment.
MOST_UNSEEN = 24


def limited(page: Callable[..., Any]) -> Callable[..., Any]:
    """Return what builds a page unless there are too many.

    A page that nobody shows gives way to new ones: who asks for pages without end must not keep
    others out. What it does in the background ends with it.
    """

    @wraps(page)
    def built(*words: Any, **named: Any) -> Any:
        from nicegui import Client, ui

        this = ui.context.client
        others = [client for client in Client.instances.values() if client is not this]
        unseen = [client for client in others if client.tab_id is None]
        if len(others) - len(unseen) >= MOST_PAGES:
            ui.label(f"{MOST_PAGES} pages are open here, and there can be no more: close some.")
            return None
        unseen.sort(key=lambda client: client.created)
        for client in unseen[: max(0, len(unseen) - MOST_UNSEEN + 1)]:
            client.delete()
        return page(*words, **named)

    return built
