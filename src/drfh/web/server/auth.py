"""Authentication of requests: token, Host, Origin, Sec-Fetch; security headers."""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

__all__ = ["MAX_REQUEST_BYTES", "AuthMiddleware", "is_loopback"]

#: Bytes of one request, such as an uploaded file.
MAX_REQUEST_BYTES = 6_000_000

_HOST = re.compile(r"[A-Za-z0-9.\-_]+(:\d+)?|\[[0-9a-fA-F:.]+\](:\d+)?", re.ASCII)

# All scripts come from this server; NiceGUI builds pages from data with eval.
_CONTENT_SECURITY_POLICY = (
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


class AuthMiddleware:
    """ASGI middleware that refuses requests without authority, HTTP and WebSocket.

    Without a token, the Host header must name this machine: another site could otherwise reach it
    by DNS rebinding. With a token, it is needed once in the query and from then on in a cookie.
    Requests of other origins and larger than :data:`MAX_REQUEST_BYTES` are refused.

    Parameters
    ----------
    app
        The ASGI application behind it.
    token
        Empty: requests from this machine only.
    """

    def __init__(self, app: Any, token: str = "") -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with security headers, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {key.lower(): value for key, value in scope.get("headers", ())}
        query = parse_qs(scope.get("query_string", b"").decode("latin-1")) if self.token else {}
        if scope["type"] == "http" and self._matches(query.pop("token", [""])[0]):
            await self._set_cookie(scope, send, query)
        elif self.token and not self._has_cookie(scope, headers):
            text = "This page needs the token that was printed when it started."
            await _refuse(scope, send, 403, text)
        elif not self.token and not is_loopback(_without_port(_host(headers))):
            await _refuse(scope, send, 403, "This page is for this machine only.")
        elif not _is_same_origin(headers):
            await _refuse(scope, send, 403, "This page answers to its own pages only.")
        elif _is_too_large(headers):
            size = f"{MAX_REQUEST_BYTES // 1_000_000} MB"
            await _refuse(scope, send, 413, f"Nothing larger than {size} can be sent to this page.")
        elif scope["type"] == "http":
            await self.app(scope, receive, _with_security_headers(send, _host(headers)))
        else:
            await self.app(scope, receive, send)

    def _matches(self, given: str) -> bool:
        return bool(self.token) and hmac.compare_digest(given.encode(), self.token.encode())

    @staticmethod
    def _cookie_name(scope: Scope) -> str:
        # Cookies are shared by all ports of a host.
        server = scope.get("server") or ("", 0)
        return f"drfh_token_{server[1] or 0}"

    def _has_cookie(self, scope: Scope, headers: Mapping[bytes, bytes]) -> bool:
        # Not http.cookies: it drops all cookies after one that it cannot parse.
        pairs = headers.get(b"cookie", b"").decode("latin-1").split(";")
        name = self._cookie_name(scope)
        given = [value.strip() for key, _, value in (pair.partition("=") for pair in pairs)
                 if key.strip() == name]  # fmt: skip
        return any(self._matches(value) for value in given)

    async def _set_cookie(self, scope: Scope, send: Send, query: Mapping[str, list[str]]) -> None:
        """Set the cookie, and redirect to the address without the token."""
        rest = urlencode(query, doseq=True)
        # Two slashes or backslashes would lead to another host.
        location = "/" + quote(scope["path"].lstrip("/\\")) + (f"?{rest}" if rest else "")
        cookie = f"{self._cookie_name(scope)}={self.token}; HttpOnly; SameSite=Lax; Path=/"
        headers = [
            (b"location", location.encode()),
            (b"set-cookie", cookie.encode()),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def _host(headers: Mapping[bytes, bytes]) -> str:
    return headers.get(b"host", b"").decode("latin-1")


def _without_port(host: str) -> str:
    return host.rpartition(":")[0] if re.search(r":\d*$", host) and "]" not in host[-1:] else host


def _is_same_origin(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a request comes from this origin, from no page, or from a followed link."""
    if headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site"):
        kind = headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest")
        if kind != (b"navigate", b"document"):
            return False
    origin = headers.get(b"origin")
    return origin is None or origin.decode("latin-1").partition("://")[2] == _host(headers)


def _is_too_large(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a request is larger than allowed, or of unknown size."""
    if b"transfer-encoding" in headers:
        return True
    length = headers.get(b"content-length", b"0")
    return not length.isdigit() or int(length[:20]) > MAX_REQUEST_BYTES


def _with_security_headers(send: Send, host: str) -> Send:
    # Not every browser counts WebSockets of the same host as 'self'.
    sockets = f" ws://{host} wss://{host}" if _HOST.fullmatch(host) else ""
    extra = [
        (b"content-security-policy", f"{_CONTENT_SECURITY_POLICY}{sockets}".encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"SAMEORIGIN"),
        (b"referrer-policy", b"no-referrer"),
    ]

    async def sent(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *extra]}
        await send(message)

    return sent


async def _refuse(scope: Scope, send: Send, status: int, text: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{text}\n".encode()})
