"""Simulations behind a page: small ones in a thread, the others in a process of their own.

The compiled simulator does not let other threads run meanwhile: inside the server one page would
stall the others. A process can also be stopped at any moment.
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
from drfh.web.play.film import Film, film_of
from drfh.web.play.workload import Asked, Piece, check_size, piece_of

if TYPE_CHECKING:
    from drfh.web.components.jobs import ReportProgress

__all__ = ["Played", "carry_out", "is_small", "play"]

# Tasks × servers that a thread may simulate: done before a process has loaded everything.
_SMALL_WORK = 60_000
_SMALL_USERS = 20
# Made-up workloads that take long to make.
_SLOW = ("google-like", "paper-dynamic")
# Users × server groups up to which the exact allocation is solved at every sample.
_MOST_PAIRS = 1_000
# Processes at a time, of all pages together.
_PLACES = threading.BoundedSemaphore(2)
_LOOK = 0.1  # seconds
_NICE = 5  # pages go first


class Played(NamedTuple):
    """What was simulated, and a film of each policy."""

    words: str
    films: list[Film]


def play(asked: Asked, policies: Sequence[str], tell: ReportProgress) -> Played:
    """Simulate what is asked for under one policy after the other; for a thread.

    Parameters
    ----------
    asked
        What to simulate.
    policies
        Their names.
    tell
        Called often with words and the part that is done; what it raises stops the work at once.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> asked = Asked("users", load_scenario("paper-two-servers"), (10.0, 10.0))
    >>> played = play(asked, ["best-fit-drfh", "slots:14"], lambda words, part: None)
    >>> played.words
    'The users of this scenario: 2 users, 80 tasks on 2 servers.'
    >>> [film.numbers["tasks"]["completed"] for film in played.films]
    [80, 80]
    """
    for policy in policies:
        find_policy(policy)
    if asked.key in _SLOW:
        return _in_process(asked, policies, tell)
    piece = piece_of(asked)
    check_size(piece)
    if is_small(piece):
        return carry_out(piece, policies, tell)
    return _in_process(piece, policies, tell)


def is_small(piece: Piece) -> bool:
    """Return whether a piece is done before a process would be there."""
    work = piece.workload.task_count * piece.cluster.size
    return work <= _SMALL_WORK and len(piece.workload.users) <= _SMALL_USERS


def carry_out(what: Piece | Asked, policies: Sequence[str], tell: ReportProgress) -> Played:
    """Simulate here and now."""
    if isinstance(what, Asked):
        tell("making up a workload", 0.0)
    piece = piece_of(what) if isinstance(what, Asked) else what
    check_size(piece)
    fair = len(piece.workload.users) * len(piece.cluster) <= _MOST_PAIRS
    films = []
    for number, policy in enumerate(policies):

        def heard(news: Progress, number: int = number, policy: str = policy) -> None:
            part = news.time / news.until if news.until else news.done / max(news.tasks, 1)
            words = f"{policy}: at {format_clock(news.time)}, {news.done:,} of {news.tasks:,} tasks"
            tell(words, (number + min(part, 1.0)) / len(policies))

        tell(f"{policy}: starting", number / len(policies))
        result = simulate(
            piece.cluster, piece.workload, policy, until=piece.until, fair=fair, log=True,
            progress=heard,
        )  # fmt: skip
        films.append(film_of(result, piece.cluster, piece.workload))
    return Played(piece.words, films)


def _in_process(what: Piece | Asked, policies: Sequence[str], tell: ReportProgress) -> Played:
    while not _PLACES.acquire(timeout=_LOOK):
        tell("waiting until other simulations are done", 0.0)
    try:
        with _child(what, policies) as connection:
            words, part = "starting a process", 0.0
            while True:
                tell(words, part)
                if not connection.poll(_LOOK):
                    continue
                try:
                    kind, news = connection.recv()
                except (EOFError, OSError):
                    raise DrfhError("the simulation's process ended before it was done") from None
                if kind == "tell":
                    words, part = news
                elif kind == "failed":
                    raise DrfhError(news)
                else:
                    played: Played = news
                    return played
    finally:
        _PLACES.release()


@contextmanager
def _child(what: Piece | Asked, policies: Sequence[str]) -> Iterator[Connection]:
    """Start a process, and end it at the end of the block, whatever it does."""
    context = multiprocessing.get_context("spawn")  # a fork would copy threads half alive
    ours, theirs = context.Pipe()
    child = context.Process(target=_work, args=(theirs, what, tuple(policies)), daemon=True)
    resource_tracker.ensure_running()
    # A terminal sends Ctrl-C to all: the server is told, and ends its processes.
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


def _work(connection: Connection, what: Piece | Asked, policies: Sequence[str]) -> None:
    """Simulate, in a process of its own."""

    def tell(words: str, part: float) -> None:
        connection.send(("tell", (words, part)))

    os.nice(_NICE)
    try:
        connection.send(("done", carry_out(what, policies, tell)))
    except (BrokenPipeError, ConnectionResetError):
        pass  # nobody listens any more
    except Exception as error:  # one line at the other end, whatever it is
        words = str(error) if isinstance(error, DrfhError) else f"internal error: {error!r}"
        with suppress(OSError):
            connection.send(("failed", words))
