"""A live cluster to look at: what the controller would see, without touching anything."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drfh.engines.cache import Mirror
from drfh.engines.slurm.client import Slurm
from drfh.engines.slurm.config import Site
from drfh.engines.slurm.reconcile import View, view
from drfh.engines.slurm.state import Picture, look
from drfh.policies import Policy

__all__ = ["Live", "observe", "understood"]


@dataclass(frozen=True)
class Live:
    """A moment of a cluster.

    Parameters
    ----------
    site
        How it is shared.
    picture
        What Slurm says.
    view
        What that means to us.
    mirror
        A brain that knows it.
    """

    site: Site
    picture: Picture
    view: View
    mirror: Mirror


def observe(
    slurm: Slurm, site: Site, policy: str | Policy | Mapping[str, Any] = "best-fit-drfh"
) -> Live:
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
    picture = look(nodes, jobs, time.time(), memory=site.memory, linear=site.linear)
    return understood(picture, site, policy)


def understood(
    picture: Picture, site: Site, policy: str | Policy | Mapping[str, Any] = "best-fit-drfh"
) -> Live:
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
    >>> understood(look([node], [], 0.0), Site()).mirror.scheduler.servers
    ('n0',)
    """
    seen = view(picture, site)
    mirror = Mirror(policy)
    mirror.follow(seen.wanted)
    return Live(site, picture, seen, mirror)
