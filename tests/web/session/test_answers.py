"""Answers: rows that add up, what a liar really has, mechanisms side by side, the report card."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drfh import (
    Cluster,
    InputError,
    Scenario,
    Scheduler,
    Server,
    User,
    allocate,
    audit,
    load_scenario,
)
from drfh.allocation.explain import explain
from drfh.auditor import PROPERTIES
from drfh.auditor.finding import Counterexample, Finding
from drfh.files.scenario_file import shipped_scenarios
from drfh.mechanisms.shared import slots
from drfh.mechanisms.shared.slots import slots_mechanism
from drfh.web.session import answers
from drfh.web.session.answers import (
    UserChange,
    answer_of,
    change_text,
    changes,
    own_mechanism,
    solved_text,
    user_rows,
)
from drfh.web.session.comparison import COMPARED, compare_rows
from drfh.web.session.report_card import audit_answer, case_book, case_steps
from drfh.web.session.steps import (
    AddServer,
    AddUser,
    LieStep,
    RemoveServer,
    RemoveUser,
    SetServer,
    SetUser,
    Step,
    TrueValueStep,
)
from drfh.web.session.workbook import Workbook
from tests.support.strategies import problems
from tests.web.session.steps import demands
from tests.web.used_rows import used_rows

TWO = load_scenario("paper-two-servers")


def test_the_papers_example() -> None:
    answer = answer_of(Workbook(TWO))
    assert (answer.mechanism, answer.proven, answer.truths) == ("drfh", True, {})
    assert solved_text(answer).endswith(": proven optimal")
    assert answer.seconds > 0
    assert answer.fair is answer.allocation
    ann, bob = user_rows(answer)
    assert (ann.user, ann.weight, ann.limit, ann.dominant) == ("ann", 1.0, None, "memory")
    assert (ann.tasks, ann.real, ann.lying, ann.promised) == (10.0, 10.0, False, None)
    assert ann.share == ann.level == ann.ideal == pytest.approx(10 / 14)
    assert bob.dominant == "cpu"
    assert str(bob.limiting) == answer.allocation.explain("bob")
    full = {(row.group, row.resource): (row.capacity, row.used, row.free)
            for row in used_rows(answer)}  # fmt: skip
    assert full["high-memory", "cpu"] == (2.0, (("ann", 2.0),), 0.0)
    assert full["high-memory", "memory"] == (12.0, (("ann", 10.0),), 2.0)
    assert full["high-cpu", "cpu"] == (12.0, (("bob", 10.0),), 2.0)


def test_the_ideal_is_drfh_whatever_the_mechanism() -> None:
    book = Workbook(load_scenario("paper-two-servers-weighted"))
    ideal = [row.share for row in user_rows(answer_of(book))]
    for mechanism in ("drf", "per-server-drf", "whole-tasks", "slots:14"):
        answer = answer_of(book, mechanism)
        assert [row.ideal for row in user_rows(answer)] == pytest.approx(ideal)
        assert answer.mechanism == mechanism
    assert [row.promised for row in user_rows(answer_of(book, "drf"))] != [None, None]
    assert answer_of(book, "whole-tasks").proven is False


def test_the_scenarios_own_mechanism_and_parameters() -> None:
    own = {name: own_mechanism(load_scenario(name)) for name in shipped_scenarios()}
    assert own["claim-h-whole-tasks"] == "whole-tasks"
    assert own["tree-of-users"] == "hdrf"
    assert own["gpu-day"] == "drfh"
    base = replace(TWO, parameters={"method": "simplex", "whole_tasks": True, "reference": "cpu"})
    assert answer_of(Workbook(base)).allocation.method == "simplex"
    assert answer_of(Workbook(base), "drf").allocation.method != "simplex"
    assert answer_of(Workbook(base), "whole-tasks").allocation.parameters["reference"] == "cpu"


@pytest.mark.parametrize("mechanism", ["slots:0", "slots:many", "drfhh", "norm:x"])
def test_a_wrong_mechanism_is_refused(mechanism: str) -> None:
    with pytest.raises(InputError):
        answer_of(Workbook(TWO), mechanism)


@given(problems(m=st.integers(1, 3)), st.sampled_from(["drfh", "per-server-drf", "whole-tasks"]))
@settings(max_examples=60)
def test_what_is_used_and_free_adds_up(problem: tuple[Cluster, list[User]], mechanism: str) -> None:
    cluster, users = problem
    answer = answer_of(Workbook(Scenario(cluster, tuple(users))), mechanism)
    tasks = answer.allocation.tasks
    demand = {user.name: user.demand for user in users}
    held: dict[tuple[str, str], float] = {}
    pairs = []
    for row in used_rows(answer):
        server = cluster.servers[cluster.group_index[row.group]]
        assert row.count == server.count
        assert row.capacity == server.resources[row.resource] * server.count
        assert all(amount > 0 for _, amount in row.used)
        used = sum(amount for _, amount in row.used)
        assert used + row.free == pytest.approx(row.capacity)
        pairs.append((row.group, row.resource))
        for user, amount in row.used:
            key = user, row.resource
            held[key] = held.get(key, 0.0) + amount
    assert len(set(pairs)) == len(pairs) == int((cluster.capacity > 0).sum())
    for one in users:
        for resource, need in one.demand.items():
            want = tasks[one.name] * need
            assert held.get((one.name, resource), 0.0) == pytest.approx(want, abs=1e-9)
    rows = user_rows(answer)
    assert {row.user: row.tasks for row in rows} == tasks
    assert {row.user: row.share for row in rows} == answer.allocation.shares
    assert {row.user: row.level for row in rows} == answer.allocation.levels
    assert [row.limiting for row in rows] == [
        explain(answer.allocation, i) for i in range(len(users))
    ]
    assert demand.keys() == tasks.keys()


def test_explanations_are_left_out_where_they_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_MOST_REASONS", 3)
    answer = answer_of(Workbook(TWO))
    assert [row.limiting for row in user_rows(answer)] == [None, None]
    assert answer.allocation.explain("ann").startswith("ann stops at 10 tasks")


def test_before_and_after() -> None:
    book = Workbook(TWO)
    before = answer_of(book)
    book.do(AddUser("eve", {"cpu": 1, "memory": 1}))
    book.do(RemoveUser("bob"))
    book.do(SetServer("high-cpu", "count", "2"))
    after = answer_of(book)
    rows = changes(before, after)
    assert [row.user for row in rows] == ["ann", "eve", "bob"]
    ann, eve, bob = rows
    assert ann.tasks_before == 10.0
    assert ann.share_before == pytest.approx(10 / 14)
    assert ann.tasks_after == after.allocation.tasks["ann"]
    assert (eve.tasks_before, eve.share_before) == (None, None)
    assert (bob.tasks_after, bob.share_after) == (None, None)
    assert changes(before, before)[0] == UserChange(
        "ann", 10.0, 10.0, before.allocation.shares["ann"], before.allocation.shares["ann"]
    )


def test_a_liar_has_what_it_can_really_run() -> None:
    book = Workbook(TWO)
    before = answer_of(book)
    book.do(LieStep("ann", {"cpu": 0.2, "memory": 2}))
    answer = answer_of(book)
    assert demands(answer.truths) == {"ann": {"cpu": 0.2, "memory": 1.0}}
    ann, bob = user_rows(answer)
    assert (ann.lying, bob.lying) == (True, False)
    # Each task that it claims has cpu for one of its true ones, and memory for two.
    assert ann.real == pytest.approx(ann.tasks)
    assert ann.tasks == pytest.approx(answer.allocation.tasks["ann"])
    book.do(LieStep("ann", {"cpu": 0.4, "memory": 2}))
    row = user_rows(answer_of(book))[0]
    assert row.real == pytest.approx(2 * row.tasks)
    assert changes(before, answer_of(book))[0].tasks_after == row.real
    book.do(LieStep("ann", tasks="1"))
    row = user_rows(answer_of(book))[0]
    assert (row.tasks, row.real) == (1.0, 2.0)
    book.do(TrueValueStep("ann"))
    assert user_rows(answer_of(book)) == user_rows(before)


def test_a_lie_about_servers_counts_only_servers_that_it_can_use() -> None:
    cluster = Cluster([Server({"cpu": 4}, name="a"), Server({"cpu": 4}, name="b", count=3)])
    users = (User("ann", {"cpu": 1}, servers=["a", "b/2"]), User("bob", {"cpu": 1}))
    book = Workbook(Scenario(cluster, users))
    book.do(LieStep("ann", servers="all"))
    answer = answer_of(book)
    ann = user_rows(answer)[0]
    held = {row.group: dict(row.used).get("ann", 0.0) for row in used_rows(answer)}
    assert ann.real == pytest.approx(held["a"] + held["b"] / 3)
    assert ann.real < ann.tasks


def test_who_truly_needs_what_is_gone_runs_nothing() -> None:
    cluster = Cluster([Server({"cpu": 4}, name="a"), Server({"cpu": 1, "gpu": 1}, name="b")])
    users = (User("ann", {"gpu": 1}), User("bob", {"cpu": 1}))
    book = Workbook(Scenario(cluster, users), [LieStep("ann", {"cpu": 1}), RemoveServer("b")])
    ann = user_rows(answer_of(book))[0]
    assert ann.tasks > 0
    assert ann.real == 0


def test_mechanisms_side_by_side() -> None:
    answer = answer_of(Workbook(TWO))
    progress: list[tuple[str, int, int]] = []
    rows = compare_rows(answer, progress=lambda *news: progress.append(news))
    assert [row.mechanism for row in rows] == list(COMPARED)
    assert progress == [(name, i, len(COMPARED)) for i, name in enumerate(COMPARED)]
    by_name = {row.mechanism: row for row in rows}
    assert by_name["drfh"].tasks == {"ann": 10.0, "bob": 10.0}
    assert by_name["drfh"].differs == ()
    drf = by_name["drf"]
    assert drf.promised == pytest.approx({"ann": 35 / 3, "bob": 35 / 3})
    assert (drf.tasks, drf.differs, drf.worst_off) == ({"ann": 10.0, "bob": 10.0}, (), "")
    per_server = by_name["per-server-drf"]
    assert per_server.differs == ("ann", "bob")
    assert per_server.distance > 0.3
    assert per_server.total == pytest.approx(sum(per_server.tasks.values()))
    assert per_server.utilisation.keys() == {"cpu", "memory"}
    assert by_name["slots:14"].tasks == {"ann": 1.0, "bob": 1.0}
    assert all(row.summary and not row.why_not for row in rows)


def test_a_mechanism_that_fails_says_why_and_the_others_go_on() -> None:
    answer = answer_of(Workbook(TWO))
    rows = compare_rows(answer, ["norm:x", "cmmf", "slots:x", "drfh", "whole-tasks"])
    assert [bool(row.why_not) for row in rows] == [True, True, True, False, False]
    assert rows[2].why_not.startswith("policy must be slots:N")
    assert rows[1].tasks == {}
    huge = Workbook(TWO, [SetServer("high-cpu", "count", "1000000000000")])
    rows = compare_rows(answer_of(huge), ["drfh", "slots:14", "whole-tasks"])
    assert [bool(row.why_not) for row in rows] == [False, True, True]
    for row in rows[1:]:
        assert row.why_not.startswith("servers must be at most 200,000 to be filled with whole")


@given(problems(m=st.integers(1, 2), positive=True, most_users=3), st.integers(1, 9))
@settings(max_examples=60)
def test_slots_are_filled_as_the_scheduler_does(
    problem: tuple[Cluster, list[User]], number: int
) -> None:
    cluster, users = problem
    most = number * cluster.size + 1  # more than there are slots
    scheduler = Scheduler(cluster, f"slots:{number}")
    for user in users:
        scheduler.add_user(user.name, user.weight, user.servers)
        count = most if user.tasks is None else int(min(most, user.tasks))
        if count:
            scheduler.submit(user.name, user.name, user.demand, count=count)
    where: dict[tuple[str, str], float] = {}
    for placed in scheduler.place():
        key = placed.user, placed.server
        where[key] = where.get(key, 0.0) + 1
    for queued in (1_000, 2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(slots, "_QUEUED", queued)
            found = allocate(cluster, users, mechanism=slots_mechanism(f"slots:{number}"))
        assert found.whole
        table = found.placement(expand=True).iter_rows()
        assert {(user, server): tasks for user, server, tasks in table} == where


def test_slots_go_on_after_the_first_thousand() -> None:
    cluster = Cluster([Server({"cpu": 10, "memory": 10}, count=300)])
    users = [
        User("a", {"cpu": 1}),
        User("b", {"memory": 1}, weight=2),
        User("c", {"cpu": 1}, tasks=7),
    ]
    found = allocate(cluster, users, mechanism=slots_mechanism("slots:10"))
    assert found.tasks == {"a": 998.0, "b": 1995.0, "c": 7.0}


def applied(scenario: Scenario, steps: list[Step]) -> Workbook:
    assert steps
    return Workbook(scenario, steps)


@pytest.mark.parametrize(
    ("name", "mechanism", "shown", "texts"),
    [
        ("claim-b-user-leaves", "drfh", "population-monotone", ["b leaves"]),
        ("claim-h-whole-tasks", "whole-tasks", "truthful", None),
        ("claim-g-finite-tasks", "utilitarian", "split-proof", None),
        ("claim-i-leaves-with-bundle", "nash", "truthful", None),
        ("three-resources", "drfh", "resource-monotone", None),
        ("claim-i-leaves-with-bundle", "drfh", "consistent", None),
        ("three-resources", "nash", "single-server", None),
        ("three-resources", "utilitarian", "single-resource", None),
    ],
)
def test_a_counterexample_is_a_few_steps_away(
    name: str, mechanism: str, shown: str, texts: list[str] | None
) -> None:
    scenario = load_scenario(name)
    before = answer_of(Workbook(scenario), mechanism)
    finding = audit_answer(before, properties=[shown], tries=300)[shown]
    assert finding.verdict == "fails", finding
    example = finding.counterexample
    assert example is not None
    steps = case_steps(finding, scenario)
    book = applied(scenario, steps)
    if texts is not None:
        assert [step.text for step in steps] == texts
    after = answer_of(book, mechanism)
    has = {row.user: row.tasks_after for row in changes(before, after)}
    if shown == "split-proof":
        ((me, together),) = example.after.items()
        assert (has[me] or 0.0) + (has[f"{me}-2"] or 0.0) == pytest.approx(together, rel=1e-4)
    else:
        for user, tasks in example.after.items():
            assert has[user] == pytest.approx(tasks, rel=1e-4, abs=1e-9)
    if shown == "truthful":
        (liar,) = book.truths
        assert liar in example.after
        assert example.after[liar] > example.before[liar]
    opened = case_book(finding)
    assert opened is not None
    assert opened.scenario.cluster == example.scenario.cluster


def test_two_liars_are_two_steps() -> None:
    scenario = TWO
    claimed = replace(
        scenario,
        users=(User("ann", {"cpu": 1}), replace(scenario.users[1], tasks=4.0, servers="high-cpu")),
    )
    finding = Finding(
        "group-truthful", "fails", 0.5, "", counterexample=Counterexample("", claimed)
    )
    steps = case_steps(finding, scenario)
    assert steps == [LieStep("ann", {"cpu": 1.0}), LieStep("bob", tasks=4.0, servers="high-cpu")]
    book = Workbook(scenario, steps)
    assert book.scenario.users == claimed.users
    assert set(book.truths) == {"ann", "bob"}


def test_a_case_in_place_or_far_away_has_no_steps() -> None:
    same = Finding("envy-free", "fails", 0.5, "", counterexample=Counterexample("", TWO))
    assert case_steps(same, TWO) == []
    assert case_steps(Finding("pareto", "holds", 0.0, ""), TWO) == []
    assert case_book(Finding("pareto", "holds", 0.0, "")) is None
    many = Cluster([Server({"cpu": 1 + i, "memory": 1}, name=f"s{i}") for i in range(60)])
    far = Counterexample("", replace(TWO, cluster=many))
    assert case_steps(Finding("resource-monotone", "fails", 0.5, "", counterexample=far), TWO) == []
    # Servers that no step can reach: the users need what they would lose midway.
    other = Cluster([Server({"gpu": 1}, name="high-memory")])
    users = (User("ann", {"gpu": 1}),)
    moved = Counterexample("", replace(TWO, cluster=other, users=users))
    assert case_steps(Finding("consistent", "fails", 0.5, "", counterexample=moved), TWO) == []


def test_the_card_is_the_auditors() -> None:
    book = Workbook(TWO, [SetUser("ann", "weight", "2")])
    wanted = ["envy-free", "pareto", "sharing-incentive", "population-monotone"]
    progress: list[str] = []
    report = audit_answer(
        answer_of(book, "nash"), properties=wanted, progress=lambda n, part: progress.append(n)
    )
    straight = audit(book.scenario, mechanism="nash", properties=wanted)
    assert [(f.name, f.verdict, f.text) for f in report] == [
        (f.name, f.verdict, f.text) for f in straight
    ]
    assert list(dict.fromkeys(progress)) == wanted
    base = replace(TWO, parameters={"method": "simplex"})
    assert audit_answer(answer_of(Workbook(base)), properties=["pareto"]).scenario.parameters == {
        "method": "simplex"
    }
    slotted = audit_answer(answer_of(Workbook(TWO), "slots:14"), properties=["fair"])
    assert slotted.failed == ("fair",)
    assert slotted.subject == "slots:14"


def test_a_card_of_countless_servers_leaves_out_what_reads_each() -> None:
    book = Workbook(TWO, [SetServer("high-cpu", "count", str(10**9))])
    report = audit_answer(answer_of(book), properties=["pareto", "dedicated-cloud"])
    assert [finding.name for finding in report] == ["pareto"]
    assert "dedicated-cloud" in PROPERTIES


def test_large_answers_have_all_rows() -> None:
    rng = np.random.default_rng(0)
    cluster = Cluster(
        [
            Server(
                {"cpu": float(rng.integers(1, 64)), "memory": float(rng.integers(1, 512))},
                count=int(rng.integers(1, 20)),
            )
            for _ in range(1_000)
        ]
    )
    users = tuple(
        User(f"u{i}", {"cpu": float(rng.random() + 0.1), "memory": float(rng.integers(1, 8))})
        for i in range(100)
    )
    book = Workbook(Scenario(cluster, users))
    book.do(SetServer("server-7", "count", "100"))
    answer = answer_of(book)
    assert answer.proven
    assert len(used_rows(answer)) == 2_000
    assert all(row.limiting for row in user_rows(answer))


def test_the_text_of_a_change_names_those_who_come_and_leave_and_of_servers_for_nobody() -> None:
    servers = [Server({"cpu": 4}, name="a"), Server({"cpu": 4}, name="b")]
    users = [User("ann", {"cpu": 1}, servers="a"), User("bob", {"cpu": 1}, servers="b")]
    book = Workbook(Scenario(Cluster(servers), tuple(users)))
    start = answer_of(book)

    def summary() -> str:
        now = answer_of(book)
        return change_text(start, now, changes(start, now))

    book.do(SetUser("ann", "weight", "2"))
    assert summary() == "Everybody can run the same."
    book.do(AddServer("new", {"cpu": "4"}, "10"))
    text = "Everybody can run the same. Nobody may use new: see “may use” in the users' table, "
    text += "or raise the count of servers that they may use."
    assert summary() == text
    book.do(RemoveUser("bob"))  # b is for nobody now too, but it was there before
    assert summary().startswith("1 user left; the others can run the same. Nobody may use new:")
    book.do(SetUser("ann", "servers", "a or new"))
    assert summary() == "1 user left; 1 user can run more"
    book.do(AddUser("eve", {"cpu": "1"}))
    assert summary() == "1 user came; 1 user left; 1 user can run more"
