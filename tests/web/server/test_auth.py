"""Who may see a page: token, Host, Origin, Sec-Fetch; logs without control characters."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import pytest

from drfh.web.server import app as server
from drfh.web.server.auth import AuthMiddleware


def passed(
    token: str,
    headers: dict[str, str],
    query: str = "",
    kind: str = "http",
    path: str = "//evil.example/",
) -> int:
    """Return what a request gets: 200 if it comes through."""
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    scope = {
        "type": kind,
        "path": path,
        "query_string": query.encode(),
        "server": ("127.0.0.1", 8090),
        "headers": [(k.lower().encode(), v.encode("latin-1")) for k, v in headers.items()],
    }
    asyncio.run(AuthMiddleware(app, token)(scope, receive, send))
    first = sent[0]
    if first["type"] == "websocket.close":
        return 403
    location = dict(first["headers"]).get(b"location", b"/")
    assert re.fullmatch(rb"/|/[^/\\\s][^\\\s]*", location)
    return int(first["status"])


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_who_is_let_in(kind: str) -> None:
    def status(token: str = "", query: str = "", **headers: str) -> int:
        return passed(token, headers, query, kind)

    assert status(host="127.0.0.1:8090") == 200
    assert status(host="[::1]:8090") == 200
    assert status(host="localhost", origin="http://localhost") == 200
    assert status(host="localhost:8090", origin="http://localhost:8091") == 403
    assert status(host="127.0.0.1:8090", origin="null") == 403
    assert status(host="drfh.example") == 403
    assert status(host="") == 403
    assert status() == 403
    assert status("abc", host="drfh.example") == 403
    assert status("abc", host="drfh.example", cookie="drfh_token_8090=abc") == 200
    assert status("abc", host="drfh.example", cookie="drfh_token_8091=abc") == 403
    assert status("abc", host="drfh.example", cookie="drfh_token_8090=ab") == 403
    assert status("abc", host="drfh.example", cookie='drfh_token_8090="\xe9') == 403
    assert status("abc", "token=ab", host="drfh.example") == 403
    assert status("abc", "token=abc", host="drfh.example") == (303 if kind == "http" else 403)
    crossed = {"host": "drfh.example", "origin": "http://evil.example"}
    assert status("abc", **crossed, cookie="drfh_token_8090=abc") == 403
    # What others on this machine set does not lock anybody out.
    odd = 'seen={"a": 1}; drfh_token_8090=old; drfh_token_8090=abc'
    assert status("abc", host="drfh.example", cookie=odd) == 200
    # The token leaves the address, also of who has the cookie already.
    again = status("abc", "token=abc", host="drfh.example", cookie="drfh_token_8090=abc")
    assert again == (303 if kind == "http" else 200)
    unseen = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert status(**{"host": "localhost", **unseen, "sec-fetch-dest": "image"}) == 403
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert status(**{"host": "localhost", **link, "sec-fetch-dest": "iframe"}) == 403
    assert status(**{"host": "localhost", **link, "sec-fetch-dest": "document"}) == 200


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example/", "/a\r\nset-cookie: b=c"])
def test_a_redirect_stays_on_this_host(path: str) -> None:
    assert passed("abc", {"host": "drfh.example"}, "token=abc", path=path) == 303


def test_what_browsers_log_is_harmless() -> None:
    record = logging.LogRecord("nicegui", logging.ERROR, "", 0, "\x1b[31m%s\nroot:", ("a",), None)
    assert server._sanitise(record)
    assert record.getMessage() == " [31ma root:"
