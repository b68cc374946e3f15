"""The Slurm controller as a service, and what must hold before it starts."""

from __future__ import annotations

import logging
import os
import pwd
import time
from collections import Counter
from collections.abc import Callable, Mapping

from drfh.engines.lifecycle import Stoppable
from drfh.engines.observer import CycleFailure, notify
from drfh.engines.slurm import actions
from drfh.engines.slurm.client import Slurm, SlurmError
from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.controller import Controller, SlurmCycle
from drfh.engines.slurm.state import read_state
from drfh.errors import InputError
from drfh.wire.slurm.scontrol import is_about_ended_job, slurm_user

__all__ = ["Service", "check_plugin", "check_rights", "release_all"]

log = logging.getLogger(__name__)

_MIN_PAUSE = 0.05
_MAX_PAUSE = 30.0


class Service(Stoppable):
    """Runs cycles of a controller until it is stopped, whatever fails.

    Parameters
    ----------
    controller
        Its observers get each cycle, or its failure.
    interval
        Seconds between two cycles while nothing happens.
    check
        Called before each cycle; it raises if the controller must not go on.
    """

    def __init__(
        self,
        controller: Controller,
        *,
        interval: float = 1.0,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self.controller, self.interval, self.check = controller, interval, check
        self.cycles = 0
        self.failures = 0  # in a row
        self._idle_pause = interval
        self._broken: frozenset[str] = frozenset()  # logged, as long as it is so

    def run(self, cycles: int | None = None) -> None:
        """Run until stopped, or for so many cycles."""
        while not self.stop_requested.is_set() and (cycles is None or self.cycles < cycles):
            self.check()
            cycle = self._run_cycle()
            self.cycles += 1
            if cycles is None or self.cycles < cycles:
                self.stop_requested.wait(self._pause(cycle))

    def _run_cycle(self) -> SlurmCycle | None:
        try:
            cycle = self.controller.cycle()
        except SlurmError as error:
            self._failed(error)
            return None
        except Exception as error:
            # Whatever it is, the cluster must go on: all that is known can be read from Slurm.
            self._failed(error, internal=True)
            self.controller.forget()
            return None
        self._log(cycle)
        self.failures = 0
        notify(self.controller.observers, lambda observer: observer.on_cycle(cycle))
        return cycle

    def _failed(self, error: Exception, *, internal: bool = False) -> None:
        self.failures += 1
        failure = CycleFailure(error, self.failures, internal)
        log.warning(
            "cycle aborted failures=%(failures)d error=%(error)s",
            {"failures": self.failures, "error": failure.text},
            exc_info=error if internal and log.isEnabledFor(logging.DEBUG) else None,
        )
        notify(self.controller.observers, lambda observer: observer.on_failure(failure))

    def _log(self, cycle: SlurmCycle) -> None:
        if self.failures:
            log.info("cycles resumed failures=%(failures)d", {"failures": self.failures})
        for name, message in cycle.failed.items():
            fields = {"job": name or "unknown", "error": message}
            log.warning("change refused job=%(job)s error=%(error)s", fields)
        for line in cycle.state.broken:
            if line not in self._broken:
                log.warning("entry skipped error=%(error)s", {"error": line})
        self._broken = frozenset(cycle.state.broken)
        for name, reason in cycle.recalled.items():
            fields = {"job": name, "code": reason.code.value, "reason": str(reason)}
            log.info("job recalled job=%(job)s code=%(code)s reason=%(reason)s", fields)
        if cycle.placed:
            users = Counter(one.user for one in cycle.placed)
            tasks = cycle.reconciliation.snapshot.tasks.values()
            waiting = sum(task.on is None and task.blocked is None for task in tasks)
            log.info(
                "jobs placed count=%(count)d waiting=%(waiting)d users=%(users)s",
                {
                    "count": len(cycle.placed),
                    "waiting": waiting - len(cycle.placed),
                    "users": ",".join(f"{user}:{count}" for user, count in sorted(users.items())),
                },
            )
        log.debug(
            "cycle finished seconds=%(seconds).3f decision_seconds=%(decision).3f",
            {"seconds": cycle.seconds, "decision": cycle.decision_seconds},
        )

    def _pause(self, cycle: SlurmCycle | None) -> float:
        if cycle is None:
            return float(min(self.interval * 2.0 ** min(self.failures - 1, 10), _MAX_PAUSE))
        # Where something has just happened more will soon; where not, cycles become rarer.
        self._idle_pause = _MIN_PAUSE if cycle.busy else min(self._idle_pause * 2, self.interval)
        return min(self._idle_pause, self.interval)


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
    plugins = configuration.get("JobSubmitPlugins", "")
    if "lua" not in plugins.split(","):
        rule = (
            "must have lua, with the script of drfh slurm install --print "
            "(or say --hold-by controller)"
        )
        raise InputError("JobSubmitPlugins of slurm.conf", rule, plugins or "(null)")


def release_all(slurm: Slurm, config: SlurmConfig) -> tuple[list[str], dict[str, str]]:
    """Leave all waiting managed jobs to Slurm's own scheduler.

    Parameters
    ----------
    slurm
        Its commands.
    config
        How it is shared; all partitions are meant.

    Returns
    -------
    tuple
        Jobs that were left to Slurm, and what failed: job → message.
    """
    state = read_state(slurm.nodes(), slurm.jobs(), time.time())
    managed = [job for job in state.jobs.values() if job.annotation is not None and not job.on]
    failed: dict[str, str] = {}

    def scontrol(lines: list[str]) -> dict[str, str]:
        errors = slurm.scontrol(lines)
        failed.update(errors)
        return errors

    ids = actions.job_ids(managed, state.jobs.values())
    actions.unmanage(scontrol, ids, state.time, config.hold_by)
    ended = {name for name, message in failed.items() if name and is_about_ended_job(message)}
    return [job.name for job in managed], {k: v for k, v in failed.items() if k not in ended}
