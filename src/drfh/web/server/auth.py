"""Who may see a page that is served: everybody on this machine, or whoever has the token."""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

__all__ = ["MOST_BYTES", "Gate", "is_loopback"]

#: Bytes of one request, such as a file that is sent to the page.
MOST_BYTES = 6_000_000

_HOST = re.compile(r"[A-Za-z0-9.\-_]+(:\d+)?|\[[0-9a-fA-F:.]+\](:\d+)?", re.ASCII)

# The browser itself refuses what would leave this machine. Pages are built by scripts from data
# (hence eval), but all scripts come from here.
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "worker-src 'self' blob:; frame-src 'self' blob: data:; object-src 'none'; "
    "frame-ancestors 'self'; base-uri 'self'; form-action 'self'; connect-src 'self' data: blob:"
)

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


def is_loopback(host: str) -> bool:
    """Return whether an address is of this machine only.

    Examples
    --------
    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0")]
    [True, True, True, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Gate:
    """Lets requests through, over HTTP and over web sockets.

    On loopback the name in the request must be of this machine too: a page from elsewhere could
    otherwise reach us through a name that it controls. On other addresses a token is needed, once
    in the address and from then on in a cookie. In both cases a page of another origin gets
    nothing, and no request is larger than :data:`MOST_BYTES`.

    Parameters
    ----------
    app
        What is behind it.
    token
        The token; empty: only this machine.
    """

    def __init__(self, app: Any, token: str = "") -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {key.lower(): value for key, value in scope.get("headers", ())}
        query = parse_qs(scope.get("query_string", b"").decode("latin-1")) if self.token else {}
        if scope["type"] == "http" and self._matches(query.pop("token", [""])[0]):
            await self._welcome(scope, send, query)
        elif self.token and not self._has_cookie(scope, headers):
            words = "This page needs the token that was printed when it started."
            await _refuse(scope, send, 403, words)
        elif not self.token and not is_loopback(_bare(_host(headers))):
            await _refuse(scope, send, 403, "This page is for this machine only.")
        elif not _is_from_us(headers):
            await _refuse(scope, send, 403, "This page answers to its own pages only.")
        elif _is_too_large(headers):
            words = f"Nothing larger than {MOST_BYTES // 1_000_000} MB can be sent to this page."
            await _refuse(scope, send, 413, words)
        elif scope["type"] == "http":
            await self.app(scope, receive, _guarded(send, _host(headers)))
        else:
            await self.app(scope, receive, send)

    def _matches(self, given: str) -> bool:
        return bool(self.token) and hmac.compare_digest(given.encode(), self.token.encode())

    @staticmethod
    def _cookie(scope: Scope) -> str:
        # Cookies know no ports: two pages of one machine would take each other's.
        server = scope.get("server") or ("", 0)
        return f"drfh_token_{server[1] or 0}"

    def _has_cookie(self, scope: Scope, headers: Mapping[bytes, bytes]) -> bool:
        # Read by hand: whatever else on this machine sets cookies, ours must be found among them.
        pairs = headers.get(b"cookie", b"").decode("latin-1").split(";")
        name = self._cookie(scope)
        given = [value.strip() for key, _, value in (pair.partition("=") for pair in pairs)
                 if key.strip() == name]  # fmt: skip
        return any(self._matches(value) for value in given)

    async def _welcome(self, scope: Scope, send: Send, query: Mapping[str, list[str]]) -> None:
        """Set the cookie, and go on without the token in the address."""
        rest = urlencode(query, doseq=True)
        # A path of two slashes would be another machine; browsers take a backslash for one.
        where = "/" + quote(scope["path"].lstrip("/\\")) + (f"?{rest}" if rest else "")
        cookie = f"{self._cookie(scope)}={self.token}; HttpOnly; SameSite=Lax; Path=/"
        headers = [
            (b"location", where.encode()),
            (b"set-cookie", cookie.encode()),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def _host(headers: Mapping[bytes, bytes]) -> str:
    return headers.get(b"host", b"").decode("latin-1")


def _bare(host: str) -> str:
    """Return a host without its port."""
    return host.rpartition(":")[0] if re.search(r":\d*$", host) and "]" not in host[-1:] else host


def _is_from_us(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a request comes from a page of ours, or from no page at all.

    Somebody else's page may have a link to ours, but not load it unseen, again and again.
    """
    if headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site"):
        kind = headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest")
        if kind != (b"navigate", b"document"):
            return False
    origin = headers.get(b"origin")
    return origin is None or origin.decode("latin-1").partition("://")[2] == _host(headers)


def _is_too_large(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a request is larger than allowed, or does not say how large it is."""
    if b"transfer-encoding" in headers:
        return True
    length = headers.get(b"content-length", b"0")
    return not length.isdigit() or int(length[:20]) > MOST_BYTES


def _guarded(send: Send, host: str) -> Send:
    """Return `send` with headers that keep the browser from reaching out, or into other pages."""
    # Not every browser counts web sockets of the same host as 'self'.
    sockets = f" ws://{host} wss://{host}" if _HOST.fullmatch(host) else ""
    extra = [
        (b"content-security-policy", f"{_POLICY}{sockets}".encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"SAMEORIGIN"),
        (b"referrer-policy", b"no-referrer"),
    ]

    async def sent(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *extra]}
        await send(message)

    return sent


async def _refuse(scope: Scope, send: Send, status: int, words: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{words}\n".encode()})
