"""Simulations for a page: small ones in its thread, others in a child process.

The compiled simulator holds the interpreter lock, so that in the server's process it would stall
all pages. NiceGUI's ``run.cpu_bound``, a shared pool of ``concurrent.futures``, can neither stop a
simulation that runs, nor report its progress, nor lower its priority: hence a process of our own.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, NamedTuple

from drfh.errors import DrfhError
from drfh.formatting import format_clock
from drfh.policies import find_policy
from drfh.simulation import Progress, simulate
from drfh.web.play.recording import Recording, record
from drfh.web.play.workload import PlayChoice, PlayInput, check_size, play_input

if TYPE_CHECKING:
    from drfh.web.components.jobs import ReportProgress

__all__ = ["PlayResult", "is_small", "play", "simulate_policies"]

# Tasks × servers up to which a simulation takes less time than the start of a process.
_SMALL_WORK = 60_000
_SMALL_USERS = 20
# Generated workloads that take long to generate.
_SLOW = ("google-like", "paper-dynamic")
# Users × server groups up to which the exact allocation is solved at every sample.
_MOST_PAIRS = 1_000
_PROCESSES = threading.BoundedSemaphore(2)  # of all pages together
_POLL = 0.1  # seconds
_NICE = 5  # priority of the processes, below that of the server


class PlayResult(NamedTuple):
    """Description of the workload, and a recording for each policy."""

    description: str
    recordings: list[Recording]


def play(choice: PlayChoice, policies: Sequence[str], tell: ReportProgress) -> PlayResult:
    """Simulate a workload under each policy; blocks, so call it in a thread.

    Parameters
    ----------
    tell
        Called often with a text and the part that is done; an exception of it stops the work.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> choice = PlayChoice("users", load_scenario("paper-two-servers"), (10.0, 10.0))
    >>> played = play(choice, ["best-fit-drfh", "slots:14"], lambda text, part: None)
    >>> played.description
    'The users of this scenario: 2 users, 80 tasks on 2 servers.'
    >>> [recording.numbers["tasks"]["completed"] for recording in played.recordings]
    [80, 80]
    """
    for policy in policies:
        find_policy(policy)
    if choice.key in _SLOW:
        return _in_process(choice, policies, tell)
    inputs = play_input(choice)
    check_size(inputs)
    if is_small(inputs):
        return simulate_policies(inputs, policies, tell)
    return _in_process(inputs, policies, tell)


def is_small(inputs: PlayInput) -> bool:
    """Return whether a simulation is too short for a process of its own."""
    work = inputs.workload.task_count * inputs.cluster.size
    return work <= _SMALL_WORK and len(inputs.workload.users) <= _SMALL_USERS


def simulate_policies(
    what: PlayInput | PlayChoice, policies: Sequence[str], tell: ReportProgress
) -> PlayResult:
    """Simulate under each policy, in this thread."""
    if isinstance(what, PlayChoice):
        tell("making up a workload", 0.0)
    inputs = play_input(what) if isinstance(what, PlayChoice) else what
    check_size(inputs)
    fair = len(inputs.workload.users) * len(inputs.cluster) <= _MOST_PAIRS
    recordings = []
    for number, policy in enumerate(policies):

        def on_progress(state: Progress, number: int = number, policy: str = policy) -> None:
            part = state.time / state.until if state.until else state.done / max(state.tasks, 1)
            text = (
                f"{policy}: at {format_clock(state.time)}, {state.done:,} of {state.tasks:,} tasks"
            )
            tell(text, (number + min(part, 1.0)) / len(policies))

        tell(f"{policy}: starting", number / len(policies))
        result = simulate(
            inputs.cluster, inputs.workload, policy, until=inputs.until, fair=fair, log=True,
            progress=on_progress,
        )  # fmt: skip
        recordings.append(record(result, inputs.cluster, inputs.workload))
    return PlayResult(inputs.description, recordings)


def _in_process(
    what: PlayInput | PlayChoice, policies: Sequence[str], tell: ReportProgress
) -> PlayResult:
    while not _PROCESSES.acquire(timeout=_POLL):
        tell("waiting until other simulations are done", 0.0)
    try:
        with _child(what, policies) as connection:
            text, part = "starting a process", 0.0
            while True:
                tell(text, part)
                if not connection.poll(_POLL):
                    continue
                try:
                    kind, message = connection.recv()
                except (EOFError, OSError):
                    raise DrfhError("the simulation's process ended before it was done") from None
                if kind == "progress":
                    text, part = message
                elif kind == "failed":
                    raise DrfhError(message)
                else:
                    played: PlayResult = message
                    return played
    finally:
        _PROCESSES.release()


@contextmanager
def _child(what: PlayInput | PlayChoice, policies: Sequence[str]) -> Iterator[Connection]:
    """Start a process, and terminate it at the end of the block."""
    context = multiprocessing.get_context("spawn")  # not fork: the server has threads
    ours, theirs = context.Pipe()
    child = context.Process(target=_run_child, args=(theirs, what, tuple(policies)), daemon=True)
    resource_tracker.ensure_running()
    # Ctrl-C reaches all processes of a terminal; only the server handles it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        child.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
    try:
        yield ours
    finally:
        child.terminate()
        child.join()
        ours.close()


def _run_child(
    connection: Connection, what: PlayInput | PlayChoice, policies: Sequence[str]
) -> None:
    def tell(text: str, part: float) -> None:
        connection.send(("progress", (text, part)))

    os.nice(_NICE)
    try:
        connection.send(("done", simulate_policies(what, policies, tell)))
    except (BrokenPipeError, ConnectionResetError):
        pass  # the server has closed the connection
    except Exception as error:  # a text, as not every exception can be pickled
        text = str(error) if isinstance(error, DrfhError) else f"internal error: {error!r}"
        with suppress(OSError):
            connection.send(("failed", text))
