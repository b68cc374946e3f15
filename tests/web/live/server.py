"""A live view of a made-up cluster, in a process of its own, with commands on its input.

``python tests/web/live/server.py NODES HOST`` prints where the page is; then each line of its input
is ``step`` (everything changes a little), ``first`` (everything is as at the start), ``old
SECONDS`` (no observation for so long), ``trouble TEXT``, or ``break`` (the page has a fault). It
prints ``done`` after each.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Any

from drfh.engines.slurm.cluster import SlurmCluster
from drfh.engines.snapshot import (
    BlockedCode,
    BlockedReason,
    ClusterSnapshot,
    NodeSnapshot,
    TaskSnapshot,
)
from drfh.engines.status import NodeStatus, Status, Total, UserStatus
from drfh.web.live.pending import Pending
from drfh.web.live.store import LiveStore

GIB = 2.0**30
SHAPES = ((8.0, 16.0), (16.0, 32.0), (32.0, 16.0), (64.0, 256.0))
USERS = ("ann", "bob", "<b>eve</b>", "a-user-with-quite-a-long-name", "zoe")
HELD = BlockedReason(BlockedCode.HELD_BY_OWNER, "held by its owner")
LONG_AGO = 1_700_000_000.0


def made_up(nodes: int, step: int = 0) -> Status:
    """Return a cluster; each step changes the shares of users and about a node in fifty."""
    listed = [_node(i, step) for i in range(nodes)]
    totals = {
        name: Total(sum(n.size[name] for n in listed), sum(n.used[name] for n in listed))
        for name in ("cpu", "memory")
    }
    users = tuple(_user(i, name, step) for i, name in enumerate(USERS))
    worst = min(users, key=lambda user: user.fulfilled or 0.0)
    distance = 1 - (worst.fulfilled or 0.0)
    when = time.time()
    return Status(when, "best-fit-drfh", users, totals, tuple(listed), distance, worst.name, {})


def _node(i: int, step: int) -> NodeStatus:
    cpu, memory = SHAPES[(i * len(SHAPES) // 7) % len(SHAPES)]
    size = {"cpu": cpu, "memory": memory * GIB}
    state = "down" if i % 97 == 5 else "closing" if i % 61 == 3 else "up"
    moved = step if (i + step) % 50 == 0 else 0
    part = ((i * 7 + moved * 3) % 9) / 8
    other = ((i * 3 + moved) % 5) / 4
    used = {"cpu": cpu * part, "memory": memory * GIB * other} if state != "down" else {}
    return NodeStatus(f"n{i}", state, size, {"cpu": 0.0, "memory": 0.0} | used, i % 4)


def _user(i: int, name: str, step: int) -> UserStatus:
    ideal = 0.1 + 0.05 * i
    share = ideal * (0.6 + 0.1 * ((step + i) % 5))
    aside = {HELD: 2} if i == 1 else {}
    return UserStatus(name, 1.0 + (i == 4), share, "cpu", share, ideal, i == 2, 10 + step + i, 0,
                      5 * i, int(i == 3), aside)  # fmt: skip


def waits() -> list[Pending]:
    why = "waits: it needs 64 cpu; the 7 servers of 64 cpu have at most 8 cpu free."
    return [
        Pending("bob", 5, 0, {HELD: 2}, {"12": f"job 12 of bob {why}"}),
        Pending("<b>eve</b>", 10, 0, {}, {"13": f"job 13 of <b>eve</b> {why}"}),
    ]


def snapshot() -> ClusterSnapshot:
    there = NodeSnapshot({"cpu": 8.0}, {"cpu": 8.0})
    tasks = {str(i): TaskSnapshot("ann", {"cpu": 1.0}, (i, 0), on="n1") for i in range(12)}
    return ClusterSnapshot({"n1": there}, tasks)


def main(nodes: int, host: str) -> None:
    from drfh.web.live.page import LivePage, live_server

    feed = LiveStore(
        "sandbox", "best-fit-drfh places jobs by user, in all partitions", cluster_type=SlurmCluster
    )
    for past in range(40):
        status = made_up(4, past)
        feed.update(replace(status, time=status.time - 60 + past))
    feed.update(made_up(nodes), waits(), snapshot())
    feed.note("the made-up cluster has started")
    feed.update(made_up(nodes), waits(), snapshot())
    with live_server(feed, host=host) as site:
        print(site.address.url, flush=True)
        step = 0
        for line in sys.stdin:
            word, _, rest = line.strip().partition(" ")
            if word == "step":
                step += 1
                feed.update(made_up(nodes, step), waits(), snapshot())
            elif word == "old":
                feed.update(replace(made_up(nodes), time=time.time() - float(rest)))
            elif word == "trouble":
                feed.trouble(rest)
            elif word == "break":
                broken: Any = _broken
                LivePage._show = broken  # type: ignore[method-assign]
                feed.trouble("whatever")
            elif word == "first":
                if step:
                    time.sleep(1.1)  # a point of the past is a second at least
                step = 0
                feed.update(made_up(nodes), waits(), snapshot())
            print("done", flush=True)


def _broken(self: Any, now: Any) -> None:
    raise RuntimeError("made up")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
