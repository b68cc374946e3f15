"""What-if edits of a scenario: names follow what they name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drfh import AddServers, Cluster, InputError, Job, RemoveServers, Scenario, Server, User
from drfh.model.edits import ReportedScenario, add_user, claim, remove_servers, set_user

TEAM = Scenario(
    Cluster(
        [
            Server({"cpu": 8, "memory": 64}, name="big", count=4, labels={"zone": "a"}),
            Server({"cpu": 2, "memory": 4}, name="small", count=2),
        ]
    ),
    (
        User("ann", {"cpu": 1, "memory": 2}, servers=["small", "big"]),
        User("bob", {"cpu": 0.5}, weight=2, tasks=10, servers=["small/1", "big/3", {"zone": "a"}]),
    ),
    jobs=(Job("ann", duration=60, servers=["big", "small/0"]),),
    events=(RemoveServers(30, "small/1"),),
)


def test_what_names_a_removed_server_no_longer_does() -> None:
    after = remove_servers(ReportedScenario(TEAM), "small").scenario
    assert [user.servers for user in after.users] == [("big",), ("big/3", {"zone": ("a",)})]
    assert after.jobs[0].servers == ("big",)
    assert after.events == ()
    fewer = remove_servers(ReportedScenario(TEAM), "small", 1).scenario
    assert fewer.users[1].servers == ("big/3", {"zone": ("a",)})
    assert fewer.users[0].servers == ("small", "big")


def test_servers_that_come_later_keep_their_name() -> None:
    later = AddServers(60, Server({"cpu": 1, "memory": 1}, name="late"))
    state = ReportedScenario(replace(TEAM, events=(later,)))
    assert remove_servers(state, "small").scenario.events == (later,)


def test_a_renamed_user_keeps_its_jobs_and_its_true_values() -> None:
    state = claim(ReportedScenario(TEAM), "ann", demand={"cpu": 2})
    state = set_user(state, "ann", replace(state.user("ann"), name="eve"))
    assert state.scenario.jobs[0].user == "eve"
    assert state.true_user("eve").demand == {"cpu": 1.0, "memory": 2.0}
    with pytest.raises(InputError, match="name must be unique"):
        add_user(state, User("bob", {"cpu": 1}))
