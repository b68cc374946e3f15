"""Metrics of a controller: the text for Prometheus, and the small server that shows it."""

from __future__ import annotations

import http.client
import math
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drfh.engines.metrics import CONTENT_TYPE, METRICS, Family, Metrics, MetricsServer, serve
from drfh.errors import InputError, UnknownNameError

# A reader of the text format 0.0.4 that forgives nothing, written from the format's description.

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r"[a-zA-Z_][a-zA-Z0-9_]*"
QUOTED = r'"(?:[^"\\\n]|\\["\\n])*"'
PAIR = rf"{LABEL}={QUOTED}"
SAMPLE = re.compile(rf"({NAME})(?:\{{({PAIR}(?:,{PAIR})*)\}})? (\S+)")
VALUE = re.compile(r"NaN|[+-]Inf|-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")
SUFFIXES = ("_bucket", "_sum", "_count")

Labels = frozenset[tuple[str, str]]


@dataclass
class Parsed:
    kind: str = ""
    help: str = ""
    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)


def unescaped(quoted: str) -> str:
    return re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), quoted[1:-1])


def parse(text: str) -> dict[str, Parsed]:
    """Return the families by name, or fail."""
    assert text.endswith("\n")
    families: dict[str, Parsed] = {}
    current = ""
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            _, _, current, described = line.split(" ", 3)
            assert current not in families, f"{current} comes twice"
            families[current] = Parsed(help=described)
            continue
        family = families[current]
        if line.startswith("# TYPE "):
            _, _, name, family.kind = line.split(" ")
            assert name == current
            assert not family.samples
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        name, inside, value = match.groups()
        assert VALUE.fullmatch(value), line
        base = name
        if family.kind == "histogram":
            base = next(name.removesuffix(s) for s in SUFFIXES if name.endswith(s))
        assert base == current, f"{name} among {current}"
        pairs = re.findall(rf"({LABEL})=({QUOTED})", inside or "")
        labels = {label: unescaped(quoted) for label, quoted in pairs}
        assert len(labels) == len(pairs)
        key = (name, frozenset(labels.items()))
        assert key not in family.samples, f"{line} comes twice"
        family.samples[key] = float(value)
    for name, family in families.items():
        assert family.kind in {"gauge", "counter", "histogram"}
        if family.kind == "counter":
            assert name.endswith("_total")
        if family.kind == "histogram":
            check_histogram(name, family)
    return families


def check_histogram(name: str, family: Parsed) -> None:
    series: dict[Labels, list[tuple[float, float]]] = {}
    for (sample, labels), value in family.samples.items():
        if sample == f"{name}_bucket":
            (bound,) = [text for label, text in labels if label == "le"]
            rest = frozenset(pair for pair in labels if pair[0] != "le")
            series.setdefault(rest, []).append((float(bound), value))
    for labels, buckets in series.items():
        assert buckets == sorted(buckets)  # as written, counts never fall
        assert [count for _, count in buckets] == sorted(count for _, count in buckets)
        assert buckets[-1] == (math.inf, family.samples[f"{name}_count", labels])
        assert (f"{name}_sum", labels) in family.samples
    assert len(family.samples) == sum(len(buckets) + 2 for buckets in series.values())


def value(metrics: Metrics, sample: str, **labels: str) -> float | None:
    for family in parse(metrics.render()).values():
        found = family.samples.get((sample, frozenset(labels.items())))
        if found is not None:
            return found
    return None


@pytest.mark.parametrize(
    "text",
    [
        "a 1",
        "# HELP a b\n# TYPE a gauge\na 1\na 1\n",
        '# HELP a b\n# TYPE a gauge\na{b="\\d"} 1\n',
        '# HELP a b\n# TYPE a gauge\na{b="c",} 1\n',
        "# HELP a b\n# TYPE a gauge\na inf\n",
        "# HELP a b\n# TYPE a gauge\nb 1\n",
        '# HELP a b\n# TYPE a histogram\na_bucket{le="+Inf"} 2\na_sum 1\na_count 1\n',
        '# HELP a b\n# TYPE a histogram\na_bucket{le="1"} 2\na_sum 1\na_count 2\n',
    ],
)
def test_the_reader_of_these_tests_forgives_nothing(text: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        parse(text)


# The families


def test_families_are_what_prometheus_expects() -> None:
    for name, family in METRICS.items():
        assert re.fullmatch(r"drfh_[a-z_]+[a-z]", name)
        assert name.endswith("_total") == (family.kind == "counter")
        assert not name.endswith(SUFFIXES)
        assert bool(family.buckets) == (family.kind == "histogram")
        assert list(family.buckets) == sorted(set(family.buckets))
        assert all(0 < bound < math.inf for bound in family.buckets)
        assert not {"le", "quantile", "server", "node", "task", "job"} & set(family.labels)
        assert "\n" not in family.help


def test_a_new_page_has_every_family_and_zero_where_nothing_can_be_missing() -> None:
    families = parse(Metrics().render())
    assert list(families) == list(METRICS)
    for name, family in METRICS.items():
        assert (families[name].kind, families[name].help) == (family.kind, family.help)
        full = not family.labels and family.kind != "gauge"
        assert bool(families[name].samples) == full
        assert set(families[name].samples.values()) <= {0.0}


def test_gauges_take_the_last_value() -> None:
    metrics = Metrics()
    metrics.set("drfh_last_cycle_timestamp_seconds", 1_700_000_000.25)
    metrics.set("drfh_build_info", 1, policy="best-fit-drfh", version="0.1.0")
    metrics.set("drfh_servers", 3, state="up")
    metrics.set("drfh_servers", 2, state="up")
    assert value(metrics, "drfh_last_cycle_timestamp_seconds") == 1_700_000_000.25
    assert value(metrics, "drfh_build_info", version="0.1.0", policy="best-fit-drfh") == 1
    assert value(metrics, "drfh_servers", state="up") == 2


@pytest.mark.parametrize("number", [math.inf, -math.inf, 1e-9, -2.5, 1e300, 2**53])
def test_numbers_come_through_as_they_are(number: float) -> None:
    metrics = Metrics()
    metrics.set("drfh_used", number, resource="cpu")
    assert value(metrics, "drfh_used", resource="cpu") == number


def test_not_a_number_is_written_as_the_format_wants() -> None:
    metrics = Metrics()
    metrics.set("drfh_user_fair_share", math.nan, user="ann")
    assert 'drfh_user_fair_share{user="ann"} NaN\n' in metrics.render()
    parse(metrics.render())


def test_replace_lets_those_who_left_disappear() -> None:
    metrics = Metrics()
    metrics.replace("drfh_tasks", {("ann", "running"): 7, ("bob", "waiting"): 2})
    metrics.replace("drfh_user_weight", {"ann": 1, "bob": 2})
    metrics.replace("drfh_tasks", {("bob", "waiting"): 1})
    metrics.replace("drfh_user_weight", {("bob",): 3})
    families = parse(metrics.render())
    assert list(families["drfh_tasks"].samples.values()) == [1]
    assert list(families["drfh_user_weight"].samples.values()) == [3]
    metrics.replace("drfh_tasks", {})
    assert "bob" not in {p[1] for s in parse(metrics.render())["drfh_tasks"].samples for p in s[1]}


def test_a_replacement_that_is_refused_changes_nothing() -> None:
    metrics = Metrics()
    metrics.replace("drfh_user_weight", {"ann": 1})
    before = metrics.render()
    wrong: dict[str, Any] = {"ann": 2, "bob": "heavy"}
    with pytest.raises(InputError, match=r"^drfh_user_weight must be a number, got 'heavy'$"):
        metrics.replace("drfh_user_weight", wrong)
    assert metrics.render() == before


def test_counters_add_up() -> None:
    metrics = Metrics()
    for _ in range(3):
        metrics.add("drfh_placements_total")
    metrics.add("drfh_take_backs_total", 4, reason="late")
    metrics.add("drfh_errors_total", 0, command="scontrol")
    assert value(metrics, "drfh_placements_total") == 3
    assert value(metrics, "drfh_take_backs_total", reason="late") == 4
    assert value(metrics, "drfh_errors_total", command="scontrol") == 0


@given(st.lists(st.floats(0, 200) | st.sampled_from(METRICS["drfh_command_seconds"].buckets)))
def test_histograms_count_what_is_at_most_each_bound(seconds: list[float]) -> None:
    metrics = Metrics()
    metrics.observe("drfh_command_seconds", 0.1, command="other")
    for one in seconds:
        metrics.observe("drfh_command_seconds", one, command="squeue")
    family = parse(metrics.render())["drfh_command_seconds"]
    for (name, labels), found in family.samples.items():
        values = dict(labels)
        if values["command"] == "other":
            continue
        if name.endswith("_bucket"):
            assert found == sum(one <= float(values["le"]) for one in seconds)
        elif name.endswith("_sum"):
            assert found == pytest.approx(math.fsum(seconds))
        else:
            assert found == len(seconds)
    buckets = len(METRICS["drfh_command_seconds"].buckets)
    assert len(family.samples) == (buckets + 3) * (2 if seconds else 1)


@given(st.lists(st.text(st.characters() | st.sampled_from('\\"\n{},= ')), unique=True))
def test_any_name_of_a_user_comes_back(names: list[str]) -> None:
    metrics = Metrics()
    metrics.replace("drfh_user_weight", {name: index for index, name in enumerate(names)})
    text = metrics.render().encode().decode()
    found = parse(text)["drfh_user_weight"].samples
    expected = {frozenset({("user", name)}): index for index, name in enumerate(names)}
    assert {labels: number for (_, labels), number in found.items()} == expected


def test_names_of_bytes_that_are_no_text_stay_apart_and_can_be_sent() -> None:
    metrics = Metrics()
    names = [b"\xff".decode("utf-8", "surrogateescape"), b"\xfe".decode("utf-8", "surrogateescape")]
    metrics.replace("drfh_user_weight", dict.fromkeys(names, 1))
    assert len(parse(metrics.render().encode().decode())["drfh_user_weight"].samples) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.set("drfh_task", 1), "did you mean drfh_tasks?"),
        (lambda m: m.replace("up", {}), "metric must be one of drfh_build_info, "),
        (lambda m: m.observe("drfh_tasks", 1), "drfh_tasks must be used as a gauge, got 'hist"),
        (lambda m: m.add("drfh_tasks"), "drfh_tasks must be used as a gauge, got 'counter'"),
        (lambda m: m.set("drfh_placements_total", 1), "must be used as a counter, got 'gauge'"),
        (lambda m: m.replace("drfh_cycle_seconds", {}), "must be used as a histogram, got"),
        (lambda m: m.set("drfh_tasks", 1, user="ann"), "must have the labels user, state, got {"),
        (lambda m: m.add("drfh_releases_total", user="a"), "has no labels, got {'user': 'a'}"),
        (lambda m: m.replace("drfh_tasks", {"ann": 1}), "must have the labels user, state, got 'a"),
        (lambda m: m.replace("drfh_tasks", {("a", "b", "c"): 1}), "must have the labels user, sta"),
        (lambda m: m.set("drfh_used", "lots", resource="cpu"), "drfh_used must be a number, got"),
        (lambda m: m.set("drfh_used", None, resource="cpu"), "drfh_used must be a number, got"),
        (lambda m: m.add("drfh_releases_total", -1), "must be given finite numbers ≥ 0, got -1"),
        (lambda m: m.observe("drfh_cycle_seconds", math.nan), "finite numbers ≥ 0, got nan"),
        (lambda m: m.observe("drfh_cycle_seconds", math.inf), "finite numbers ≥ 0, got inf"),
    ],
)
def test_what_is_not_in_the_list_is_refused(call: Callable[[Metrics], None], message: str) -> None:
    metrics = Metrics()
    before = metrics.render()
    with pytest.raises(InputError, match=re.escape(message)) as raised:
        call(metrics)
    assert "\n" not in str(raised.value)
    assert metrics.render() == before


def test_an_unknown_name_is_a_name_error() -> None:
    with pytest.raises(UnknownNameError):
        Metrics().add("drfh_placements")


@pytest.fixture
def restless() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_threads_lose_nothing_and_see_whole_families() -> None:
    metrics = Metrics()
    threads, rounds = 6, 3000
    torn: set[str] = set()

    def write() -> None:
        for number in range(rounds):
            metrics.add("drfh_placements_total")
            metrics.observe("drfh_cycle_seconds", 1.0)
            metrics.replace("drfh_servers", {"up": number, "down": number})
            metrics.add("drfh_errors_total", command=str(number % 7))

    writers = [threading.Thread(target=write) for _ in range(threads)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        text = metrics.render()
        for same in ("drfh_servers{", "drfh_cycle_seconds_(?:sum|count)"):
            if len(set(map(float, re.findall(rf"^{same}.*? ([0-9.]+)$", text, re.M)))) > 1:
                torn.add(same)
    for writer in writers:
        writer.join()
    parse(text)
    assert not torn
    assert value(metrics, "drfh_placements_total") == threads * rounds
    assert value(metrics, "drfh_cycle_seconds_count") == threads * rounds
    errors = parse(metrics.render())["drfh_errors_total"].samples
    assert sum(errors.values()) == threads * rounds


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.set("drfh_servers", 1, state="up"),
        lambda m: m.replace("drfh_servers", {"up": 1}),
        lambda m: m.add("drfh_placements_total"),
        lambda m: m.observe("drfh_cycle_seconds", 1),
        lambda m: m.render(),
    ],
)
def test_nothing_is_read_or_written_while_another_thread_writes(
    call: Callable[[Metrics], None],
) -> None:
    metrics = Metrics()
    thread = threading.Thread(target=call, args=(metrics,))
    with metrics._lock:
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
    thread.join()


# The server


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    metrics = Metrics()
    metrics.replace("drfh_user_weight", {"ann": 2})
    with serve(metrics, 0) as running:
        yield running


def ask(server: MetricsServer, path: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def raw(server: MetricsServer, data: bytes) -> bytes:
    """Send bytes, and return all that comes back until the server hangs up."""
    with socket.create_connection((server.host, server.port), timeout=30) as client:
        with suppress(OSError):  # the server may have heard enough
            client.sendall(data)
        return everything(client)


def everything(client: socket.socket) -> bytes:
    found = b""
    try:
        while more := client.recv(65536):
            found += more
    except ConnectionResetError:
        pass
    return found


def test_metrics_are_served_as_prometheus_wants_them(server: MetricsServer) -> None:
    status, headers, body = ask(server, "/metrics")
    assert (status, headers["Content-Type"]) == (200, CONTENT_TYPE)
    assert int(headers["Content-Length"]) == len(body)
    assert headers["Date"].endswith("GMT")
    weights = parse(body.decode())["drfh_user_weight"].samples
    assert weights == {("drfh_user_weight", frozenset({("user", "ann")})): 2}
    assert ask(server, "/metrics?x=1")[0] == 200
    assert server.url == f"http://127.0.0.1:{server.port}/metrics"


def test_every_request_shows_the_values_of_its_moment() -> None:
    metrics = Metrics()
    with serve(metrics, 0) as server:
        for count in range(1, 4):
            metrics.add("drfh_placements_total")
            body = ask(server, "/metrics")[2].decode()
            assert f"\ndrfh_placements_total {float(count)}\n" in body


def test_the_other_pages(server: MetricsServer) -> None:
    assert ask(server, "/-/healthy")[::2] == (200, b"drfh is alive\n")
    status, headers, body = ask(server, "/")
    assert status == 200
    assert headers["Content-Type"].startswith("text/html")
    assert b'<a href="/metrics">' in body
    for path in ("/metric", "/metrics/", "/-/ready", "/../metrics", "//metrics", "*"):
        assert ask(server, path)[0] == 404, path


def test_head_is_get_without_the_text(server: MetricsServer) -> None:
    for path in ("/metrics", "/-/healthy", "/", "/nothing"):
        whole, head = ask(server, path), ask(server, path, "HEAD")
        assert (head[0], head[2]) == (whole[0], b"")
        del whole[1]["Date"], head[1]["Date"]
        assert head[1] == whole[1]
        assert not raw(server, f"HEAD {path} HTTP/1.1\r\n\r\n".encode()).partition(b"\r\n\r\n")[2]


def test_other_methods_change_nothing(server: MetricsServer) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        status, headers, _ = ask(server, "/metrics", method)
        assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert ask(server, "/nothing", "POST")[0] == 404


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /metrics HTTP/1.0\n\n", b"200"),
        (b"GET http://localhost/metrics HTTP/1.1\r\n\r\n", b"200"),
        (b"GET /metrics\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/2\r\n\r\n", b"400"),
        (b"GET http://[/metrics HTTP/1.1\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
        (b"\xff\xfe \xff /\r\n\r\n", b"400"),
        (b"GET /" + b"x" * 8000 + b" HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /" + b"x" * 20_000, b"431"),
        (b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 1000 + b"\r\n", b"200"),
        (b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 5000, b"431"),
    ],
)
def test_what_is_no_request_is_told_so(server: MetricsServer, data: bytes, status: bytes) -> None:
    assert raw(server, data).startswith(b"HTTP/1.1 " + status + b" ")
    assert ask(server, "/-/healthy")[0] == 200


def test_a_client_that_says_nothing_gets_nothing(server: MetricsServer) -> None:
    with socket.create_connection((server.host, server.port), timeout=30) as client:
        client.shutdown(socket.SHUT_WR)
        assert everything(client) == b""
    with socket.create_connection((server.host, server.port), timeout=30) as client:
        client.sendall(b"GET /metrics HT")  # and goes
    assert ask(server, "/-/healthy")[0] == 200


def test_nothing_is_printed(server: MetricsServer, capfd: pytest.CaptureFixture[str]) -> None:
    ask(server, "/metrics")
    raw(server, b"nonsense\r\n\r\n")
    server.close()
    assert capfd.readouterr() == ("", "")


def wait_until(true: Callable[[], bool]) -> None:
    """Wait, for as long as a slow machine may need."""
    for _ in range(3000):
        if true():
            return
        time.sleep(0.01)
    pytest.fail("did not happen")


def test_silent_clients_are_dropped_and_cost_no_thread() -> None:
    before = threading.active_count()
    with serve(Metrics(), 0, timeout=0.2) as server:
        clients = [socket.create_connection((server.host, server.port)) for _ in range(20)]
        for client in clients[::2]:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
        assert threading.active_count() == before + 1
        for client in clients:
            client.settimeout(30)
            assert everything(client) == b""
            client.close()
        wait_until(lambda: server.connections == 0)
    assert threading.active_count() == before


def test_a_client_that_drips_is_dropped_all_the_same() -> None:
    with (
        serve(Metrics(), 0, timeout=0.3) as server,
        socket.create_connection((server.host, server.port), timeout=0.02) as client,
    ):
        client.sendall(b"GET /metrics HTTP/1.1\r\n")

        def dropped() -> bool:
            try:
                client.sendall(b"A: b")
                return client.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        wait_until(dropped)


def test_a_client_that_reads_nothing_is_dropped() -> None:
    metrics = Metrics()
    metrics.replace("drfh_user_weight", {f"user-{index:0300}": 1 for index in range(30_000)})
    size = len(metrics.render())
    with serve(metrics, 0, timeout=0.5) as server:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with client:
            client.connect((server.host, server.port))
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            wait_until(lambda: server.connections == 1)
            wait_until(lambda: server.connections == 0)
            client.settimeout(30)
            assert len(everything(client)) < size
    with serve(metrics, 0) as server:  # and one that reads gets all of it
        status, _, body = ask(server, "/metrics")
        assert (status, len(body)) == (200, size)


def test_many_silent_clients_keep_nobody_out() -> None:
    with serve(Metrics(), 0, timeout=600) as server:
        clients = []
        try:
            for _ in range(5):
                place = (server.host, server.port)
                clients += [socket.create_connection(place, timeout=30) for _ in range(30)]
                assert ask(server, "/metrics")[0] == 200
            assert server.connections <= 32
            assert everything(clients[0]) == b""  # the oldest gave way
        finally:
            for client in clients:
                client.close()


def test_closing_does_not_wait_for_clients_and_frees_the_port() -> None:
    before = threading.active_count()
    server = serve(Metrics(), 0, timeout=600)
    with socket.create_connection((server.host, server.port), timeout=30) as client:
        client.sendall(b"GET ")
        server.close()
        server.close()
        assert everything(client) == b""
    assert threading.active_count() == before
    with pytest.raises(ConnectionRefusedError):
        ask(server, "/metrics")
    with serve(Metrics(), server.port) as again:
        assert ask(again, "/-/healthy")[0] == 200


def test_a_server_never_used_closes_cleanly() -> None:
    for _ in range(20):
        serve(Metrics(), 0).close()


def test_a_port_in_use_is_said_in_one_line(server: MetricsServer) -> None:
    with pytest.raises(InputError) as raised:
        serve(Metrics(), server.port)
    assert str(raised.value) == (
        "--metrics-port must be a port that can be opened on 127.0.0.1 (Address already in use), "
        f"got {server.port}"
    )
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_must_be_one(port: int) -> None:
    with pytest.raises(InputError, match=f"^--metrics-port must be a port, 0 to 65535, got {port}"):
        serve(Metrics(), port)


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "10.0.0.1", "localhost.example", "*"])
def test_only_loopback_is_served(host: str) -> None:
    with pytest.raises(InputError, match=r"^metrics host must be a loopback address in this ver"):
        serve(Metrics(), 0, host)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_every_name_of_loopback_will_do(host: str) -> None:
    try:
        running = serve(Metrics(), 0, host)
    except InputError:
        assert host == "::1"
        pytest.skip("needs IPv6")
    with running:
        assert ask(running, "/metrics")[0] == 200
        assert running.url.startswith(("http://127.0.0.1:", "http://[::1]:"))


def test_a_family_says_what_it_is() -> None:
    assert METRICS["drfh_tasks"] == Family("gauge", METRICS["drfh_tasks"].help, ("user", "state"))
