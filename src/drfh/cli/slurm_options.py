"""Options that all of ``drfh slurm`` share, and where they come from if they are left out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from drfh.errors import InputError

if TYPE_CHECKING:
    from drfh.engines.slurm.commands import Slurm
    from drfh.engines.slurm.site import Site
    from drfh.policies import Policy

__all__ = [
    "Json",
    "Opened",
    "Partitions",
    "PolicyName",
    "UserBy",
    "Weights",
    "open_site",
    "partition_names",
]

_USERS = ("user", "account", "partition")

PolicyName = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        envvar="DRFH_SLURM_POLICY",
        help="The policy that decides, such as best-fit-drfh (the default) or slots:14.",
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        envvar="DRFH_SLURM_WEIGHTS",
        help="A file of lines such as physics: 2; everybody else has weight 1.",
    ),
]
UserBy = Annotated[
    str | None,
    typer.Option(
        metavar="user|account|partition",
        envvar="DRFH_SLURM_USER_BY",
        help="Who shares the cluster (default: user).",
    ),
]
Partitions = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        metavar="NAME",
        envvar="DRFH_SLURM_PARTITIONS",
        help="A partition that drfh manages; may be given again. All of them if left out.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class Opened(NamedTuple):
    """How a cluster is shared.

    `facts` is what the lock of the controller says of it; `controller` are those of a running one.
    """

    site: Site
    policy: Policy
    facts: dict[str, Any]
    controller: Mapping[str, Any] | None

    @property
    def policy_name(self) -> str:
        """Name of the policy."""
        return str(self.policy.name)


def partition_names(given: list[str] | None) -> tuple[str, ...]:
    """Return the partitions of an option that may be given again, or have commas.

    Examples
    --------
    >>> partition_names(["main,gpu", "long"])
    ('main', 'gpu', 'long')
    """
    names = [name.strip() for text in given or () for name in text.split(",")]
    return tuple(dict.fromkeys(name for name in names if name))


def open_site(
    slurm: Slurm,
    configuration: Mapping[str, str],
    policy: str | None,
    weights: Path | None,
    user_by: str | None,
    partitions: list[str] | None,
    *,
    hold_by: str | None = None,
    own: bool = False,
) -> Opened:
    """Return how a cluster is shared: by options, else as the controller that runs does it.

    Parameters
    ----------
    slurm, configuration
        The cluster, and what ``scontrol show config`` says of it.
    policy, weights, user_by, partitions, hold_by
        The options; None if left out.
    own
        This is the controller: what another one does, or did, does not count.
    """
    from drfh.engines.lock import ControllerLock, is_running
    from drfh.engines.slurm.site import lock_path, read_weights, site_of
    from drfh.policies import find_policy

    running: dict[str, Any] | None = None
    if not own:
        try:
            running = ControllerLock.read(lock_path(configuration))
        except InputError:
            running = None  # not everybody may look there
        if running is not None and is_running(running) is False:
            running = None
    told = running or {}
    who = user_by or str(told.get("user_by", "user"))
    if who not in _USERS:
        raise InputError("--user-by", f"must be one of {', '.join(_USERS)}", who)
    chosen = find_policy(policy or str(told.get("policy", "best-fit-drfh")))
    given = read_weights(weights) if weights is not None else dict(told.get("weights", {}))
    names = partition_names(partitions) or tuple(told.get("partitions", ()))
    site = site_of(
        configuration,
        user_by=who,
        weights=given,
        partitions=names,
        hold_by=hold_by or str(told.get("hold_by", "plugin")),
    )
    facts = {
        "policy": chosen.name,
        "user_by": site.user_by,
        "weights": dict(site.weights),
        "partitions": list(site.partitions),
        "hold_by": site.hold_by,
    }
    return Opened(site, chosen, facts, running)
