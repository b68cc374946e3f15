"""Slurm's own commands: what we read, and what we ask for. Nothing here decides."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from drfh.engines.engine import EngineError
from drfh.wire.slurm.scontrol import jobs_in_message, parse_config

__all__ = ["Slurm", "SlurmError"]

_PATIENCE = 60.0
_SIDE_BY_SIDE = 4  # scontrol processes
_WORTH_A_PROCESS = 10  # lines


class SlurmError(EngineError):
    """A command of Slurm failed, or took too long."""


class Slurm:
    """Slurm as its commands show it.

    Parameters
    ----------
    environment
        Of the commands; by default that of this process. ``SLURM_CONF`` chooses the cluster.
    patience
        Seconds after which a command that does not answer is stopped.
    keep_open
        File descriptors that the commands inherit: the lock of the controller, which must not be
        free before a command that it started has ended.
    told
        Called after each command with its name, the seconds that it took, and whether it worked.

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
        patience: float = _PATIENCE,
        keep_open: Sequence[int] = (),
        told: Callable[[str, float, bool], None] | None = None,
    ) -> None:
        given = os.environ if environment is None else environment
        # Without this, long lists of array tasks are cut short.
        self.environment = {**given, "SLURM_BITSTR_LEN": "0", "LC_ALL": "C"}
        self.patience = patience
        self.keep_open = tuple(keep_open)
        self.told = told
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

    def call(self, *words: str) -> str:
        """Run one command and return what it prints."""
        code, out, err = self._run(words, subprocess.DEVNULL)
        if code:
            raise SlurmError(f"{words[0]}: {_first_line(err or out) or f'exit code {code}'}")
        return out

    def together(self, commands: Iterable[str]) -> dict[str, str]:
        """Give many commands to one ``scontrol``; return what failed: job → words.

        Starting a process for each takes longer than what slurmctld does with it. The key is
        empty for an error that names no job.
        """
        lines = list(commands)
        if not lines:
            return {}
        # In a file (of memory), not through a pipe: if we are killed while we write, scontrol
        # would carry out the half of a line that it has, and release job 12 instead of 1234.
        with open(os.memfd_create("scontrol"), "w+b") as typed:
            typed.write(("\n".join([*lines, "quit"]) + "\n").encode())
            typed.seek(0)
            code, _, err = self._run(("scontrol",), typed)
        failed: dict[str, str] = {}
        for line in err.splitlines():
            words = line.strip()
            if not words or words.startswith("slurm_suspend error"):  # follows each real one
                continue
            if words.endswith(": No error"):  # of tasks of an array of which others failed
                continue
            failed.update(dict.fromkeys(jobs_in_message(words) or [""], words))
        if code < 0 or (code and not failed):  # below 0: killed, and nobody knows how far it came
            failed[""] = f"scontrol: exit code {code}"
        return failed

    def at_once(self, commands: Iterable[str]) -> dict[str, str]:
        """As :meth:`together`, with several ``scontrol`` side by side: the order does not matter.

        Most of the time goes into asking slurmctld and being heard, not into what it does then.
        All have ended when this returns or raises.
        """
        lines = list(commands)
        number = min(max(len(lines) // _WORTH_A_PROCESS, 1), _SIDE_BY_SIDE)
        if number == 1:
            return self.together(lines)
        failed: dict[str, str] = {}
        with ThreadPoolExecutor(number) as pool:
            parts = [pool.submit(self.together, lines[n::number]) for n in range(number)]
        for part in parts:
            failed |= part.result()
        return failed

    def numbers(self, names: Iterable[str]) -> dict[str, str]:
        """Return the own numbers of tasks of arrays which wait; of those that have one.

        By its own number a task is found at once; as 9_3, ``scontrol`` loads the whole array, also
        its tasks that ended lately.
        """
        arrays = {array for array, _, task in (name.partition("_") for name in names) if task}
        if not arrays:
            return {}
        words = ("--noheader", "--array", "--states=PENDING", "--format=%i %A")
        lines = self.call("squeue", *words, f"--jobs={','.join(sorted(arrays))}").splitlines()
        pairs = (line.split() for line in lines)
        return {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and pair[1] not in arrays}

    def _document(self, *words: str) -> dict[str, Any]:
        text = self.call(*words)
        try:
            document = json.loads(text)
        except ValueError as error:
            raise SlurmError(f"{words[0]}: its answer is not JSON ({error})") from None
        if not isinstance(document, dict):
            raise SlurmError(f"{words[0]}: its answer is not what --json prints")
        errors = document.get("errors")
        if errors:
            raise SlurmError(f"{words[0]}: {_first_line(json.dumps(errors))}")
        return document

    @staticmethod
    def _listed(document: Mapping[str, Any], key: str, command: str) -> list[Any]:
        listed = document.get(key)
        if not isinstance(listed, list):
            raise SlurmError(f"{command}: its answer has no list of {key}")
        return listed

    def _run(self, words: Sequence[str], typed: IO[bytes] | int) -> tuple[int, str, str]:
        started = time.perf_counter()
        worked = False
        try:
            done = subprocess.run(
                words,
                stdin=typed,
                env=self.environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self.patience,
                pass_fds=self.keep_open,
            )
            worked = done.returncode == 0
        except FileNotFoundError:
            raise SlurmError(f"{words[0]} is not installed, or not in PATH") from None
        except subprocess.TimeoutExpired:
            raise SlurmError(f"{words[0]}: no answer in {self.patience:g} s") from None
        finally:
            if self.told is not None:
                self.told(words[0], time.perf_counter() - started, worked)
        return done.returncode, done.stdout, done.stderr


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:300] if lines else ""
