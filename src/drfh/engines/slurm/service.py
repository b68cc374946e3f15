"""The controller as a service: round after round, through all trouble, until told to stop."""

from __future__ import annotations

import os
import pwd
import time
from collections import Counter
from collections.abc import Callable, Mapping

from drfh.engines.metrics import Metrics
from drfh.engines.slurm import orders
from drfh.engines.slurm.commands import Slurm, SlurmError
from drfh.engines.slurm.controller import Controller, Cycle
from drfh.engines.slurm.picture import look
from drfh.engines.slurm.site import Site
from drfh.engines.stopping import Stopping
from drfh.errors import DrfhError, InputError

__all__ = ["Service", "check_plugin", "check_rights", "release_all"]

_SHORTEST_PAUSE = 0.05
_LONGEST_PAUSE = 30.0
_REASONS = 4  # words of a reason that make a label of a metric


class Service(Stopping):
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
    metrics
        Filled after each round.
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
        metrics: Metrics | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self.controller, self.interval, self.metrics = controller, interval, metrics
        self.say = say or (lambda line: None)
        self.seen = seen or (lambda cycle: None)
        self.check = check or (lambda: None)
        self.rounds = 0
        self.failures = 0  # in a row

    def run(self, rounds: int | None = None) -> None:
        """Go round until told to stop, or so many times."""
        while not self.stopping.is_set() and (rounds is None or self.rounds < rounds):
            self.check()
            done = self._round()
            self.rounds += 1
            if rounds is None or self.rounds < rounds:
                self.stopping.wait(self._pause(done))

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
        for name, why in done.taken_back.items():
            self.say(f"job {name} taken back: {why}")
        if self.metrics is not None:
            _count(self.metrics, done)
        self.seen(done)
        return done

    def _failed(self, words: str, command: str = "") -> None:
        self.failures += 1
        self.say(words)
        if self.metrics is not None and command:
            self.metrics.add("drfh_errors_total", command=command)

    def _pause(self, done: Cycle | None) -> float:
        if done is None:
            return float(min(self.interval * 2.0 ** min(self.failures - 1, 10), _LONGEST_PAUSE))
        return _SHORTEST_PAUSE if done.busy else self.interval


def _count(metrics: Metrics, done: Cycle) -> None:
    """Fill the metrics after a round, except those that need more than the round itself."""
    metrics.add("drfh_placements_total", len(done.placed))
    metrics.add("drfh_releases_total", len(done.released))
    for why, times in Counter(done.taken_back.values()).items():
        reason = " ".join(why.split("(")[0].split()[:_REASONS])
        metrics.add("drfh_take_backs_total", times, reason=reason)
    metrics.observe("drfh_decision_seconds", done.decision_seconds)
    metrics.observe("drfh_cycle_seconds", done.seconds)
    metrics.set("drfh_last_cycle_timestamp_seconds", time.time())


def check_rights(configuration: Mapping[str, str]) -> None:
    """Raise unless this process may hold, place and release the jobs of others.

    Parameters
    ----------
    configuration
        What ``scontrol show config`` says.
    """
    user = configuration.get("SlurmUser", "").partition("(")[0]
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


def release_all(slurm: Slurm, site: Site) -> tuple[list[str], dict[str, str]]:
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
    picture = look(slurm.nodes(), slurm.jobs(), time.time())
    ours = [job for job in picture.jobs.values() if job.mark is not None and not job.on]
    meant = orders.together(ours, picture.jobs.values())
    lines = list(orders.give_back(meant, picture.time, site.hold_by))
    failed = slurm.together(lines)
    return [job.name for job in ours], failed
