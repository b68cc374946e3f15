"""Configuration of drfh for a Slurm cluster: options, weights file, Slurm's own settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from drfh.engines.slurm.state import SlurmJob
from drfh.errors import InputError
from drfh.files.atomic import read_text
from drfh.files.yaml import parse, plain
from drfh.model.cluster import check_name
from drfh.model.users import parse_weight

__all__ = ["LOCK_NAME", "SlurmConfig", "config_of", "lock_path", "read_weights"]

#: The lock file of the controller, beside Slurm's own state.
LOCK_NAME = "drfh.lock"


@dataclass(frozen=True)
class SlurmConfig:
    """How a Slurm cluster is shared.

    Parameters
    ----------
    user_by
        Who shares: ``user``, ``account`` or ``partition``.
    weights
        Of those; 1 where not named.
    partitions
        Which partitions drfh manages; empty: all.
    hold_by
        Who puts new jobs under the hold: ``plugin`` (job_submit.lua) or ``controller``.
    memory, linear
        Of Slurm's configuration: see :func:`drfh.engines.slurm.state.read_state`.

    Examples
    --------
    >>> SlurmConfig(weights={"physics": 2.0}, user_by="account").weights
    {'physics': 2.0}
    """

    user_by: str = "user"
    weights: Mapping[str, float] = field(default_factory=dict)
    partitions: tuple[str, ...] = ()
    hold_by: str = "plugin"
    memory: bool = True
    linear: bool = False

    @property
    def hold(self) -> str:
        """The kind of hold that is drfh's: ``user`` or ``admin``, as Slurm calls it."""
        return "user" if self.hold_by == "plugin" else "admin"

    def manages(self, job: SlurmJob) -> bool:
        """Return whether a job could run in a managed partition, without a reservation."""
        if job.reserved:
            return False
        return not self.partitions or any(name in self.partitions for name in job.partitions)


def read_weights(path: Path) -> dict[str, float]:
    """Read a weights file: YAML or JSON, one ``name: weight`` for each user or account."""
    place = str(path)
    document = parse(read_text(place), place)
    data = plain(document.root)
    if not isinstance(data, dict):
        raise InputError("weights", "must be lines such as physics: 2", place=place)
    weights: dict[str, float] = {}
    for name, value in data.items():
        try:
            check_name(str(name), "a name")
            weights[str(name)] = parse_weight(value, str(name))
        except InputError as error:
            raise document.at(error) from None
    return weights


def config_of(
    configuration: Mapping[str, str],
    *,
    user_by: str = "user",
    weights: Mapping[str, float] | None = None,
    partitions: tuple[str, ...] = (),
    hold_by: str = "plugin",
) -> SlurmConfig:
    """Return how a Slurm cluster with this configuration is shared.

    Parameters
    ----------
    configuration
        What ``scontrol show config`` says.
    user_by, weights, partitions, hold_by
        As in :class:`SlurmConfig`.

    Examples
    --------
    >>> config_of({"SelectType": "select/cons_tres", "SelectTypeParameters": "CR_CPU"}).memory
    False
    """
    select = configuration.get("SelectType", "")
    parameters = configuration.get("SelectTypeParameters", "").upper()
    return SlurmConfig(
        user_by=user_by,
        weights=dict(weights or {}),
        partitions=partitions,
        hold_by=hold_by,
        memory="MEMORY" in parameters,
        linear=select == "select/linear",
    )


def lock_path(configuration: Mapping[str, str]) -> Path:
    """Return the path of the lock of a cluster's controller.

    Examples
    --------
    >>> lock_path({"StateSaveLocation": "/var/spool/slurmctld"})
    PosixPath('/var/spool/slurmctld/drfh.lock')
    """
    directory = configuration.get("StateSaveLocation", "")
    if not directory:
        raise InputError("StateSaveLocation", "must be in what scontrol show config says")
    return Path(directory) / LOCK_NAME
