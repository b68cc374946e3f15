"""Compile every kernel once, so that the first real call finds machine code on disk.

The install step runs ``python -m drfh.warm``.
"""

from __future__ import annotations

from drfh.cluster import Cluster, Server
from drfh.mechanisms import allocate
from drfh.workload import User

__all__ = ["warm_up"]


def warm_up() -> None:
    """Load numba and send a tiny problem through every kernel.

    From then on, in this process, all sizes take the compiled twins.
    """
    import numba  # noqa: F401  (its presence is what selects the compiled twins)

    cluster = Cluster(
        [Server({"cpu": 2, "memory": 12, "gpu": 1}), Server({"cpu": 12, "memory": 2, "gpu": 2})]
    )
    two = [User("a", {"cpu": 0.2, "memory": 1}), User("b", {"cpu": 1, "memory": 0.2})]
    three = [*two, User("c", {"cpu": 1, "memory": 1, "gpu": 1})]
    allocate(cluster, two)
    allocate(cluster, two, whole_tasks=True)
    allocate(cluster, two, mechanism="ps-dsf")
    allocate(cluster, three, method="interior-point")


if __name__ == "__main__":
    warm_up()
