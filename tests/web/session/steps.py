"""Random steps for random workbooks: good ones, odd ones and wrong ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from hypothesis import strategies as st

from drfh import Scenario, User
from drfh.web.session.steps import (
    SAME,
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

AMOUNTS = ["0", "1", "2.5", "500m", "", "3", 4, 0.25, "x", "-1", "1e999", None]
COUNTS = ["1", "2", "3", 2, "0", "2.5", "many", "", 10**20]
SERVERS: list[Any] = ["", "all", "s0", "s0 or s1", "s0, s1", "s0/0", "s1/1", "zone=a", "zone=c",
                      "zone=a|b", "nowhere", {"zone": "b"}, ["s0", {"zone": ["a"]}], 5, "=", "s0,",
]  # fmt: skip
NAMES = ["s0", "s1", "fresh", "u0", "u1", "added-1", " a b ", "", "s0/0", "x\ny", "é", 7]
RESOURCES = ["cpu", "memory", "gpu", "tpu"]


def demands(truths: Mapping[str, User]) -> dict[str, Mapping[str, float]]:
    """Return the true demand of every user that lies."""
    return {name: user.demand for name, user in truths.items()}


@st.composite
def workbooks(draw: st.DrawFn) -> Workbook:
    """Return a workbook without steps, of one or two resources."""
    cluster, users = draw(problems(m=st.integers(1, 2), most_users=3))
    return Workbook(Scenario(cluster, tuple(users), title=draw(st.sampled_from(["", "A title"]))))


def steps(book: Workbook) -> st.SearchStrategy[Step]:
    """Return steps about what is in a workbook now, and a few about what is not."""
    scenario = book.scenario
    names = tuple(user.name for user in scenario.users)
    return _steps(tuple(scenario.cluster.names), names, tuple(book.truths))


@cache  # to make so many strategies takes longer than to draw from them
def _steps(
    group_names: tuple[str, ...], user_names: tuple[str, ...], liars: tuple[str, ...]
) -> st.SearchStrategy[Step]:
    groups = st.sampled_from([*group_names, "nowhere"])
    users = st.sampled_from([*user_names, "nobody"])
    resources = st.sampled_from(RESOURCES)
    amounts = st.dictionaries(resources, st.sampled_from(AMOUNTS), max_size=2)
    amount, count = st.sampled_from(AMOUNTS), st.sampled_from(COUNTS)
    servers, names = st.sampled_from(SERVERS), st.sampled_from(NAMES)
    good = st.fixed_dictionaries({"cpu": st.sampled_from(["1", "500m", 2])})
    labels = st.sampled_from(["", "zone=a", "zone=b, disk=x", "zone", {"zone": "b"}])
    return st.one_of(
        st.builds(SetServer, groups, resources, amount),
        st.builds(SetServer, groups, st.just("count"), count),
        st.builds(SetServer, groups, st.just("name"), names),
        st.builds(SetServer, groups, st.just("labels"), labels),
        st.builds(AddServer, st.one_of(st.none(), names), amounts, count, labels),
        st.builds(RemoveServer, groups),
        st.builds(SetUser, users, resources, amount),
        st.builds(SetUser, users, st.sampled_from(["weight", "tasks"]), amount),
        st.builds(SetUser, users, st.just("servers"), servers),
        st.builds(SetUser, users, st.sampled_from(["name", "parent"]), names),
        st.builds(AddUser, names, amounts, amount, amount, servers),
        st.builds(AddUser, st.sampled_from(["eve", "dan"]), good, tasks=amount),
        st.builds(RemoveUser, users),
        st.builds(
            LieStep,
            users,
            st.one_of(amounts, st.just(SAME)),
            st.one_of(amount, st.just(SAME)),
            st.one_of(servers, st.just(SAME)),
        ),
        st.builds(LieStep, users, good),
        st.builds(TrueValueStep, st.sampled_from([*liars, "u0"])),
    )
