"""Metrics of a controller for Prometheus, and the HTTP server for them on loopback.

``prometheus_client`` keeps the values and writes the text. What it lacks is here: gauges whose
series are replaced as a whole, a page that shows all families at one moment, and a server with
limits on connections, request size and time. Series are per user, never per server: a large
cluster must not flood the monitoring.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import os
import re
import socket
import threading
import time
from collections import Counter as Multiset
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from types import TracebackType
from typing import Any, Literal, Self, TypeVar
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.registry import Collector

from drfh.engines.cache import SchedulerCache
from drfh.engines.lifecycle import LatestWorker
from drfh.engines.observer import Cycle, CycleFailure, Observer
from drfh.engines.status import Status, status_of
from drfh.errors import InputError, UnknownNameError

__all__ = [
    "CONTENT_TYPE",
    "METRICS",
    "Family",
    "Metrics",
    "MetricsObserver",
    "MetricsServer",
    "serve",
]

#: The media type of what :meth:`Metrics.render` returns.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_MAX_CONNECTIONS = 32
_MAX_REQUEST = 16 * 2**10  # bytes
_ACCEPT_PAUSE = 0.5  # seconds
_HEADERS_END = re.compile(rb"\n\r?\n")
_STATUS_SECONDS = 5.0  # between two exact allocations, as often as metrics are scraped

_Key = TypeVar("_Key", bound=str | tuple[str, ...])
_Series = Gauge | Counter | Histogram


@dataclass(frozen=True, slots=True)
class Family:
    """A metric family: its type, help text, labels and buckets.

    Parameters
    ----------
    kind
        ``gauge``, ``counter`` or ``histogram``.
    help
        One line.
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

#: All families, in the order of the page.
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
    "drfh_decision_seconds": Family(
        "histogram", "Time of the scheduler in one cycle.", buckets=_FAST
    ),
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
    drfh_tasks{state="running",user="ann"} 7.0
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._registry = CollectorRegistry(auto_describe=False)
        self._families = {name: self._registered(name, METRICS[name]) for name in METRICS}
        # Gauges without labels that have no value yet: the library would show 0.
        self._unset = {n for n, f in METRICS.items() if f.kind == "gauge" and not f.labels}

    def _registered(self, name: str, family: Family) -> _Series:
        if family.kind == "histogram":
            return Histogram(
                name, family.help, family.labels, buckets=family.buckets, registry=self._registry
            )
        kind = Gauge if family.kind == "gauge" else Counter
        return kind(name, family.help, family.labels, registry=self._registry)

    def set(self, name: str, value: float, /, **labels: str) -> None:
        """Set one series of a gauge."""
        key = _key(name, _family(name, "gauge"), labels)
        number = _number(name, value)
        with self._lock:
            self._unset.discard(name)
            self._series(name, key).set(number)

    def replace(self, name: str, values: Mapping[_Key, float], /) -> None:
        """Set all series of a gauge; those that are not named disappear.

        Parameters
        ----------
        name
            A gauge with labels.
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
            series[tuple(map(_encodable, key))] = _number(name, value)
        with self._lock:
            self._families[name].clear()
            for key, number in series.items():
                self._series(name, key).set(number)

    def add(self, name: str, amount: float = 1, /, **labels: str) -> None:
        """Add to one series of a counter; an amount of 0 makes it visible."""
        key = _key(name, _family(name, "counter"), labels)
        number = _amount(name, amount)
        with self._lock:
            self._series(name, key).inc(number)

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Add an observation to one series of a histogram."""
        key = _key(name, _family(name, "histogram"), labels)
        number = _amount(name, seconds)
        with self._lock:
            self._series(name, key).observe(number)

    def _series(self, name: str, key: tuple[str, ...]) -> Any:
        family = self._families[name]
        return family.labels(*key) if key else family

    def render(self) -> str:
        """Return everything in the text format 0.0.4, all of one moment."""
        with self._lock:  # only to collect: a controller must not wait for the text
            families = list(self._registry.collect())
            unset = set(self._unset)
        for family in families:
            created = f"{family.name}_created"  # of OpenMetrics; twice the series, for no use here
            family.samples = [
                sample
                for sample in family.samples
                if sample.name != created and family.name not in unset
            ]
        return generate_latest(_Collected(families)).decode()


class _Collected(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self.families = families

    def collect(self) -> list[Metric]:
        return self.families


def _encodable(text: str) -> str:
    # A name of bytes that are no UTF-8 has lone surrogates, which no page may have.
    return text.encode("utf-8", "backslashreplace").decode()


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
    return tuple(_encodable(str(labels[label])) for label in family.labels)


def _wrong_labels(name: str, family: Family, given: object) -> InputError:
    names = ", ".join(family.labels)
    return InputError(name, f"must have the labels {names}" if names else "has no labels", given)


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


class MetricsObserver(Observer):
    """Keeps metrics up to date with a controller.

    The exact allocation is solved in a thread of its own, at most every 5 s and always for the
    newest cycle, so that it never delays the controller. Use it in a ``with`` block.

    Parameters
    ----------
    metrics
        Where they are kept.
    version, policy
        What runs.
    """

    def __init__(self, metrics: Metrics, version: str, policy: str) -> None:
        self.metrics = metrics
        self._cache: SchedulerCache | None = None  # of the worker's thread
        self._next = -math.inf
        self._worker = LatestWorker(self._update, "drfh-metrics-status", due=self._due)
        metrics.set("drfh_build_info", 1, version=version, policy=policy)

    def __enter__(self) -> Self:
        self._worker.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._worker.__exit__(kind, error, trace)

    def on_command(self, command: str, seconds: float, succeeded: bool) -> None:
        """Count a command of the engine."""
        self.metrics.observe("drfh_command_seconds", seconds, command=command)
        if not succeeded:
            self.metrics.add("drfh_errors_total", command=command)

    def on_failure(self, failure: CycleFailure) -> None:
        """Count an error that no command has had."""
        if failure.internal:
            self.metrics.add("drfh_errors_total", command="drfh")

    def on_cycle(self, cycle: Cycle) -> None:
        """Count a cycle, and hand it over for the status."""
        metrics = self.metrics
        metrics.add("drfh_placements_total", len(cycle.placed))
        metrics.add("drfh_releases_total", len(cycle.released))
        for code, count in Multiset(why.code for why in cycle.recalled.values()).items():
            metrics.add("drfh_take_backs_total", count, reason=code.value)
        metrics.observe("drfh_decision_seconds", cycle.decision_seconds)
        metrics.observe("drfh_cycle_seconds", cycle.seconds)
        metrics.set("drfh_last_cycle_timestamp_seconds", time.time())
        self._worker.submit(cycle)

    def _due(self) -> bool:
        return time.monotonic() >= self._next

    def _update(self, cycle: Cycle) -> None:
        self._next = time.monotonic() + _STATUS_SECONDS
        cache, self._cache = self._cache, None
        cluster = cycle.outcome(cache)
        self.set_status(status_of(cluster))
        self._cache = cluster.cache  # only if nothing failed: it may be spoilt

    def set_status(self, status: Status) -> None:
        """Set the gauges of users, nodes and resources."""
        replace, users = self.metrics.replace, status.users
        replace("drfh_user_dominant_share", {user.name: user.share for user in users})
        replace("drfh_user_weight", {user.name: user.weight for user in users})
        fair = {user.name: user.fair_share for user in users if user.fair_share is not None}
        replace("drfh_user_fair_share", fair)
        tasks: dict[tuple[str, str], float] = {}
        for user in users:
            tasks[user.name, "running"] = user.running + user.starting
            tasks[user.name, "waiting"] = user.waiting
            tasks[user.name, "never"] = user.never
            tasks[user.name, "aside"] = sum(user.blocked.values())
        replace("drfh_tasks", tasks)
        replace("drfh_servers", dict(Multiset(node.state for node in status.nodes)))
        replace("drfh_capacity", {name: total.capacity for name, total in status.totals.items()})
        replace("drfh_used", {name: total.used for name, total in status.totals.items()})


class MetricsServer:
    """Answers ``GET /metrics`` until it is closed; made by :func:`serve`.

    One thread serves all connections, each for `timeout` seconds at most; when too many are
    open, the oldest is closed. So clients that send nothing, or read nothing, cost little and
    keep nobody out.

    Examples
    --------
    >>> with serve(Metrics(), 0) as server:
    ...     server.url == f"http://127.0.0.1:{server.port}/metrics"
    True
    """

    def __init__(self, metrics: Metrics, listener: socket.socket, timeout: float) -> None:
        self.host: str = listener.getsockname()[0]
        self.port: int = listener.getsockname()[1]
        self._pages: dict[str, tuple[str, Callable[[], str]]] = {
            "/metrics": (CONTENT_TYPE, metrics.render),
            "/-/healthy": ("text/plain; charset=utf-8", lambda: "drfh is alive\n"),
            "/": ("text/html; charset=utf-8", lambda: _FRONT),
        }
        self._timeout = timeout
        self._open: dict[asyncio.Task[None], None] = {}  # the oldest first
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=self._work, args=(listener,), name="drfh-metrics", daemon=True
        )
        self._thread.start()
        self._ready.wait()

    @property
    def url(self) -> str:
        """Address of the metrics."""
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
            self._ready.set()  # also if it could not start

    async def _run(self, listener: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        # Errors of one client are not for the log of the controller.
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
        except OSError:  # such as no descriptor left: without a pause this would loop
            self._loop.remove_reader(listener)
            self._loop.call_later(
                _ACCEPT_PAUSE, self._loop.add_reader, listener, self._accept, listener
            )
            return
        if len(self._open) >= _MAX_CONNECTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.cancel()
        client.setblocking(False)
        task = self._loop.create_task(self._serve_one(client))
        self._open[task] = None
        task.add_done_callback(lambda ended: self._close(ended, client))

    def _close(self, task: asyncio.Task[None], client: socket.socket) -> None:
        client.close()
        self._open.pop(task, None)

    async def _serve_one(self, client: socket.socket) -> None:
        with suppress(OSError):  # gone, or (TimeoutError) too slow
            async with asyncio.timeout(self._timeout):
                request = await self._request(client)
                if request:
                    await self._loop.sock_sendall(client, self._answer(request))

    async def _request(self, client: socket.socket) -> bytes:
        """Return all up to the first empty line, or up to the limit."""
        found = b""
        while len(found) <= _MAX_REQUEST and not _HEADERS_END.search(found):
            more = await self._loop.sock_recv(client, _MAX_REQUEST)
            if not more:
                break
            found += more
        return found

    def _answer(self, request: bytes) -> bytes:
        if len(request) > _MAX_REQUEST:
            return _response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        parts = request.partition(b"\n")[0].decode("latin-1").split()
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            return _response(HTTPStatus.BAD_REQUEST)
        method, target, _ = parts
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
    metrics: Metrics, port: int, host: str = "127.0.0.1", *, timeout: float = 10.0
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
    timeout
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
    return MetricsServer(metrics, listener, timeout)
