"""Background work on the newest item: nobody waits for it, and it survives failures."""

from __future__ import annotations

import threading
import time

import pytest

from drfh.engines.lifecycle import LatestWorker


def test_only_the_newest_item_is_processed_after_a_slow_one() -> None:
    done: list[int] = []
    begun, go_on, over = threading.Event(), threading.Event(), threading.Event()

    def work(item: int) -> None:
        begun.set()
        go_on.wait(60)
        done.append(item)
        if item == 4:
            over.set()

    with LatestWorker(work, "slow") as worker:
        worker.submit(1)
        assert begun.wait(60)
        started = time.perf_counter()
        for item in (2, 3, 4):
            worker.submit(item)
        assert time.perf_counter() - started < 1.0  # though the work takes as long as it likes
        assert done == []
        go_on.set()
        assert over.wait(60)
    assert done == [1, 4]
    assert not worker.alive


def test_work_that_fails_is_logged_and_the_next_item_is_processed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    over = threading.Event()

    def work(item: int) -> None:
        if item == 0:
            raise ZeroDivisionError("division by zero")
        over.set()

    with LatestWorker(work, "broken") as worker:
        worker.submit(0)
        for _ in range(6000):
            if caplog.messages:
                break
            time.sleep(0.01)
        worker.submit(1)
        assert over.wait(60)
    assert caplog.messages == [
        "background work failed worker=broken error=ZeroDivisionError('division by zero')"
    ]


def test_an_item_waits_until_it_is_due() -> None:
    done: list[int] = []
    due = False
    worker = LatestWorker(done.append, "patient", due=lambda: due)
    worker.submit(1)
    assert not worker.step()
    due = True
    assert worker.step()
    assert not worker.step()
    assert done == [1]
