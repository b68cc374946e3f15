"""Options of ``drfh slurm``, and the connection to its cluster."""

from __future__ import annotations

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
    from drfh.engines.snapshot import ClusterSnapshot

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
            **self.sharing,
            "weights": dict(config.weights),
            "hold_by": config.hold_by,
        }

    @property
    def user_by(self) -> str:
        """Who shares it: ``user``, ``account`` or ``partition``."""
        return self.config.user_by

    @property
    def sharing(self) -> dict[str, Any]:
        """How it is shared, for the header of a journal."""
        return {"user_by": self.config.user_by, "partitions": list(self.config.partitions)}

    @property
    def cluster_type(self) -> type[SlurmCluster]:
        """The class of what it observes."""
        from drfh.engines.slurm.cluster import SlurmCluster

        return SlurmCluster

    def observe(self) -> SlurmCluster:
        """Read its state once."""
        from drfh.engines.slurm.cluster import observe

        return observe(self.slurm, self.config, self.policy)

    def snapshot(self) -> ClusterSnapshot:
        """Read it with all jobs that Slurm's own scheduler would start."""
        from drfh.engines.slurm.cluster import snapshot_of_all

        return snapshot_of_all(self.slurm, self.config)


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
    from drfh.engines.engine import ControllerFacts
    from drfh.engines.slurm.client import Slurm
    from drfh.engines.slurm.config import config_of, lock_path
    from drfh.engines.weights import read_weights
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
    try:
        controller = ControllerFacts.read(lock_path(configuration))
    except InputError:  # Slurm does not say where its state is
        controller = ControllerFacts(None, {})
    known = ControllerFacts(None, {}) if afresh else controller
    config = config_of(
        configuration,
        user_by=user_by or known.one_of("user_by", _USER_KINDS, "user"),
        weights=known.weights() if own is None else own,
        partitions=named or known.names("partitions"),
        hold_by=hold_by or known.one_of("hold_by", ("plugin", "controller"), "plugin"),
    )
    return SlurmConnection(
        slurm, config, policy or known.policy(DEFAULT_POLICY), controller, configuration
    )


def partition_names(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the partitions of an option that may be given again, or have commas.

    Examples
    --------
    >>> partition_names(["main,gpu", "long"])
    ('main', 'gpu', 'long')
    """
    names = [part.strip() for text in given or () for part in text.split(",")]
    return tuple(dict.fromkeys(name for name in names if name))
