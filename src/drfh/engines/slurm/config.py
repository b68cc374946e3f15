"""Configuration of drfh for a Slurm cluster, and what Slurm's own settings must be."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from drfh.engines.lock import ControllerLock
from drfh.engines.slurm.state import SlurmJob
from drfh.errors import InputError
from drfh.wire.slurm.scontrol import slurm_user, submit_plugins

__all__ = [
    "LOCK_NAME",
    "SlurmConfig",
    "check_plugin",
    "check_rights",
    "config_of",
    "controller_lock",
    "lock_path",
]

#: The lock file of the controller, beside Slurm's own state.
LOCK_NAME = "drfh.lock"
_LOCK_HINT = "run it where slurmctld runs, as root or SlurmUser"


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


def controller_lock(configuration: Mapping[str, str], path: Path | None = None) -> ControllerLock:
    """Return the lock of a cluster's controller, at another path if one is given."""
    return ControllerLock(path or lock_path(configuration), _LOCK_HINT)


def check_rights(configuration: Mapping[str, str]) -> None:
    """Raise unless this process may hold, place and release the jobs of others.

    Parameters
    ----------
    configuration
        What ``scontrol show config`` says.
    """
    user = slurm_user(configuration)[0] if "SlurmUser" in configuration else ""
    own = os.geteuid()
    try:
        name = pwd.getpwuid(own).pw_name
    except KeyError:
        name = str(own)
    if own != 0 and name != user:
        rule = f"must be root or {user or 'SlurmUser'}, who may release jobs of others"
        raise InputError("the user who runs this", rule, name)


def check_plugin(configuration: Mapping[str, str]) -> None:
    """Raise unless Slurm puts new jobs under a hold by itself.

    Examples
    --------
    >>> check_plugin({"JobSubmitPlugins": "lua"})
    """
    plugins = submit_plugins(configuration)
    if "lua" not in plugins:
        rule = (
            "must have lua, with the script of drfh slurm install --print "
            "(or say --hold-by controller)"
        )
        raise InputError("JobSubmitPlugins of slurm.conf", rule, ",".join(plugins) or "(null)")
