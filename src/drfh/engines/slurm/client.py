"""Client of Slurm: runs its commands, parses their output and errors."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from drfh.engines.engine import EngineError
from drfh.engines.observer import Observer, notify
from drfh.wire.slurm.scontrol import parse_config, parse_errors, parse_task_ids

__all__ = ["Slurm", "SlurmError"]

log = logging.getLogger(__name__)

_TIMEOUT = 60.0
_PROCESSES = 4  # of scontrol
_LINES_A_PROCESS = 10  # at least


class SlurmError(EngineError):
    """A command of Slurm failed, or took too long."""


class Slurm:
    """Runs the commands of Slurm.

    Parameters
    ----------
    environment
        Of the commands; by default that of this process. ``SLURM_CONF`` chooses the cluster.
    timeout
        Seconds after which a command that does not answer is stopped.
    inherited_fds
        File descriptors that the commands inherit: the lock of the controller, which must not be
        free before a command that it started has ended.
    observers
        Told of each command.

    Examples
    --------
    >>> Slurm(environment={"PATH": "/nowhere"}).jobs()
    Traceback (most recent call last):
    drfh.engines.slurm.client.SlurmError: squeue is not installed, or not in PATH
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        timeout: float = _TIMEOUT,
        inherited_fds: Sequence[int] = (),
        observers: Sequence[Observer] = (),
    ) -> None:
        given = os.environ if environment is None else environment
        # Without this, long lists of array tasks are cut short.
        self.environment = {**given, "SLURM_BITSTR_LEN": "0", "LC_ALL": "C"}
        self.timeout = timeout
        self.inherited_fds = tuple(inherited_fds)
        self.observers = observers
        self._node_command: tuple[str, ...] = ("sinfo", "--json")

    def jobs(self) -> list[Any]:
        """Return the jobs as ``squeue --json`` has them, those that ended lately too."""
        return self._listed(self._document("squeue", "--json"), "jobs", "squeue")

    def nodes(self) -> list[Any]:
        """Return the nodes, one entry each."""
        document = self._document(*self._node_command)
        if "nodes" not in document and "sinfo" in document:
            # From 23.02 on sinfo has a row for all nodes that are alike.
            self._node_command = ("scontrol", "show", "nodes", "--json")
            document = self._document(*self._node_command)
        return self._listed(document, "nodes", self._node_command[0])

    def configuration(self) -> dict[str, str]:
        """Return ``scontrol show config``, names to values."""
        return parse_config(self.call("scontrol", "show", "config"))

    def call(self, *arguments: str) -> str:
        """Run one command and return what it prints."""
        code, out, err = self._run(arguments, subprocess.DEVNULL)
        if code:
            raise SlurmError(f"{arguments[0]}: {_first_line(err or out) or f'exit code {code}'}")
        return out

    def scontrol(self, lines: Iterable[str]) -> dict[str, str]:
        """Give input lines to one ``scontrol`` process; return errors: job → message.

        Starting a process for each takes longer than what slurmctld does with it. The key is
        empty for an error that names no job.
        """
        lines = list(lines)
        if not lines:
            return {}
        for line in lines:
            log.debug("change requested line=%(line)s", {"line": line})
        # In a file (of memory), not through a pipe: if we are killed while we write, scontrol
        # would carry out the half of a line that it has, and release job 12 instead of 1234.
        with open(os.memfd_create("scontrol"), "w+b") as stdin:
            stdin.write(("\n".join([*lines, "quit"]) + "\n").encode())
            stdin.seek(0)
            code, _, err = self._run(("scontrol",), stdin)
        failed = parse_errors(err)
        if code < 0 or (code and not failed):  # below 0: killed, it is unknown after which line
            failed[""] = f"scontrol: exit code {code}"
        return failed

    def scontrol_parallel(self, lines: Iterable[str]) -> dict[str, str]:
        """As :meth:`scontrol`, in several processes at a time: the order does not matter.

        Most of the time goes into connections to slurmctld. All processes have ended when this
        returns or raises.
        """
        lines = list(lines)
        number = min(max(len(lines) // _LINES_A_PROCESS, 1), _PROCESSES)
        if number == 1:
            return self.scontrol(lines)
        failed: dict[str, str] = {}
        with ThreadPoolExecutor(number) as pool:
            parts = [pool.submit(self.scontrol, lines[n::number]) for n in range(number)]
        for part in parts:
            failed |= part.result()
        return failed

    def task_job_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Return the job ids of pending array tasks, of those that have one of their own.

        By its own id a task is found at once; as 9_3, ``scontrol`` loads the whole array, also
        its tasks that ended lately.
        """
        arrays = {array for array, _, task in (name.partition("_") for name in names) if task}
        if not arrays:
            return {}
        arguments = ("--noheader", "--array", "--states=PENDING", "--format=%i %A")
        output = self.call("squeue", *arguments, f"--jobs={','.join(sorted(arrays))}")
        return {task: own for task, own in parse_task_ids(output).items() if own not in arrays}

    def _document(self, *arguments: str) -> dict[str, Any]:
        text = self.call(*arguments)
        try:
            document = json.loads(text)
        except ValueError as error:
            raise SlurmError(f"{arguments[0]}: its answer is not JSON ({error})") from None
        if not isinstance(document, dict):
            raise SlurmError(f"{arguments[0]}: its answer is not what --json prints")
        errors = document.get("errors")
        if errors:
            raise SlurmError(f"{arguments[0]}: {_first_line(json.dumps(errors))}")
        return document

    @staticmethod
    def _listed(document: Mapping[str, Any], key: str, command: str) -> list[Any]:
        listed = document.get(key)
        if not isinstance(listed, list):
            raise SlurmError(f"{command}: its answer has no list of {key}")
        return listed

    def _run(self, arguments: Sequence[str], stdin: IO[bytes] | int) -> tuple[int, str, str]:
        started = time.perf_counter()
        succeeded = False
        try:
            done = subprocess.run(
                arguments,
                stdin=stdin,
                env=self.environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self.timeout,
                pass_fds=self.inherited_fds,
            )
            succeeded = done.returncode == 0
        except FileNotFoundError:
            raise SlurmError(f"{arguments[0]} is not installed, or not in PATH") from None
        except subprocess.TimeoutExpired:
            raise SlurmError(f"{arguments[0]}: no answer in {self.timeout:g} s") from None
        finally:
            seconds = time.perf_counter() - started
            log.debug(
                "command finished command=%(command)s seconds=%(seconds).3f ok=%(ok)s",
                {"command": " ".join(arguments), "seconds": seconds, "ok": succeeded},
            )
            notify(self.observers, lambda one: one.on_command(arguments[0], seconds, succeeded))
        return done.returncode, done.stdout, done.stderr


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:300] if lines else ""
