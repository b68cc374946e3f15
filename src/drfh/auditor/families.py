"""Families of clusters on which a loss grows without bound."""

from __future__ import annotations

from drfh.errors import InputError
from drfh.model.cluster import Cluster, Server
from drfh.model.scenario import Scenario
from drfh.model.users import User

__all__ = ["little_used", "skewed"]


def little_used(n: int) -> Scenario:
    """Return a cluster of which DRFH, and per-server DRF too, use about 2/n of the memory.

    A server with much memory, a server with much CPU; one user that needs memory, and n that need
    CPU. All could run: `utilitarian` and `nash` fill both resources. But the n users are equal to
    the one, so it stops with them, and what it leaves is of no use to anybody else.

    Examples
    --------
    >>> from drfh import allocate
    >>> for n in (10, 100):
    ...     case = little_used(n)
    ...     for mechanism in ("drfh", "per-server-drf"):
    ...         used = allocate(case.cluster, case.users, mechanism=mechanism).utilisation
    ...         print(n, mechanism, round(used["memory"], 3))
    10 drfh 0.198
    10 per-server-drf 0.182
    100 drfh 0.02
    100 per-server-drf 0.02
    """
    _check(n)
    cluster = Cluster(
        [
            Server({"cpu": 1, "memory": n}, name="memory-heavy"),
            Server({"cpu": n, "memory": 1}, name="cpu-heavy"),
        ]
    )
    data = User("data", {"cpu": 1 / n, "memory": 1})
    others = [User(f"c{i + 1}", {"cpu": 1, "memory": 1 / n}) for i in range(n)]
    return Scenario(cluster, (data, *others), title=f"{n} users leave the memory idle")


def skewed(n: int) -> Scenario:
    """Return a cluster on which a user has 4/n of what half of every server would give it.

    Examples
    --------
    >>> from drfh import allocate
    >>> case = skewed(1000)
    >>> round(allocate(case.cluster, case.users).tasks["a"], 4)  # half of every server: 0.5
    0.002
    """
    _check(n)
    e = 1 / n
    cluster = Cluster(
        [
            Server({"cpu": 1 - e, "memory": e}, name="cpu-heavy"),
            Server({"cpu": e, "memory": 1 - e}, name="memory-heavy"),
        ]
    )
    users = (User("a", {"cpu": 1, "memory": e}), User("b", {"cpu": 1, "memory": 1}))
    return Scenario(cluster, users, title=f"Servers skewed 1 to {n}")


def _check(n: int) -> None:
    if not isinstance(n, int) or isinstance(n, bool) or n < 2:
        raise InputError("n", "must be a whole number ≥ 2", n)
