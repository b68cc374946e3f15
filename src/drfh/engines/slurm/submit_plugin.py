"""The job submit plugin: ``job_submit.lua``, which slurmctld runs on requests of users.

Its text is in the file ``job_submit.lua`` here, with ``$name`` for what depends on the cluster. A
job of a managed partition is held when it is submitted, and what its owner may change then is
what cannot start it or move it. Root and SlurmUser, and so the controller, may change everything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from drfh.engines.slurm.state import DEFERRED_UNTIL, FLAGS, HELD_UNTIL, PREFIX
from drfh.errors import InputError
from drfh.wire.slurm.scontrol import slurm_user, submit_plugins

__all__ = ["installation", "plugin_source", "trusted_uids"]

_TEMPLATE = Path(__file__).with_name("job_submit.lua")
_MAX_UID = 2**32 - 3  # the two above it mean "nobody" and "not given"


def plugin_source(
    partitions: Sequence[str] = (),
    trusted: Sequence[int] = (0,),
    *,
    directory: str = "/etc/slurm",
    plugins: Sequence[str] = (),
) -> str:
    """Return the text of ``job_submit.lua``.

    Parameters
    ----------
    partitions
        The partitions whose jobs drfh places; none named: all.
    trusted
        User ids that may change everything about every job: root, SlurmUser.
    directory
        Where slurm.conf is, for the instructions at the top.
    plugins
        What JobSubmitPlugins has now, for the instructions at the top.

    Examples
    --------
    >>> script = plugin_source(["main"], [0, 64030])
    >>> print(*(line for line in script.splitlines() if "[64030]" in line or '["main"]' in line))
    local DRFH_PARTITIONS = {["main"] = true} local DRFH_TRUSTED = {[0] = true, [64030] = true}
    """
    for name in partitions:
        if not re.fullmatch(r"[^\s,\x00-\x1f\x7f]+", name):
            raise InputError("partitions", "must be names without spaces and commas", name)
    for uid in trusted:
        if not 0 <= uid <= _MAX_UID:
            raise InputError("trusted", f"must be user ids from 0 to {_MAX_UID}", uid)
    names = [f"[{_quoted(name)}] = true" for name in dict.fromkeys(partitions)]
    setting = ",".join([*(plugin for plugin in plugins if plugin != "lua"), "lua"])
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        what="jobs of " + ", ".join(dict.fromkeys(partitions)) if partitions else "all jobs",
        partitions="{" + ", ".join(names) + "}" if names else "nil",
        trusted="{" + ", ".join(f"[{uid}] = true" for uid in dict.fromkeys(trusted)) + "}",
        mark=_quoted(PREFIX),
        held=_quoted(";" + FLAGS["held"]),
        deferred=_quoted(";" + FLAGS["deferred"]),
        held_until=HELD_UNTIL,
        deferred_until=DEFERRED_UNTIL,
        path=f"{directory.rstrip('/')}/job_submit.lua",
        conf=f"{directory.rstrip('/')}/slurm.conf",
        setting=f"JobSubmitPlugins={setting}",
        now=f"  (now: {','.join(plugins)})" if plugins else "",
    )


def installation(config: Mapping[str, str], partitions: Sequence[str] = ()) -> str:
    """Return ``job_submit.lua`` for a cluster, with how to install it there at its top.

    Parameters
    ----------
    config
        What ``scontrol show config`` says: names to values.
    partitions
        The partitions whose jobs drfh places; none named: all.

    Examples
    --------
    >>> config = {"SLURM_CONF": "/opt/slurm/slurm.conf", "SlurmUser": "slurm(64030)"}
    >>> text = installation({**config, "JobSubmitPlugins": "(null)"}, ["main"])
    >>> "/opt/slurm/job_submit.lua" in text, "[64030] = true" in text
    (True, True)
    """
    directory = config.get("SLURM_CONF", "/etc/slurm/slurm.conf").rpartition("/")[0]
    return plugin_source(
        partitions,
        trusted_uids(config),
        directory=directory or "/",
        plugins=submit_plugins(config),
    )


def trusted_uids(config: Mapping[str, str]) -> tuple[int, ...]:
    """Return the user ids of root and of SlurmUser, from what ``scontrol show config`` says.

    Examples
    --------
    >>> trusted_uids({"SlurmUser": "slurm(64030)"}), trusted_uids({"SlurmUser": "root(0)"})
    ((0, 64030), (0,))
    """
    return tuple(dict.fromkeys((0, slurm_user(config)[1])))


def _quoted(text: str) -> str:
    """Return a string of Lua: of JSON's escapes, those that names can need mean the same there."""
    return json.dumps(text, ensure_ascii=False)
