"""What a controller tells Prometheus: the families it may fill, and a small server on loopback.

The text is the exposition format 0.0.4. Series are per user, never per server: a large cluster
must not flood the one who watches it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import os
import re
import socket
import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from itertools import accumulate
from types import TracebackType
from typing import Any, Literal, Self, TypeVar
from urllib.parse import urlsplit

from drfh.errors import InputError, UnknownNameError

__all__ = ["CONTENT_TYPE", "METRICS", "Family", "Metrics", "MetricsServer", "serve"]

#: The media type of what :meth:`Metrics.render` returns.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_MOST_CONNECTIONS = 32
_LONGEST_REQUEST = 16 * 2**10  # bytes
_PAUSE = 0.5  # seconds
_END = re.compile(rb"\n\r?\n")

_Key = TypeVar("_Key", bound=str | tuple[str, ...])


@dataclass(frozen=True, slots=True)
class Family:
    """What one name stands for.

    Parameters
    ----------
    kind
        ``gauge``, ``counter`` or ``histogram``.
    help
        One line for people.
    labels
        Names of its labels, in the order of the keys of :meth:`Metrics.replace`.
    buckets
        Upper bounds of a histogram, rising and finite; ``+Inf`` comes by itself.

    Examples
    --------
    >>> METRICS["drfh_tasks"].labels
    ('user', 'state')
    """

    kind: Literal["gauge", "counter", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_FAST = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_SLOW = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

#: Every family that there is, in the order of the page; no other name is taken.
METRICS: Mapping[str, Family] = {
    "drfh_user_dominant_share": Family(
        "gauge", "What the user holds of the resource it holds most of, 0 to 1.", ("user",)
    ),
    "drfh_user_weight": Family("gauge", "Weight of the user.", ("user",)),
    "drfh_user_fair_share": Family(
        "gauge", "Dominant share of the user in the exact DRFH allocation, 0 to 1.", ("user",)
    ),
    "drfh_tasks": Family(
        "gauge", "Tasks by state: running, waiting, aside or never.", ("user", "state")
    ),
    "drfh_servers": Family("gauge", "Servers by state.", ("state",)),
    "drfh_capacity": Family("gauge", "Total of the resource on servers in use.", ("resource",)),
    "drfh_used": Family("gauge", "What running tasks hold of the resource.", ("resource",)),
    "drfh_placements_total": Family("counter", "Tasks for which a server was chosen."),
    "drfh_releases_total": Family("counter", "Tasks released to the engine, to be started."),
    "drfh_take_backs_total": Family(
        "counter", "Tasks taken back from the engine before they started.", ("reason",)
    ),
    "drfh_errors_total": Family("counter", "Commands of the engine that failed.", ("command",)),
    "drfh_decision_seconds": Family("histogram", "Time of the brain in one cycle.", buckets=_FAST),
    "drfh_command_seconds": Family(
        "histogram", "Time of one command of the engine.", ("command",), _SLOW
    ),
    "drfh_cycle_seconds": Family("histogram", "Time of one whole cycle.", buckets=_SLOW),
    "drfh_last_cycle_timestamp_seconds": Family(
        "gauge", "When the last cycle ended, in seconds since 1970."
    ),
    "drfh_build_info": Family(
        "gauge", "Always 1; its labels say what runs.", ("version", "policy")
    ),
}


class _Histogram:
    """Observations by bucket (not yet added up; the last is what is above all bounds), and sum."""

    __slots__ = ("counts", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * (buckets + 1)
        self.total = 0.0

    def copy(self) -> _Histogram:
        twin = _Histogram(0)
        twin.counts, twin.total = self.counts.copy(), self.total
        return twin


class Metrics:
    r"""Values of the families in :data:`METRICS`; any thread may call any method.

    Counters and histograms without labels are there from the start, at zero; everything else
    appears when it is first named.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.replace("drfh_user_weight", {"ann": 2, "bob": 1})
    >>> metrics.replace("drfh_tasks", {("ann", "running"): 7})
    >>> metrics.add("drfh_errors_total", command="squeue")
    >>> metrics.observe("drfh_cycle_seconds", 0.2)
    >>> print(*(line for line in metrics.render().splitlines() if "ann" in line), sep="\n")
    drfh_user_weight{user="ann"} 2.0
    drfh_tasks{user="ann",state="running"} 7.0
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[str, dict[tuple[str, ...], float]] = {}
        self._histograms: dict[str, dict[tuple[str, ...], _Histogram]] = {}
        for name, family in METRICS.items():
            if family.kind == "histogram":
                self._histograms[name] = {}
                if not family.labels:
                    self._histograms[name][()] = _Histogram(len(family.buckets))
            else:
                self._numbers[name] = {}
                if family.kind == "counter" and not family.labels:
                    self._numbers[name][()] = 0.0

    def set(self, name: str, value: float, /, **labels: str) -> None:
        """Give one series of a gauge its value."""
        key = _key(name, _family(name, "gauge"), labels)
        number = _number(name, value)
        with self._lock:
            self._numbers[name][key] = number

    def replace(self, name: str, values: Mapping[_Key, float], /) -> None:
        """Give a gauge all its series at once; those that are not named disappear.

        Parameters
        ----------
        name
            A gauge.
        values
            Values by the values of the labels, in their order; a plain string will do for a
            gauge with one label.
        """
        family = _family(name, "gauge")
        series: dict[tuple[str, ...], float] = {}
        for given, value in values.items():
            key = (given,) if isinstance(given, str) else tuple(given)
            if len(key) != len(family.labels):
                raise _wrong_labels(name, family, given)
            series[key] = _number(name, value)
        with self._lock:
            self._numbers[name] = series

    def add(self, name: str, amount: float = 1, /, **labels: str) -> None:
        """Add to one series of a counter; an amount of 0 makes it visible."""
        key = _key(name, _family(name, "counter"), labels)
        number = _amount(name, amount)
        with self._lock:
            series = self._numbers[name]
            series[key] = series.get(key, 0.0) + number

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Add an observation to one series of a histogram."""
        family = _family(name, "histogram")
        key = _key(name, family, labels)
        number = _amount(name, seconds)
        with self._lock:
            series = self._histograms[name]
            if key not in series:
                series[key] = _Histogram(len(family.buckets))
            series[key].counts[bisect_left(family.buckets, number)] += 1
            series[key].total += number

    def render(self) -> str:
        """Return everything in the text format 0.0.4, all of one moment."""
        with self._lock:  # copies only: a controller must not wait for the writing of the text
            numbers = {name: dict(series) for name, series in self._numbers.items()}
            histograms = {
                name: {key: histogram.copy() for key, histogram in series.items()}
                for name, series in self._histograms.items()
            }
        lines: list[str] = []
        for name, family in METRICS.items():
            lines.append(f"# HELP {name} {_escaped(family.help)}")
            lines.append(f"# TYPE {name} {family.kind}")
            for key, number in sorted(numbers.get(name, {}).items()):
                lines.append(_sample(name, family.labels, key, _written(number)))
            for key, histogram in sorted(
                histograms.get(name, {}).items(), key=lambda pair: pair[0]
            ):
                lines.extend(_histogram_lines(name, family, key, histogram))
        return "\n".join(lines) + "\n"


def _histogram_lines(
    name: str, family: Family, key: tuple[str, ...], histogram: _Histogram
) -> list[str]:
    bounds = [_written(float(bound)) for bound in (*family.buckets, math.inf)]
    running = list(accumulate(histogram.counts))
    with_bound = (*family.labels, "le")
    return [
        *(
            _sample(f"{name}_bucket", with_bound, (*key, bound), str(count))
            for bound, count in zip(bounds, running, strict=True)
        ),
        _sample(f"{name}_sum", family.labels, key, _written(histogram.total)),
        _sample(f"{name}_count", family.labels, key, str(running[-1])),
    ]


def _sample(name: str, labels: tuple[str, ...], key: tuple[str, ...], value: str) -> str:
    pairs = ",".join(
        f'{label}="{_escaped(text, quoted=True)}"' for label, text in zip(labels, key, strict=True)
    )
    return f"{name}{{{pairs}}} {value}" if pairs else f"{name} {value}"


def _escaped(text: str, *, quoted: bool = False) -> str:
    # A name of bytes that are no UTF-8 has lone surrogates, which no page may have.
    text = text.encode("utf-8", "backslashreplace").decode()
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quoted else text


def _written(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return repr(number)


def _family(name: str, kind: str) -> Family:
    try:
        family = METRICS[name]
    except KeyError:
        raise UnknownNameError("metric", name, METRICS) from None
    if family.kind != kind:
        raise InputError(name, f"must be used as a {family.kind}", kind)
    return family


def _key(name: str, family: Family, labels: Mapping[str, str]) -> tuple[str, ...]:
    if labels.keys() != set(family.labels):
        raise _wrong_labels(name, family, dict(labels))
    return tuple(str(labels[label]) for label in family.labels)


def _wrong_labels(name: str, family: Family, given: object) -> InputError:
    snapshot = (
        f"must have the labels {', '.join(family.labels)}" if family.labels else "has no labels"
    )
    return InputError(name, snapshot, given)


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(name, "must be a number", value) from None


def _amount(name: str, value: Any) -> float:
    number = _number(name, value)
    if not 0 <= number < math.inf:
        raise InputError(name, "must be given finite numbers ≥ 0", value)
    return number


class MetricsServer:
    """Answers ``GET /metrics`` until it is closed; made by :func:`serve`.

    One thread serves all connections, each for `patience` seconds at most; when too many are
    open, the oldest gives way. So clients that say nothing, or read nothing, cost little and
    keep nobody out.

    Examples
    --------
    >>> with serve(Metrics(), 0) as server:
    ...     server.url == f"http://127.0.0.1:{server.port}/metrics"
    True
    """

    def __init__(self, metrics: Metrics, listener: socket.socket, patience: float) -> None:
        self.host: str = listener.getsockname()[0]
        self.port: int = listener.getsockname()[1]
        self._pages: dict[str, tuple[str, Callable[[], str]]] = {
            "/metrics": (CONTENT_TYPE, metrics.render),
            "/-/healthy": ("text/plain; charset=utf-8", lambda: "drfh is alive\n"),
            "/": ("text/html; charset=utf-8", lambda: _FRONT),
        }
        self._patience = patience
        self._open: dict[asyncio.Task[None], None] = {}  # the oldest first
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=self._work, args=(listener,), name="drfh-metrics", daemon=True
        )
        self._thread.start()
        self._ready.wait()

    @property
    def url(self) -> str:
        """Where the metrics are."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/metrics"

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._open)

    def close(self) -> None:
        """Stop listening, drop all connections and end the thread; again is nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _work(self, listener: socket.socket) -> None:
        try:
            with listener:
                asyncio.run(self._run(listener))
        finally:
            self._ready.set()  # nobody waits for what could not start

    async def _run(self, listener: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        # What goes wrong with one client is no news for the terminal of the controller.
        self._loop.set_exception_handler(lambda loop, context: None)
        self._stop = asyncio.Event()
        listener.setblocking(False)
        self._loop.add_reader(listener, self._accept, listener)
        self._ready.set()
        await self._stop.wait()
        self._loop.remove_reader(listener)  # asyncio.run then cancels those that are open

    def _accept(self, listener: socket.socket) -> None:
        try:
            client = listener.accept()[0]
        except BlockingIOError:
            return
        except OSError:  # no descriptor left, say: without a pause this would be asked for ever
            self._loop.remove_reader(listener)
            self._loop.call_later(_PAUSE, self._loop.add_reader, listener, self._accept, listener)
            return
        if len(self._open) >= _MOST_CONNECTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.cancel()
        client.setblocking(False)
        task = self._loop.create_task(self._serve_one(client))
        self._open[task] = None
        task.add_done_callback(lambda ended: self._hang_up(ended, client))

    def _hang_up(self, task: asyncio.Task[None], client: socket.socket) -> None:
        client.close()
        self._open.pop(task, None)

    async def _serve_one(self, client: socket.socket) -> None:
        with suppress(OSError):  # gone, or (TimeoutError) too slow
            async with asyncio.timeout(self._patience):
                request = await self._request(client)
                if request:
                    await self._loop.sock_sendall(client, self._answer(request))

    async def _request(self, client: socket.socket) -> bytes:
        """Return all up to the first empty line, or as much as is read of what has none."""
        found = b""
        while len(found) <= _LONGEST_REQUEST and not _END.search(found):
            more = await self._loop.sock_recv(client, _LONGEST_REQUEST)
            if not more:
                break
            found += more
        return found

    def _answer(self, request: bytes) -> bytes:
        if len(request) > _LONGEST_REQUEST:
            return _response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        words = request.partition(b"\n")[0].decode("latin-1").split()
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _response(HTTPStatus.BAD_REQUEST)
        method, target, _ = words
        try:
            page = self._pages.get(urlsplit(target).path)
        except ValueError:
            return _response(HTTPStatus.BAD_REQUEST)
        whole = method != "HEAD"
        if page is None:
            return _response(HTTPStatus.NOT_FOUND, whole=whole)
        if method not in {"GET", "HEAD"}:
            return _response(HTTPStatus.METHOD_NOT_ALLOWED)
        return _response(HTTPStatus.OK, page[0], page[1](), whole=whole)


_FRONT = """\
<!doctype html><html lang="en"><title>drfh</title>
<h1>drfh</h1><p><a href="/metrics">Metrics</a> for Prometheus</p></html>
"""


def _response(
    status: HTTPStatus,
    kind: str = "text/plain; charset=utf-8",
    text: str = "",
    *,
    whole: bool = True,
) -> bytes:
    body = (text or f"{status.value} {status.phrase}\n").encode()
    head = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Date: {formatdate(usegmt=True)}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        head.append("Allow: GET, HEAD")
    return "\r\n".join([*head, "", ""]).encode() + (body if whole else b"")


def serve(
    metrics: Metrics, port: int, host: str = "127.0.0.1", *, patience: float = 10.0
) -> MetricsServer:
    """Serve the metrics on loopback, from a thread that does not keep the program alive.

    Parameters
    ----------
    metrics
        What to show; each request shows the values of its moment.
    port
        0: any free one, see :attr:`MetricsServer.port`.
    host
        ``127.0.0.1``, ``::1`` or ``localhost``. There is no password: other addresses are refused.
    patience
        Seconds for one connection in all.

    Examples
    --------
    >>> serve(Metrics(), 9815, "0.0.0.0")
    Traceback (most recent call last):
    drfh.errors.InputError: metrics host must be a loopback address in this version, such as \
127.0.0.1, got '0.0.0.0'
    """
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        address = ipaddress.ip_address("0.0.0.0")
    if not address.is_loopback:
        rule = "must be a loopback address in this version, such as 127.0.0.1"
        raise InputError("metrics host", rule, host)
    if not 0 <= port <= 65535:
        raise InputError("--metrics-port", "must be a port, 0 to 65535", port)
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        listener = socket.create_server((str(address), port), family=family, backlog=64)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        rule = f"must be a port that can be opened on {host} ({reason})"
        raise InputError("--metrics-port", rule, port) from None
    return MetricsServer(metrics, listener, patience)
