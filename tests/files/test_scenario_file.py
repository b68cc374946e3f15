"""Scenario files: what is read, what is refused and where, and that saving loses nothing."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drfh.errors import InputError
from drfh.files import yaml as reading
from drfh.files.scenario_file import (
    load_scenario,
    save_scenario,
    scenario_schema,
    shipped_scenarios,
    shipped_text,
)
from drfh.files.validation import EventModel, JobModel, check
from drfh.files.yaml import plain
from drfh.model.cluster import Cluster, Server
from drfh.model.jobs import AddServers, Job, RemoveServers, ResizeServer
from drfh.model.resources import parse_quantity
from drfh.model.scenario import Scenario
from drfh.model.users import User
from tests.support.examples import examples
from tests.support.paths import ROOT

CLUSTER = "cluster:\n- name: big\n  resources: {cpu: 8}\n"  # lines 1 to 3
USERS = "users:\n- name: ann\n  demand: {cpu: 1}\n"  # lines 4 to 6
GOOD = CLUSTER + USERS
ANY_AMOUNT = "must be a finite number ≥ 0, such as 4, 0.5, '500m' or '16Gi'"
ANY_WEIGHT = "must be a number > 0, such as 1 or 2.5"
ANY_TASKS = "must be a number ≥ 0, such as 100 (leave it out for no end)"
ANY_DURATION = "must be a number of seconds ≥ 0 (infinite for a task that never ends)"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)

Load = Callable[..., Scenario]


def issues(scenario: Scenario) -> list[str]:
    return [str(issue) for issue in check(scenario)]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Load a text as the file ``a.yaml``."""
    monkeypatch.chdir(tmp_path)

    def load(text: str, *, strict: bool = True, name: str = "a.yaml") -> Scenario:
        Path(name).write_bytes(text.encode())
        return load_scenario(name, strict=strict)

    return load


def refusal(act: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as caught:
        act()
    line = str(caught.value)
    assert "\n" not in line
    assert line.isprintable()
    return line


# --- what is read -------------------------------------------------------------------------------


def test_everything_a_file_can_say(load: Load) -> None:
    scenario = load(
        """
title: A team
description: Two lines
  in one.
cluster:
  - name: big-memory
    count: 12
    resources: {cpu: 8, memory: 512Gi}
    labels: {zone: a}
  - {name: small, count: 3, resources: {cpu: 4}}
  - resources: {gpu: 1}
users:
  - {name: ann, demand: {cpu: 500m, memory: 2Gi}, weight: 2, tasks: 100,
     servers: [big-memory, small/0], parent: team}
  - {name: bob, demand: {cpu: 1}, servers: small}
  - {name: cyd, demand: {cpu: 1}, servers: {zone: [a, b]}}
  - {name: dan, demand: {cpu: 1}, servers: null, tasks: null, parent: null}
mechanism: per-server-drf
parameters: {rounds: 3, exact: true, list: [1, {a: 2.5}], nothing: ~, word: no}
"""
    )
    big = Server(
        {"cpu": 8, "memory": 512 * 2**30}, name="big-memory", count=12, labels={"zone": "a"}
    )
    assert scenario == Scenario(
        Cluster([big, Server({"cpu": 4}, name="small", count=3), Server({"gpu": 1})]),
        (
            User(
                "ann",
                {"cpu": 0.5, "memory": 2 * 2**30},
                weight=2,
                tasks=100,
                servers=["big-memory", "small/0"],
                parent="team",
            ),
            User("bob", {"cpu": 1}, servers="small"),
            User("cyd", {"cpu": 1}, servers={"zone": ["a", "b"]}),
            User("dan", {"cpu": 1}),
        ),
        "A team",
        "Two lines in one.",
        "per-server-drf",
        {"rounds": 3, "exact": True, "list": [1, {"a": 2.5}], "nothing": None, "word": "no"},
    )
    assert hash(scenario) == hash(scenario)


@pytest.mark.parametrize("name", ["007", "1e3", "no", "on", "true", "1:30", "2024-01-01", "0x10"])
def test_names_are_the_text_as_written(load: Load, name: str) -> None:
    scenario = load(
        f"cluster:\n- {{name: {name}, resources: {{cpu: 1}}, labels: {{a: {name}}}}}\n"
        f"users:\n- {{name: {name}, parent: {name}, demand: {{cpu: 1}}, servers: {name}}}\n"
        f"- {{name: x, demand: {{cpu: 1}}, servers: {{a: {name}}}}}\n"
    )
    assert scenario.cluster.names == (name,)
    assert scenario.cluster.servers[0].labels == {"a": name}
    user = scenario.users[0]
    assert (user.name, user.parent, user.servers) == (name, name, (name,))


@pytest.mark.parametrize(
    ("written", "weight"),
    [
        ("1e3", 1000),
        ("'2'", 2),
        ("010", 10),
        ("1.5e-3", 0.0015),
        ("500m", 0.5),
        ("2k", 2000),
        (".5", 0.5),
        ("0x10", 16),
        ("+3", 3),
    ],
)
def test_numbers(load: Load, written: str, weight: float) -> None:
    assert load(f"{GOOD}  weight: {written}\n").users[0].weight == weight


@pytest.mark.parametrize(("written", "count"), [("1e3", 1000), ("3.0", 3), ("12583", 12583)])
def test_counts(load: Load, written: str, count: int) -> None:
    text = f"cluster:\n- resources: {{cpu: 1}}\n  count: {written}\n{USERS}"
    assert load(text).cluster.size == count


def test_json_is_read_by_the_same_loader(load: Load) -> None:
    data = {
        "cluster": [{"name": "gr\u00f6\u00dfe \U0001f680 \\ud83d", "resources": {"cpu": 1}}],
        "users": [{"name": "\U0001f600", "demand": {"cpu": 1e-3}, "tasks": None}],
    }
    for text in (json.dumps(data), json.dumps(data, indent="\t"), "\ufeff" + json.dumps(data)):
        scenario = load(text, name="a.json")
        assert scenario.cluster.names == ("gr\u00f6\u00dfe \U0001f680 \\ud83d",)
        assert scenario.users[0].name == "\U0001f600"


def test_an_alias_may_save_typing(load: Load) -> None:
    scenario = load(
        CLUSTER + "users:\n- {name: a, demand: &small {cpu: 1}}\n- {name: b, demand: *small}\n"
    )
    assert scenario.users[0].demand == scenario.users[1].demand


def test_a_million_servers(load: Load) -> None:
    text = f"cluster:\n- resources: {{cpu: 1e-15, memory: 1e15}}\n  count: 1000000\n{USERS}"
    assert load(text).cluster.size == 10**6


def test_many_users_load(load: Load) -> None:
    user = "- {{name: u{}, demand: {{cpu: 500m}}, weight: 2, tasks: 100, servers: [big]}}\n"
    text = CLUSTER + "users:\n" + "".join(user.format(i) for i in range(20_000))
    assert len(load(text).users) == 20_000  # a second; minutes if it were quadratic


# --- what is refused, and where -----------------------------------------------------------------

NO_MAPPING = (
    "the file must be a mapping with the keys cluster and users, or the JSON of kubectl or Slurm"
)
BAD_TEXTS = {
    # shape
    "empty": ("", ": the file must not be empty"),
    "only a comment": ("# later\n", ": the file must not be empty"),
    "null": ("~\n", f", line 1: {NO_MAPPING}"),
    "a list": ("\n- 1\n", f", line 2: {NO_MAPPING}"),
    "a word": ("cluster\n", f", line 1: {NO_MAPPING}"),
    "of kubectl": (
        "apiVersion: v1\nkind: List\nitems: []\n",
        ", line 1: the file must be JSON where it is of Kubernetes: "
        "kubectl get nodes,pods -A -o json",
    ),
    "no users": (CLUSTER, ", line 1: users must be given"),
    "users empty": (CLUSTER + "users: []\n", ", line 4: users must have at least one entry"),
    "cluster empty": ("cluster: []\n" + USERS, ", line 1: cluster must have at least one entry"),
    "users a mapping": (
        CLUSTER + "users: {ann: 1}\n",
        ", line 4: users must be a list, each entry starting with '- ', got {'ann': 1}",
    ),
    "user a word": (
        CLUSTER + "users:\n- ann\n",
        ", line 5: users[0] must be a mapping with keys among name, demand, weight, tasks, "
        "servers, parent, kinds, got 'ann'",
    ),
    "resources a number": (
        "cluster:\n- resources: 3\n" + USERS,
        ", line 2: cluster[0].resources must be a mapping, got 3",
    ),
    "no demand": (
        CLUSTER + "users:\n- name: ann\n",
        ", line 5: users[0].demand must be given (there are no jobs either)",
    ),
    "name a mapping": (
        CLUSTER + "users:\n- demand: {cpu: 1}\n  name: {}\n",
        ", line 6: users[0].name must be text, got {}",
    ),
    "name empty": (
        CLUSTER + "users:\n- demand: {cpu: 1}\n  name:\n",
        ", line 6: users[0].name must be text, got None",
    ),
    "title a list": (GOOD + "title: [1]\n", ", line 7: title must be text, got [1]"),
    "parameters": (GOOD + "parameters: 3\n", ", line 7: parameters must be a mapping, got 3"),
    # keys
    "misspelt key": (
        GOOD + "  wieght: 2\n",
        ", line 7: users[0].wieght is not a known key (did you mean weight?)",
    ),
    "misspelt and so missing": (
        CLUSTER + "users:\n- name: ann\n  demnad: {cpu: 1}\n",
        ", line 6: users[0].demnad is not a known key (did you mean demand?)",
    ),
    "misspelt in a group": (
        "cluster:\n- resources: {cpu: 1}\n  cuont: 2\n" + USERS,
        ", line 3: cluster[0].cuont is not a known key (did you mean count?)",
    ),
    "key at the top": (
        GOOD + "zzz: 1\n",
        ", line 7: zzz is not a known key (known are version, title, description, cluster, users, "
        "jobs, events, mechanism, parameters)",
    ),
    "key twice": (GOOD + "  name: bob\n", ", line 7: users[0].name must be given only once"),
    "resource twice": (
        CLUSTER + "users:\n- name: ann\n  demand:\n    cpu: 1\n    cpu: 2\n",
        ", line 8: users[0].demand.cpu must be given only once",
    ),
    "key a list": ("? [1]\n: 2\n", ", line 1: the file must have keys that are text"),
    "merge key": (
        "<<: {a: 1}\n" + GOOD,
        ", line 1: << is not a known key (known are version, title, description, cluster, users, "
        "jobs, events, mechanism, parameters)",
    ),
    # amounts
    **{
        f"weight {written}": (
            f"{GOOD}  weight: {written}\n",
            f", line 7: users[0].weight {ANY_WEIGHT}, got {got}",
        )
        for written, got in [
            (".nan", "nan"),
            (".inf", "inf"),
            ("-.inf", "-inf"),
            ("-1", "-1"),
            ("1:30", "'1:30'"),
            ("1_000", "'1_000'"),
            ("yes", "'yes'"),
            ("true", "True"),
            ("2024-01-01", "'2024-01-01'"),
            ("", "None"),
            ("[1]", "[1]"),
            ("9" * 5000, "inf"),
            ("1e999", "inf"),
            ("2x", "'2x'"),
        ]
    },
    "weight 0": (GOOD + "  weight: 0\n", ", line 7: users[0].weight must be > 0, got 0"),
    "tasks": (GOOD + "  tasks: -3\n", f", line 7: users[0].tasks {ANY_TASKS}, got -3"),
    "demand deep in the file": (
        CLUSTER
        + "users:\n- {name: a, demand: {cpu: 1}}\n- {name: b, demand: {cpu: 1}}\n"
        + "- name: c\n  demand:\n\n    # how much?\n    cpu: 4 cores\n",
        f", line 11: users[2].demand.cpu {ANY_AMOUNT}, got '4 cores'",
    ),
    "resource with dots": (
        CLUSTER + "users:\n- name: a\n  demand:\n    cpu: 1\n    nvidia.com/gpu: x\n",
        f", line 8: users[0].demand.nvidia.com/gpu {ANY_AMOUNT}, got 'x'",
    ),
    "resource that starts like another": (
        CLUSTER + "users:\n- name: a\n  demand:\n    gpu: 1\n    gpu.big: x\n",
        f", line 8: users[0].demand.gpu.big {ANY_AMOUNT}, got 'x'",
    ),
    "demand all zero": (
        CLUSTER + "users:\n- name: a\n  demand:\n    cpu: 0\n",
        ", line 6: users[0].demand must have at least one amount > 0 (else its tasks never end), "
        "got {'cpu': 0.0}",
    ),
    "count": (
        "cluster:\n- resources: {cpu: 1}\n  count: 1.5\n" + USERS,
        ", line 3: cluster[0].count must be a whole number ≥ 1, got 1.5",
    ),
    "total": (
        "cluster:\n- {resources: {cpu: 1e308}, count: 99}\n" + USERS,
        ", line 1: total of cpu must be a finite number, got inf",
    ),
    # names and restrictions
    "user twice": (
        GOOD + "- name: bob\n  demand: {cpu: 1}\n- demand: {cpu: 2}\n  name: ann\n",
        ", line 10: users[2].name must be unique (users[0] has it too), got 'ann'",
    ),
    "group twice": (
        CLUSTER + "- resources: {cpu: 1}\n  name: big\n" + USERS,
        ", line 5: cluster[1].name must be unique, got 'big'",
    ),
    "spaces": (
        GOOD + "- name: ' bob'\n  demand: {cpu: 1}\n",
        ", line 7: users[1].name must be a non-empty string without spaces around it, got ' bob'",
    ),
    "unknown server": (
        GOOD + "  servers: bigg\n",
        ", line 7: users[0].servers must name a server or a group of the cluster "
        "(did you mean big?), got 'bigg'",
    ),
    "label without value": (
        GOOD + "  servers:\n    zone:\n",
        ", line 8: users[0].servers.zone must be a label value or a list of them, got None",
    ),
    "list in a list": (
        GOOD + "  servers:\n  - big\n  - [small]\n",
        ", line 9: users[0].servers[1] must be the name of a server or group, or labels, "
        "got ['small']",
    ),
    "unknown resource": (
        CLUSTER + "users:\n- name: ann\n  demand:\n    cpu: 1\n    cpus: 1\n",
        ", line 8: users[0].demand.cpus must be a resource that some server has "
        "(did you mean cpu?), got 1.0",
    ),
    # jobs: the first is on line 8
    **{
        f"job {wrong or 'without a user'}": (
            f"{GOOD}jobs:\n- {{{wrong}}}\n",
            f", line 8: {message}",
        )
        for wrong, message in {
            "": "jobs[0].user must be given",
            "user: ann": "jobs[0].duration must be given",
            "user: ann, duration: ten": f"jobs[0].duration {ANY_DURATION}, got 'ten'",
            "user: ann, duration: -1": f"jobs[0].duration {ANY_DURATION}, got -1",
            "user: ann, duration: .nan": f"jobs[0].duration {ANY_DURATION}, got nan",
            "user: ann, duration: '5'": f"jobs[0].duration {ANY_DURATION}, got '5'",
            "user: ann, duration: [1, x]": f"jobs[0].duration[1] {ANY_DURATION}, got 'x'",
            "user: ann, duration: []": "jobs[0].duration must be one number, or at least one in a "
            "list, got []",
            "user: ann, duration: [1, 2], tasks: 3": "jobs[0].duration must be one number, or one "
            "for each of 3 tasks, got '2 numbers'",
            "user: ann, duration: 1, tasks: 0": "jobs[0].tasks must be a whole number ≥ 1, got 0",
            "user: ann, duration: 1, arrival: .inf": "jobs[0].arrival must be a finite number of "
            "seconds ≥ 0, got inf",
            "user: an, duration: 1": "jobs[0].user must be one of ann "
            "(did you mean ann?), got 'an'",
            "user: ann, duration: 1, demand: {cpu: 0}": "jobs[0].demand must have at least one "
            "amount > 0 (else its tasks never end), got {'cpu': 0.0}",
            "user: ann, duration: 1, demand: {cpus: 1}": "jobs[0].demand.cpus must be a resource "
            "that some server has (did you mean cpu?), got 1.0",
            "user: ann, duration: 1, servers: bigg": "jobs[0].servers must name a server or a "
            "group of the cluster (did you mean big?), got 'bigg'",
            "user: ann, duration: 1, servers: {a: b}": "jobs[0].servers must match at least one "
            "server, got a=b",
            "user: ann, durations: 1": "jobs[0].durations is not a known key (did you mean "
            "duration?)",
        }.items()
    },
    "too many tasks": (
        GOOD + "jobs:\n- {user: ann, duration: 1, tasks: 1e9}\n",
        ", line 7: jobs must have at most 100,000,000 tasks in all, got '1,000,000,000'",
    ),
    "demand of nobody": (
        CLUSTER + "users:\n- name: ann\njobs:\n- {user: ann, duration: 1}\n",
        ", line 7: jobs[0].demand must be given (ann has no demand of its own)",
    ),
    "one name, two users": (
        GOOD + "- {name: bob, demand: {cpu: 1}}\njobs:\n- {user: ann, duration: 1, name: x}\n"
        "- {user: bob, duration: 1, name: x}\n",
        ", line 10: jobs[1].name must not be that of a job of another user (ann), got 'x'",
    ),
    **{
        f"event {wrong}": (f"{GOOD}events:\n- {{{wrong}}}\n", f", line 8: events[0]{message}")
        for wrong, message in {
            "remove: big": ".at must be given",
            "at: 5": ".at must have exactly one of add, remove and resize",
            "at: 5, remove: big, resize: big": ".resize must have exactly one of add, remove and "
            "resize",
            "at: -5, remove: big": ".at must be a finite number of seconds ≥ 0, got -5",
            "at: 5, remove: ' big'": ".remove must be a non-empty string without spaces around it, "
            "got ' big'",
            "at: 5, remove: bgi": ".remove must name a server or group that is up at 5 s "
            "(did you mean big?), got 'bgi'",
            "at: 5, remove: big, resources: {cpu: 1}": ".resources must not be given here "
            "(it is what a resized server has)",
            "at: 5, resize: big": ".resources must be given with resize (it is what a resized "
            "server has)",
            "at: 5, resize: big, resources: {cpu: 0}": ".resources must have at least one amount "
            "> 0 (to have none, remove the server), got {'cpu': 0.0}",
            "at: 5, resize: bgi, resources: {cpu: 1}": ".resize must name a single server that is "
            "up at 5 s (did you mean big?), got 'bgi'",
            "at: 5, add: {resources: {cpu: 1}}": ".add.name must be given",
            "at: 5, add: {name: big, resources: {cpu: 1}}": ".add.name must not be the name of a "
            "server or group that is up at 5 s, got 'big'",
            "at: 5, add: {name: new, resources: {cpu: x}}": f".add.resources.cpu {ANY_AMOUNT}, "
            "got 'x'",
            "at: 5, add: {name: new, resource: {cpu: 1}}": ".add.resource is not a known key "
            "(did you mean resources?)",
            "at: 5, add: big": ".add must be a mapping with keys among name, count, resources, "
            "labels, got 'big'",
        }.items()
    },
    # YAML
    "syntax": (
        "cluster: a: b\n",
        ", line 1: the file must be YAML or JSON (mapping values are not allowed in this context)",
    ),
    "tab": (
        "cluster:\n\t- name: big\n",
        ", line 2: the file must be YAML or JSON (indent with spaces, not with a tab)",
    ),
    "nul": (
        GOOD + "title: a\0b\n",
        r", line 7: the file must be text, without control characters, got '\x00'",
    ),
    "tag": (
        GOOD + "title: !!python/name:os.system x\n",
        ", line 7: the file must have no tags (quote text instead of !!python/name:os.system)",
    ),
    "two documents": (
        GOOD + "---\n" + GOOD,
        ", line 7: the file must hold one document, not several",
    ),
    "bomb": (BOMB, ", line 6: f must not grow by more than 1,000,000 values through aliases"),
    "deep": ("\n" + "[" * 100_000, ", line 2: the file must be nested at most 20 deep"),
    "deep keys": ("{a: " * 50_000, ", line 1: the file must be nested at most 20 deep"),
    "itself": ("a: &a\n- *a\n", ", line 2: a must not contain itself (*a)"),
    "unknown alias": ("a: *b\n", ", line 1: the file must not use *b before &b"),
}


@pytest.mark.parametrize("case", BAD_TEXTS)
def test_bad_text_is_one_line_with_its_place(load: Load, case: str) -> None:
    text, message = BAD_TEXTS[case]
    assert refusal(lambda: load(text)) == f"a.yaml{message}"


def test_the_pure_python_parser_agrees(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_LOADER", yaml.SafeLoader)
    assert load(GOOD) == load_scenario("a.yaml")
    for case in ("misspelt key", "bomb", "deep", "itself", "two documents", "tag", "nul"):
        text, message = BAD_TEXTS[case]
        assert refusal(lambda text=text: load(text)) == f"a.yaml{message}"  # type: ignore[misc]


def test_a_cluster_may_be_completed_later(load: Load) -> None:
    scenario = load(GOOD.replace("{cpu: 1}", "{gpu: 1}"), strict=False)
    rule = "must be a resource that some server has (these are cpu)"
    assert issues(scenario)[0] == f"error: users[0].demand.gpu {rule}, got 1.0"


def test_a_file_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open("huge.yaml", "wb") as file:
        file.truncate(2 * 10**9)  # sparse: takes no room
    message = refusal(lambda: load_scenario("huge.yaml"))
    assert message == "huge.yaml: the file must be at most 64 MiB, not 1,907 MiB"


def test_files_that_are_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("folder").mkdir()
    Path("binary").write_bytes(b"a\nb\xff\xfe")
    Path("wide").write_bytes("cluster: 1".encode("utf-16"))
    Path("loop").symlink_to("loop")
    Path("two\nlines").write_text("")
    assert [refusal(lambda name=name: load_scenario(name)) for name in (  # type: ignore[misc]
        "pipe", "folder", "/dev/null", "binary", "wide", "nope.yaml", "nope/nope.yaml",
        "paper-two-server", "loop", "a\0b", "two\nlines", "n" * 5000, "",
    )] == [
        "pipe: the file must be a regular file, not a pipe",
        "folder: the file must be a regular file, not a directory",
        "/dev/null: the file must be a regular file, not a device",
        r"binary, line 2: the file must be text in UTF-8, got b'\xff'",
        r"wide, line 1: the file must be text in UTF-8, got b'\xff'",
        "nope.yaml: the file must exist, or be a shipped scenario",
        "nope/nope.yaml: the file must exist, or be a shipped scenario",
        "paper-two-server: the file must exist, or be a shipped scenario "
        "(did you mean paper-two-servers?)",
        "loop: the file must be readable (Too many levels of symbolic links)",
        r"'a\x00b': the file must be readable (embedded null byte)",
        r"'two\nlines': the file must not be empty",
        f"…{'n' * 199}: the file must be readable (File name too long)",
        "scenario must be a path or the name of a shipped scenario, got ''",
    ]  # fmt: skip


def test_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied", path)

    (tmp_path / "a.yaml").write_text(GOOD)
    if os.geteuid() == 0:  # root may read everything
        monkeypatch.setattr("drfh.files.atomic.os.open", refuse)
    else:
        (tmp_path / "a.yaml").chmod(0)
    monkeypatch.chdir(tmp_path)
    message = refusal(lambda: load_scenario("a.yaml"))
    assert message == "a.yaml: the file must be readable (Permission denied)"


# --- saving -------------------------------------------------------------------------------------

names = st.text(min_size=1, max_size=8).filter(
    lambda text: text == text.strip() and not any(0xD800 <= ord(c) < 0xE000 for c in text)
) | st.sampled_from(
    [
        "no",
        "~",
        "1e3",
        "0o7",
        "0x1",
        "007",
        "- a",
        "a: b",
        "#",
        "!x",
        "*a",
        "<<",
        "=",
        "true",
        ".inf",
        "2024-01-01",
        "x\u2028y\x85z",
        "\U0001f680",
        "a\x00\x1b\x7fb",
    ]
)
amounts = st.floats(min_value=0, max_value=1e15, allow_nan=False) | st.sampled_from(
    [2.0**30, 1.5 * 2**40, 0.1, 1e-15, 1e15, 1e300, 1234567.25 * 2**20]
)
quantities = st.dictionaries(names, amounts, min_size=1, max_size=3).filter(
    lambda mapping: any(mapping.values())
)
terms = names | st.dictionaries(
    names, names | st.lists(names, min_size=1, max_size=2), min_size=1, max_size=2
)
users = st.builds(
    User,
    names,
    st.none() | quantities,
    weight=st.floats(min_value=1e-9, max_value=1e9),
    tasks=st.none() | amounts,
    servers=st.none() | terms | st.lists(terms, min_size=1, max_size=3),
    parent=st.none() | names,
)
groups = st.builds(
    Server,
    quantities,
    count=st.integers(1, 10**6),
    labels=st.dictionaries(names, names | st.just(""), max_size=2),
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | names
    | st.just(""),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2),
    max_leaves=4,
)
times = st.floats(min_value=0, max_value=1e15) | st.integers(0, 10**6)
events = st.one_of(
    st.builds(
        AddServers,
        times,
        st.builds(Server, quantities, name=names, count=st.integers(1, 9)),
    ),
    st.builds(RemoveServers, times, names),
    st.builds(ResizeServer, times, names, quantities),
)


@st.composite
def jobs_of(draw: st.DrawFn, people: tuple[User, ...], endless: bool) -> Job:
    user = draw(st.sampled_from(people))
    seconds = times | st.just(float("inf")) if endless else times
    listed = draw(st.booleans())
    return Job(
        user.name,
        demand=draw(quantities if not user.demand else st.none() | quantities),
        duration=draw(st.lists(seconds, min_size=1, max_size=3) if listed else seconds),
        tasks=None if listed else draw(st.none() | st.integers(1, 10**6)),
        arrival=draw(times),
        servers=draw(st.none() | terms | st.lists(terms, min_size=1, max_size=2)),
        name=draw(st.none() | names.map(lambda name: f"{user.name} {name}")),
    )


@st.composite
def scenarios(draw: st.DrawFn, ending: str) -> Scenario:
    people = tuple(draw(st.lists(users, min_size=1, max_size=3, unique_by=lambda u: u.name)))
    jobs = jobs_of(people, endless=ending == "yaml")
    return Scenario(
        draw(st.lists(groups, min_size=1, max_size=3).map(Cluster)),
        people,
        draw(names | st.just("")),
        draw(names | st.just("several\nlines\n\n  of text \n")),
        draw(names),
        draw(st.dictionaries(names, values, max_size=2)),
        tuple(draw(st.lists(jobs, max_size=3, unique_by=lambda job: job.name or id(job)))),
        tuple(draw(st.lists(events, max_size=3))),
    )


@settings(
    deadline=None,
    max_examples=examples(150),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(ending=st.sampled_from(["yaml", "json"]), data=st.data())
def test_what_is_saved_is_loaded(tmp_path: Path, ending: str, data: st.DataObject) -> None:
    scenario = data.draw(scenarios(ending))
    path = tmp_path / f"a.{ending}"
    save_scenario(scenario, path)
    loaded = load_scenario(path)
    assert loaded == scenario
    if scenario.jobs:
        assert loaded.workload == scenario.workload
    assert {p.name for p in tmp_path.iterdir()} <= {"a.yaml", "a.json"}  # no drafts left
    if ending == "json":
        json.loads(path.read_text())


def test_saved_amounts_are_readable(tmp_path: Path) -> None:
    save_scenario(load_scenario("gpu-cluster"), tmp_path / "a.yaml")
    text = (tmp_path / "a.yaml").read_text()
    assert "memory: 256Gi" in text
    assert "cpu: 64\n" in text
    jsonschema.validate(yaml.safe_load(text), scenario_schema())


JOBS = """
cluster:
- {name: big, count: 2, resources: {cpu: 8}}
users:
- {name: ann, demand: {cpu: 1}}
- name: bob
jobs:
- {user: ann, duration: 60, tasks: 1e3, arrival: 30}
- {user: bob, name: train, demand: {cpu: 2, gpu: 1}, duration: [60, .inf], servers: [new, {a: b}]}
- {user: bob, name: train, demand: {cpu: 500m}, duration: 0.5, servers: 007}
events:
- {at: 60, add: {name: new, count: 2, resources: {cpu: 4, gpu: 1}, labels: {a: b}}}
- {at: 0, add: {name: 007, resources: {cpu: 4}}}
- {at: 90, remove: new/0}
- {at: 80, resize: big/1, resources: {cpu: 500m}}
"""


def test_jobs_and_events(load: Load) -> None:
    scenario = load(JOBS)
    assert scenario.jobs == (
        Job("ann", duration=60, tasks=1000, arrival=30),
        Job(
            "bob",
            name="train",
            demand={"cpu": 2, "gpu": 1},
            duration=(60, float("inf")),
            servers=["new", {"a": "b"}],
        ),
        Job("bob", name="train", demand={"cpu": 0.5}, duration=0.5, servers="007"),
    )
    assert scenario.events == (
        AddServers(60, Server({"cpu": 4, "gpu": 1}, name="new", count=2, labels={"a": "b"})),
        AddServers(0, Server({"cpu": 4}, name="007")),
        RemoveServers(90, "new/0"),
        ResizeServer(80, "big/1", {"cpu": 0.5}),
    )
    assert repr(scenario.workload) == (
        "Workload(2 users, 2 jobs, 1,003 tasks, 4 server events, arrivals 0 to 30 s)"
    )
    scenario.workload.check(scenario.cluster)
    assert issues(scenario) == []
    save_scenario(scenario, "b.yaml")
    assert load_scenario("b.yaml") == scenario
    assert refusal(lambda: save_scenario(scenario, "b.json")) == (
        "jobs[1].duration must be finite to be saved as JSON (YAML can hold it), got inf"
    )


def test_a_scenario_without_jobs_is_not_simulated(load: Load) -> None:
    assert refusal(lambda: load(GOOD).workload) == (
        "jobs must have at least one entry (a scenario without jobs can be allocated, not "
        "simulated)"
    )


def test_what_looks_odd_about_jobs(load: Load) -> None:
    odd = JOBS.replace("tasks: 1e3", "demand: {cpu: 9}").replace("{a: b}]}", "{a: b}, big]}")
    odd = odd.replace("- name: bob", "- name: bob\n- {name: cyd, servers: big}")
    odd += "- {at: 99, add: {name: c, resources: {cpu: 1, memory: 4Gi}}}\n"
    odd = odd.replace("demand: {cpu: 500m}, duration: 0.5", "demand: {memory: 4}, duration: 1")
    assert issues(load(odd)) == [
        "warning: jobs[2] (train): memory 4 is 4 bytes where servers have 4Gi; did you mean 4Gi?",
        "warning: jobs[0] (job-1): a task fits no server, so none runs",
        "warning: jobs[2] (train): a task fits no server it may use, so none runs",
        "warning: users[2] (cyd): has no jobs",
    ]


def test_what_is_wrong_about_events_comes_first(load: Load) -> None:
    scenario = load(JOBS.replace("remove: new/0", "remove: new/2"), strict=False)
    assert issues(scenario)[0] == (
        "error: events[2].remove must name a server or group that is up at 90 s "
        "(new has new/0 to new/1), got 'new/2'"
    )


def test_files_page_names_every_key_of_jobs() -> None:
    page = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    for model in (JobModel, EventModel):
        for key in model.model_fields:
            assert f"| `{key}` |" in page, key


def test_a_predicate_cannot_be_saved(tmp_path: Path) -> None:
    user = User("ann", {"cpu": 1}, servers=lambda server: server.name == "a")
    scenario = Scenario(Cluster([Server({"cpu": 1})]), (user,))
    message = refusal(lambda: save_scenario(scenario, tmp_path / "a.yaml"))
    rule = "users[0].servers must be names or labels to be saved, not a predicate, got <function"
    assert message.startswith(rule)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("drfh.files.atomic.os.fsync", full)
    message = refusal(lambda: save_scenario(load_scenario("paper-dynamic"), "a.yaml"))
    assert message == "path must be writable (No space left on device), got 'a.yaml'"
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a.yaml": "old"}


def test_saving_keeps_links_and_permissions(tmp_path: Path) -> None:
    real, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    save_scenario(load_scenario("paper-dynamic"), link)
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert load_scenario(real) == load_scenario("paper-dynamic")


def test_places_that_cannot_be_saved_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scenario = load_scenario("paper-dynamic")
    assert refusal(lambda: save_scenario(scenario, ".")).startswith(
        "path must be a regular file or a new one"
    )
    assert "No such file or directory" in refusal(lambda: save_scenario(scenario, "no/a.yaml"))
    lone = Scenario(scenario.cluster, (User("\ud800", {"cpu": 1}),))
    for name in ("a.yaml", "a.json"):
        with pytest.raises(InputError, match="to be saved"):
            save_scenario(lone, name)
    endless = Scenario(scenario.cluster, scenario.users, parameters={"alpha": float("inf")})
    save_scenario(endless, "a.yaml")
    assert load_scenario("a.yaml") == endless
    assert refusal(lambda: save_scenario(endless, "b.json")) == (
        "parameters must be finite numbers to be saved as JSON, got {'alpha': inf}"
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"cluster": 1}, "cluster must be a drfh.Cluster, got 1"),
        ({"users": ()}, "users must have at least one entry"),
        ({"users": ("ann",)}, "users[0] must be a drfh.User, got 'ann'"),
        ({"title": 3}, "title must be text, got 3"),
        ({"jobs": ("x",)}, "jobs[0] must be a drfh.Job, got 'x'"),
        ({"jobs": None}, "jobs must be a list of drfh.Job, got None"),
        ({"events": "x"}, "events must be a list of server events, got 'x'"),
        (
            {"events": [3]},
            "events[0] must be a drfh.AddServers, RemoveServers or ResizeServer, got 3",
        ),
        (
            {"mechanism": ""},
            "mechanism must be a non-empty string without spaces around it, got ''",
        ),
        ({"parameters": 3}, "parameters must map names to values, got 3"),
        ({"parameters": {"a": [{1: 2}]}}, "parameters.a[0] must have keys that are text, got 1"),
        (
            {"parameters": {"a": {1}}},
            "parameters.a must be a plain value: text, number, list or mapping, got {1}",
        ),
    ],
)
def test_a_scenario_is_validated(wrong: dict[str, Any], message: str) -> None:
    right = {"cluster": Cluster([Server({"cpu": 1})]), "users": (User("ann", {"cpu": 1}),)}
    assert refusal(lambda: Scenario(**{**right, **wrong})) == message


# --- shipped scenarios, schema and warnings -----------------------------------------------------


@pytest.mark.parametrize("name", shipped_scenarios())
def test_shipped_scenarios(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scenario = load_scenario(name, strict=True)
    assert issues(scenario) == []
    assert scenario.title == shipped_scenarios()[name]
    assert re.search(r"\b(NSDI|INFOCOM|SoCC) 20\d\d", scenario.description)
    jsonschema.validate(yaml.safe_load(shipped_text(name)), scenario_schema())


def test_shipped_clusters_are_those_of_the_papers() -> None:
    assert {name: load_scenario(name).cluster.size for name in shipped_scenarios()} == {
        "claim-a-zero-demands": 1,
        "claim-b-user-leaves": 1,
        "claim-c-skewed-servers": 2,
        "claim-d-low-utilisation": 2,
        "claim-f-common-bottleneck": 2,
        "claim-g-finite-tasks": 1,
        "claim-h-whole-tasks": 1,
        "claim-i-leaves-with-bundle": 1,
        "google-2011": 12_583,
        "gpu-cluster": 70,
        "gpu-day": 8,
        "nsdi11-single-server": 1,
        "paper-dynamic": 100,
        "paper-two-servers": 2,
        "paper-two-servers-finite": 2,
        "paper-two-servers-weighted": 2,
        "three-resources": 3,
        "tree-of-users": 1,
    }
    totals = load_scenario("paper-dynamic").cluster.totals
    assert [round(total, 2) for total in totals.tolist()] == [52.75, 51.32]


def test_a_file_goes_before_a_shipped_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("google-2011").write_text(GOOD)
    assert load_scenario("google-2011").cluster.size == 1


def test_the_schema_is_for_editors() -> None:
    schema = scenario_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    for part in (schema, *schema["$defs"].values()):
        assert part["additionalProperties"] is False
        assert all("description" in entry for entry in part["properties"].values())


# The schema sees what an editor's YAML reader makes of a file, so only shape can be compared.
@pytest.mark.parametrize("case", [
    "no users", "users empty", "cluster empty", "users a mapping", "user a word",
    "resources a number", "name a mapping", "title a list", "parameters", "misspelt key",
    "misspelt in a group", "key at the top", "weight -1", "weight 2x", "weight true", "count",
    "label without value", "list in a list", "demand deep in the file",
    "job without a user", "job user: ann", "job user: ann, duration: -1",
    "job user: ann, duration: [1, x]", "job user: ann, duration: []",
    "job user: ann, duration: 1, tasks: 0", "job user: ann, durations: 1", "event at: 5",
    "event at: 5, remove: big, resize: big", "event at: 5, resize: big", "event remove: big",
    "event at: 5, remove: big, resources: {cpu: 1}", "event at: 5, add: big",
])  # fmt: skip
def test_the_schema_refuses_what_the_loader_refuses(case: str) -> None:
    data = plain(reading.parse(BAD_TEXTS[case][0], "a.yaml").root)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, scenario_schema())


@given(text=st.from_regex(r"[ +]?[0-9.]{1,3}(e[0-9])?[ ]?[numkKMGTPEi]{0,2}[bB]?", fullmatch=True))
def test_the_schema_knows_the_same_quantities(text: str) -> None:
    pattern = scenario_schema()["$defs"]["UserModel"]["properties"]["weight"]["anyOf"][1]["pattern"]
    try:
        parse_quantity(text)
        fine = True
    except InputError:
        fine = False
    assert (re.search(pattern, text) is not None) == fine


def test_warnings() -> None:
    cluster = Cluster([
        Server({"cpu": 4, "memory": 8 * 2**30, "disk": 10}, name="a", labels={"zone": "a"}),
        Server({"cpu": 64, "memory": 2**40}, name="b"),
    ])  # fmt: skip
    people = (
        User("ann", {"cpu": 1, "memory": 4}),
        User("bob", {"cpu": 100}),
        User("cyd", {"cpu": 5, "memory": 2**30}, servers=["a"]),
        User("dan", {"cpu": 5, "memory": 2**30}),
    )
    assert issues(Scenario(cluster, people)) == [
        "warning: users[0] (ann): memory 4 is 4 bytes where servers have 8Gi; did you mean 4Gi?",
        "warning: users[1] (bob): one whole task fits no server; only a divisible allocation "
        "gives it anything",
        "warning: users[2] (cyd): one whole task fits no server it may use; only a divisible "
        "allocation gives it anything",
        "warning: resource disk: no user demands it",
    ]
    big = (User("eve", {"cpu": 5, "disk": 1, "memory": 2**30}),)
    assert "fits no server" in issues(Scenario(cluster, big))[0]
    pair = Cluster([Server({"cpu": 8}, name="c", count=2), Server({"cpu": 1}, name="d")])
    assert issues(Scenario(pair, (User("fay", {"cpu": 5}, servers=["c/1", "d"]),))) == []
    lost = (User("eve", {"cpu": 1, "memory": 2**30, "disk": 1}, servers={"zone": "x"}),)
    assert [line.split(", got")[0] for line in issues(Scenario(cluster, lost))] == [
        "error: users[0].servers must match at least one server"
    ]
