"""The controller as a service: round after round, through all trouble, until told to stop."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from drfh.engines.lifecycle import Stoppable
from drfh.engines.slurm import actions as orders
from drfh.engines.slurm.client import Slurm, SlurmError
from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.controller import Controller, Cycle
from drfh.engines.slurm.metrics import Gauges
from drfh.engines.slurm.state import read_state
from drfh.errors import DrfhError, InputError
from drfh.wire.slurm.scontrol import is_about_ended_job, slurm_user

__all__ = ["Service", "check_plugin", "check_rights", "release_all"]

_SHORTEST_PAUSE = 0.05
_LONGEST_PAUSE = 30.0


class Service(Stoppable):
    """Runs a controller.

    Parameters
    ----------
    controller
        The controller.
    interval
        Seconds between two looks while nothing happens.
    say
        Told in a line what happened.
    seen
        Called after each round.
    gauges
        Told of each round, for Prometheus.
    check
        Called before each round; it raises if the controller must not go on.
    """

    def __init__(
        self,
        controller: Controller,
        *,
        interval: float = 1.0,
        say: Callable[[str], None] | None = None,
        seen: Callable[[Cycle], None] | None = None,
        gauges: Gauges | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self.controller, self.interval, self.gauges = controller, interval, gauges
        self._say = say or (lambda line: None)
        self.seen = seen or (lambda cycle: None)
        self.check = check or (lambda: None)
        self.rounds = 0
        self.failures = 0  # in a row
        self._wait = interval  # after a round in which nothing happened
        self._broken: frozenset[str] = frozenset()  # what was told, as long as it is so

    def say(self, line: str) -> None:
        """Tell a line; if nobody listens any more, the cluster must go on all the same."""
        with suppress(OSError, ValueError):  # ValueError: of a file that was closed
            self._say(line)

    def run(self, rounds: int | None = None) -> None:
        """Go round until told to stop, or so many times."""
        while not self.stop_requested.is_set() and (rounds is None or self.rounds < rounds):
            self.check()
            done = self._round()
            self.rounds += 1
            if rounds is None or self.rounds < rounds:
                self.stop_requested.wait(self._pause(done))

    def _round(self) -> Cycle | None:
        try:
            done = self.controller.cycle()
        except SlurmError as error:
            self._failed(str(error))
            return None
        except Exception as error:
            # Whatever it is, the cluster must go on: what we know comes from Slurm, so begin anew.
            kind = "" if isinstance(error, DrfhError) else f"{type(error).__name__}: "
            self._failed(f"this round was given up ({kind}{error})", command="drfh")
            self.controller.forget()
            return None
        if self.failures:
            self.say(f"goes on after {self.failures} rounds that failed")
        self.failures = 0
        for name, words in done.failed.items():
            self.say(f"{f'job {name}: ' if name else ''}{words}")
        for line in done.picture.broken:
            if line not in self._broken:
                self.say(f"cannot be read, and is left out: {line}")
        self._broken = frozenset(done.picture.broken)
        for name, why in done.recalled.items():
            self.say(f"job {name} taken back: {why}")
        try:
            if self.gauges is not None:
                self.gauges.round(self.controller, done)
            self.seen(done)
        except Exception as error:  # what is told about a round must not end the next
            self.say(f"this round could not be told ({type(error).__name__}: {error})")
        return done

    def _failed(self, words: str, command: str = "") -> None:
        self.failures += 1
        self.say(words)
        if self.gauges is not None and command:
            self.gauges.metrics.add("drfh_errors_total", command=command)

    def _pause(self, done: Cycle | None) -> float:
        if done is None:
            return float(min(self.interval * 2.0 ** min(self.failures - 1, 10), _LONGEST_PAUSE))
        # Where something has just happened more will soon; where not, looks become rarer.
        self._wait = _SHORTEST_PAUSE if done.busy else min(self._wait * 2, self.interval)
        return min(self._wait, self.interval)


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


def release_all(slurm: Slurm, site: SlurmConfig) -> tuple[list[str], dict[str, str]]:
    """Give all waiting jobs of ours back to Slurm's own scheduler.

    Parameters
    ----------
    slurm
        Its commands.
    site
        How it is shared; all partitions are meant.

    Returns
    -------
    tuple
        Jobs that were given back, and what failed: job → words.
    """
    picture = read_state(slurm.nodes(), slurm.jobs(), time.time())
    ours = [job for job in picture.jobs.values() if job.annotation is not None and not job.on]
    meant = orders.together(ours, picture.jobs.values())
    failed: dict[str, str] = {}

    def ask(lines: list[str]) -> dict[str, str]:
        answer = slurm.together(lines)
        failed.update(answer)
        return answer

    orders.give_back(ask, meant, picture.time, site.hold_by)
    # What has ended meanwhile needs nothing any more.
    ended = {name for name, words in failed.items() if name and is_about_ended_job(words)}
    return [job.name for job in ours], {k: v for k, v in failed.items() if k not in ended}
