"""Options of ``drfh slurm``, and the connection to its cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drfh.cli.cluster.web import WEB_HOST, WEB_PORT
from drfh.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from drfh.engines.engine import ControllerFacts
    from drfh.engines.slurm.client import Slurm
    from drfh.engines.slurm.cluster import SlurmCluster
    from drfh.engines.slurm.config import SlurmConfig

__all__ = [
    "JsonOption",
    "PartitionOption",
    "PolicyOption",
    "SlurmConnection",
    "UserByOption",
    "WebHostOption",
    "WebOption",
    "WebPortOption",
    "WeightsOption",
    "connect",
    "controller_facts",
    "partition_names",
]  # fmt: skip

DEFAULT_POLICY = "best-fit-drfh"
_USER_KINDS = ("user", "account", "partition")
_PANEL = "Site (what looks has it from the controller that runs)"
_WEB_PANEL = "Live view"

PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        envvar="DRFH_SLURM_POLICY",
        rich_help_panel=_PANEL,
        help=f"Who is next, and where; else {DEFAULT_POLICY}.",
    ),
]
WeightsOption = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="FILE",
        envvar="DRFH_SLURM_WEIGHTS",
        rich_help_panel=_PANEL,
        help="YAML or JSON with lines such as physics: 2; else all count 1.",
    ),
]
UserByOption = Annotated[
    str | None,
    typer.Option(
        "--user-by",
        metavar="|".join(_USER_KINDS),
        envvar="DRFH_SLURM_USER_BY",
        rich_help_panel=_PANEL,
        help="Who shares; else user.",
    ),
]
PartitionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        metavar="NAME",
        envvar="DRFH_SLURM_PARTITIONS",
        rich_help_panel=_PANEL,
        help="A partition that drfh manages, again for more; else all. Commas work, too.",
    ),
]
WebOption = Annotated[
    bool,
    typer.Option(
        "--web",
        rich_help_panel=_WEB_PANEL,
        help=f"Show the cluster in a browser, on port {WEB_PORT} of {WEB_HOST}.",
    ),
]
WebPortOption = Annotated[
    int | None,
    typer.Option(
        "--web-port",
        metavar="PORT",
        envvar="DRFH_SLURM_WEB_PORT",
        rich_help_panel=_WEB_PANEL,
        help="The same on another port (0: any free one).",
    ),
]
WebHostOption = Annotated[
    str | None,
    typer.Option(
        "--web-host",
        metavar="ADDRESS",
        envvar="DRFH_SLURM_WEB_HOST",
        rich_help_panel=_WEB_PANEL,
        help="The same on another address; one that others can reach needs the token that is "
        "printed at the start.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True, slots=True)
class SlurmConnection:
    """A Slurm cluster, and how it is shared.

    Attributes
    ----------
    slurm, config : Slurm, SlurmConfig
        Its commands, and how it is shared.
    policy : str or mapping
        By which it is shared.
    controller : ControllerFacts
        Who schedules it.
    configuration : mapping
        What ``scontrol show config`` says.
    """

    slurm: Slurm
    config: SlurmConfig
    policy: str | Mapping[str, Any]
    controller: ControllerFacts
    configuration: Mapping[str, str]

    @property
    def name(self) -> str:
        """What Slurm calls the cluster."""
        return self.configuration.get("ClusterName", "Slurm")

    @property
    def facts(self) -> dict[str, Any]:
        """What a controller writes into its lock."""
        from drfh.policies import find_policy

        config = self.config
        return {
            "policy": find_policy(self.policy).name,
            "user_by": config.user_by,
            "weights": dict(config.weights),
            "partitions": list(config.partitions),
            "hold_by": config.hold_by,
        }

    @property
    def user_by(self) -> str:
        """Who shares it: ``user``, ``account`` or ``partition``."""
        return self.config.user_by

    def observe(self) -> SlurmCluster:
        """Read its state once."""
        from drfh.engines.slurm.cluster import observe

        return observe(self.slurm, self.config, self.policy)


def connect(
    policy: str | None = None,
    weights: str | None = None,
    user_by: str | None = None,
    partitions: Sequence[str] | None = None,
    *,
    hold_by: str | None = None,
    afresh: bool = False,
    environment: Mapping[str, str] | None = None,
) -> SlurmConnection:
    """Connect to the cluster; what is not given is as its controller has it, or the default.

    Parameters
    ----------
    policy, weights, user_by, partitions
        As on the command line: a name, a file, ``user`` and so on, names.
    hold_by
        Who puts new jobs under the hold, as :class:`~drfh.engines.slurm.config.SlurmConfig` has it.
    afresh
        Whatever another controller has it.
    environment
        Of Slurm's commands; by default that of this process.
    """
    from drfh.engines.slurm.client import Slurm
    from drfh.engines.slurm.config import config_of, read_weights
    from drfh.policies import find_policy

    # Errors of the options come before errors of the cluster.
    if user_by is not None and user_by not in _USER_KINDS:
        raise UnknownNameError("--user-by", user_by, _USER_KINDS)
    if policy is not None:
        find_policy(policy)
    own = None if weights is None else read_weights(Path(weights))
    named = partition_names(partitions)
    slurm = Slurm(environment)
    configuration = slurm.configuration()
    controller = controller_facts(configuration)
    known = _RecordedFacts({} if afresh else controller.facts)
    config = config_of(
        configuration,
        user_by=user_by or known.one_of("user_by", _USER_KINDS, "user"),
        weights=known.weights() if own is None else own,
        partitions=named or known.names("partitions"),
        hold_by=hold_by or known.one_of("hold_by", ("plugin", "controller"), "plugin"),
    )
    return SlurmConnection(slurm, config, policy or known.policy(), controller, configuration)


def controller_facts(configuration: Mapping[str, str]) -> ControllerFacts:
    """Return what can be known of the controller of a cluster from its lock.

    Examples
    --------
    >>> controller_facts({"StateSaveLocation": "/no/such/place"}).running is None
    True
    """
    from drfh.engines.engine import ControllerFacts
    from drfh.engines.lock import ControllerLock, is_running
    from drfh.engines.slurm.config import lock_path

    try:
        path = lock_path(configuration)
        facts = ControllerLock.read(path)
    except InputError:  # it is not for everybody to read
        return ControllerFacts(None, {})
    if facts is not None:
        return ControllerFacts(is_running(facts), facts)
    # Slurm's state is a folder of the host of slurmctld: elsewhere nothing can be known.
    visible = os.access(path.parent, os.R_OK | os.X_OK)
    return ControllerFacts(False if visible else None, {})


class _RecordedFacts:
    """Facts that a controller wrote into its lock; those of a wrong type count as absent."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts = facts

    def one_of(self, key: str, known: Sequence[str], default: str) -> str:
        found = self.facts.get(key)
        return found if isinstance(found, str) and found in known else default

    def names(self, key: str) -> tuple[str, ...]:
        found = self.facts.get(key)
        return tuple(map(str, found)) if isinstance(found, list) else ()

    def policy(self) -> str | Mapping[str, Any]:
        found = self.facts.get("policy")
        return found if isinstance(found, str | dict) and found else DEFAULT_POLICY

    def weights(self) -> dict[str, float]:
        from drfh.engines.slurm.config import read_weights
        from drfh.model.users import parse_weight

        found = self.facts.get("weights")
        if isinstance(found, str) and found:
            return read_weights(Path(found))
        if not isinstance(found, dict):
            return {}
        return {str(name): parse_weight(value, str(name)) for name, value in found.items()}


def partition_names(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the partitions of an option that may be given again, or have commas.

    Examples
    --------
    >>> partition_names(["main,gpu", "long"])
    ('main', 'gpu', 'long')
    """
    names = [part.strip() for word in given or () for part in word.split(",")]
    return tuple(dict.fromkeys(name for name in names if name))
