"""Limits of connections, headers and open pages."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("nicegui", reason="needs the extra [web]: pip install 'drfh[web]'")

from drfh.web.server import limits


@contextmanager
def serving() -> Iterator[int]:
    """Serve an empty answer with the limits; yield the port."""
    import uvicorn

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    config = uvicorn.Config(
        app, http=limits.LimitedProtocol, h11_max_incomplete_event_size=limits.MAX_HEADER_BYTES,
        lifespan="off", log_config=None,
    )  # fmt: skip
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


def answer(port: int, text: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        try:
            client.sendall(text)
            return client.recv(15)
        except ConnectionError:
            return b""


_WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_headers_without_end_are_refused() -> None:
    with serving() as port:
        assert answer(port, _WHOLE) == b"HTTP/1.1 200 OK"
        assert answer(port, b"GET / HTTP/1.1\r\nX: " + b"a" * 200_000) in (b"", b"HTTP/1.1 400 Ba")


def test_a_silent_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_HEADER_TIMEOUT", 0.3)
    with serving() as port:
        assert answer(port, b"") == b""
        assert answer(port, b"GET / HT") == b""
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            client.sendall(_WHOLE)
            assert client.recv(4_096)
            time.sleep(0.6)  # it was not slow: it may ask for more
            client.sendall(_WHOLE)
            assert client.recv(15) == b"HTTP/1.1 200 OK"
            assert client.recv(4_096)
            client.sendall(b"GET")
            assert client.recv(15) == b""


def test_connections_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 3)
    with serving() as port:
        first = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(3)]
        first[-1].sendall(_WHOLE)  # by its answer all three have been taken
        assert first[-1].recv(15) == b"HTTP/1.1 200 OK"
        assert answer(port, _WHOLE) == b""
        for client in first:
            client.close()
        end = time.monotonic() + 20
        while answer(port, _WHOLE) != b"HTTP/1.1 200 OK":
            assert time.monotonic() < end


def test_unshown_pages_are_deleted_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    from nicegui import Client, ui
    from nicegui.page import page

    monkeypatch.setattr(limits, "MAX_UNSHOWN_PAGES", 3)
    monkeypatch.setattr(limits, "MAX_PAGES", 2)
    monkeypatch.setattr(Client, "instances", {})
    built, gone = [], []

    def build(name: str) -> None:
        built.append(name)
        ui.context.client.on_delete(lambda: gone.append(name))

    def ask(name: str, *, shown: bool = False) -> None:
        with Client(page(""), request=None) as client:
            limits.limit_pages(build)(name)
        client.tab_id = name if shown else None

    ask("shown", shown=True)
    for name in "abcde":
        ask(name)
    assert gone == ["a", "b"]
    ask("also shown", shown=True)
    ask("one too many")
    assert built == ["shown", *"abcde", "also shown"]
    assert "shown" not in gone
