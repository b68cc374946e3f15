"""Connections to a page, before anybody knows who it is: few, with small headers, and soon sent.

A live view is served inside a controller, which needs files and memory of its own.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["LONGEST_HEADERS", "MOST_CONNECTIONS", "Door"]

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
