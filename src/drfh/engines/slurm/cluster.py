"""A live cluster to look at: what the controller would see, without touching anything."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drfh.engines.cache import SchedulerCache
from drfh.engines.slurm.client import Slurm
from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.reconcile import Reconciliation, reconcile
from drfh.engines.slurm.state import SlurmState, read_state
from drfh.policies import Policy

__all__ = ["SlurmCluster", "observe", "understood"]


@dataclass(frozen=True)
class SlurmCluster:
    """A moment of a cluster.

    Parameters
    ----------
    site
        How it is shared.
    picture
        What Slurm says.
    view
        What that means to us.
    cache
        A brain that knows it.
    """

    site: SlurmConfig
    picture: SlurmState
    view: Reconciliation
    cache: SchedulerCache


def observe(
    slurm: Slurm, site: SlurmConfig, policy: str | Policy | Mapping[str, Any] = "best-fit-drfh"
) -> SlurmCluster:
    """Look at a cluster once.

    Parameters
    ----------
    slurm
        Its commands.
    site
        How it is shared.
    policy
        By which the brain would decide.
    """
    nodes, jobs = slurm.nodes(), slurm.jobs()
    picture = read_state(nodes, jobs, time.time(), memory=site.memory, linear=site.linear)
    return understood(picture, site, policy)


def understood(
    picture: SlurmState,
    site: SlurmConfig,
    policy: str | Policy | Mapping[str, Any] = "best-fit-drfh",
) -> SlurmCluster:
    """Return what a look at a cluster means.

    Parameters
    ----------
    picture
        The look.
    site, policy
        As for :func:`observe`.

    Examples
    --------
    >>> node = {"name": "n0", "cpus": 4, "real_memory": 1024, "state": "idle", "partitions": ["a"]}
    >>> understood(read_state([node], [], 0.0), SlurmConfig()).cache.scheduler.servers
    ('n0',)
    """
    seen = reconcile(picture, site)
    cache = SchedulerCache(policy)
    cache.follow(seen.snapshot)
    return SlurmCluster(site, picture, seen, cache)
