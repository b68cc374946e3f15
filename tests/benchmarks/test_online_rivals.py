"""The rivals of the online scheduler mean what drfh means: else their times say nothing."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from benchmarks.online.instances import Day, churn_work, cluster_units, day
from benchmarks.online.rivals import (
    NumpyServers,
    Policy,
    churn,
    digest,
    prepare,
    simpy_simulate,
)

POLICIES: tuple[Policy, ...] = ("best-fit", "first-fit")


def plain_search(free: list[list[int]], totals: list[int], need: list[int], policy: str) -> int:
    """Search by the definition: fits, then H (or the index alone), ties to the lowest index."""
    ref = next(r for r, units in enumerate(need) if units)

    def badness(server: int) -> float:
        v, total = free[server], 0.0  # a plain sum: Python's sum() corrects floats since 3.12
        for r, t in enumerate(totals):
            if t and policy == "best-fit":
                ratio = (need[r] / t) / (need[ref] / totals[ref])
                total += abs(ratio - (v[r] / t) / (v[ref] / totals[ref]))
        return total

    fits = [s for s, v in enumerate(free) if all(x >= d for x, d in zip(v, need, strict=True))]
    return min(fits, key=lambda s: (badness(s), s), default=-1)


def plain_simulate(day: Day, policy: str) -> tuple[list[float], list[int]]:
    """Simulate by the definition: everybody is tried after each instant, all by plain loops."""
    free, totals = day.capacity.tolist(), day.capacity.sum(axis=0).tolist()
    shapes, n, first = day.shape.tolist(), len(day.weight), day.first.tolist()
    start, place = [-1.0] * len(day.duration), [-1] * len(day.duration)
    held = [[0] * len(totals) for _ in range(n)]
    queue: list[list[tuple[int, int]]] = [[] for _ in range(n)]  # (task, shape), oldest first
    leaving: list[tuple[float, int, int, int]] = []  # (time, task, user, shape)
    batch = 0

    def level(user: int) -> float:
        shares: list[float] = [u / t for u, t in zip(held[user], totals, strict=True) if t]
        return max(0.0, *shares) / float(day.weight[user])

    while leaving or batch < len(day.batch_user):
        next_arrival = day.batch_arrival[batch : batch + 1].tolist()  # empty: none is left
        now = min([entry[0] for entry in leaving[:1]] + next_arrival)
        while leaving and leaving[0][0] == now:
            _, task, user, shape = heapq.heappop(leaving)
            for r, units in enumerate(shapes[shape]):
                free[place[task]][r] += units
                held[user][r] -= units
        while batch < len(day.batch_user) and day.batch_arrival[batch] == now:
            shape = int(day.batch_shape[batch])
            if plain_search(day.capacity.tolist(), totals, shapes[shape], "first-fit") >= 0:
                numbers = range(first[batch], first[batch + 1])
                queue[int(day.batch_user[batch])] += [(task, shape) for task in numbers]
            batch += 1
        tried = {user for user in range(n) if queue[user]}
        while tried:
            user = min(tried, key=lambda u: (level(u), u))
            task, shape = queue[user][0]
            server = plain_search(free, totals, shapes[shape], policy)
            if server < 0:
                tried.discard(user)
                continue
            start[task], place[task] = now, server
            for r, units in enumerate(shapes[shape]):
                free[server][r] -= units
                held[user][r] += units
            heapq.heappush(leaving, (now + float(day.duration[task]), task, user, shape))
            queue[user].pop(0)
            if not queue[user]:
                tried.discard(user)
    return start, place


def tight_day(seed: int, m: int) -> Day:
    """Return few servers and small whole numbers: ties of levels, H and instants everywhere."""
    random = np.random.default_rng(seed)
    capacity = random.integers(0, 7, (6, m))
    shape = random.integers(0, 4, (7, m))
    shape[(shape == 0).all(axis=1), 0] = 1
    shape[0] = 6  # fits hardly anywhere, or never
    batches, users = 40, 5
    count = random.integers(1, 5, batches)
    duration = random.integers(0, 6, int(count.sum())).astype(np.float64)
    duration[::3] += random.random(len(duration[::3]))
    return Day(
        capacity,
        random.choice([0.5, 1.0, 3.0], users),
        shape,
        np.sort(random.integers(0, 25, batches)).astype(np.float64),
        random.integers(0, users, batches),
        random.integers(0, len(shape), batches),
        count,
        duration,
        25.0,
    )


@pytest.mark.parametrize("m", [1, 2, 3])
def test_search_is_the_definition(m: int) -> None:
    random = np.random.default_rng(m)
    for top in (5, 10**9):  # ties, and none
        capacity = random.integers(0, top, (40, m))
        capacity[:3, -1] = 0
        free = capacity - random.integers(0, capacity + 1)
        servers = NumpyServers(capacity, free)
        rows = free.tolist()
        for _ in range(150):
            need = random.integers(0, top // 2 + 1, m) * (random.random(m) < 0.8)
            need[random.integers(m)] += 1
            task = prepare(need.tolist(), servers.totals)
            for policy in POLICIES:
                found = (
                    servers.first_fit(task.need)
                    if policy == "first-fit"
                    else servers.best_fit(task.need, task.ratio, task.ref)
                )
                assert found == plain_search(rows, servers.totals, need.tolist(), policy)
                assert found == servers.among(range(40), task, policy)
            if found >= 0:
                servers.take(found, task.need)
                if random.random() < 0.5:
                    servers.release(found, task.need)
                rows[found] = servers.free[:, found].tolist()


def test_a_resource_that_no_server_has_counts_for_nothing() -> None:
    servers = NumpyServers(np.array([[4, 0, 9], [4, 0, 2]]))
    task = prepare([2, 0, 1], servers.totals)
    assert servers.best_fit(task.need, task.ratio, task.ref) == 1
    impossible = prepare([0, 1, 1], servers.totals)
    assert servers.best_fit(impossible.need, impossible.ratio, impossible.ref) == -1


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("m", [1, 2, 3])
def test_simpy_is_the_definition_however_users_are_woken(m: int, policy: Policy) -> None:
    pytest.importorskip("simpy")
    for seed in range(12):
        work = tight_day(seed, m)
        start, place = plain_simulate(work, policy)
        for wake in ("exact", "everyone"):
            run = simpy_simulate(work, policy, wake)
            assert run.server.tolist() == place
            assert np.nan_to_num(run.start, nan=-1.0).tolist() == start


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("m", [2, 3])
def test_waking_is_exact_on_a_crowded_day(m: int, policy: Policy) -> None:
    pytest.importorskip("simpy")
    work = day(users=30, tasks=3000, servers=12, load=1.5, seed=m, m=m)
    exact = simpy_simulate(work, policy, "exact", until=work.horizon)
    everyone = simpy_simulate(work, policy, "everyone", until=work.horizon)
    assert exact.digest == everyone.digest
    assert exact.searches < everyone.searches  # somebody waited
    assert np.nanmax(exact.start) < work.horizon


def test_a_day_is_what_was_asked_for() -> None:
    work = day(users=50, tasks=5000, servers=40, load=0.9, seed=3, m=3)
    assert work.load == pytest.approx(0.9)
    assert work.batch_count.sum() == len(work.duration) == 5000
    assert (work.batch_count > 0).all()
    assert (np.diff(work.batch_arrival) >= 0).all()
    assert 0 <= work.batch_arrival[0] <= work.batch_arrival[-1] <= work.horizon
    assert np.all(work.shape[:, None, :] <= work.capacity, axis=2).any(axis=1).all()
    again = day(users=50, tasks=5000, servers=40, load=0.9, seed=3, m=3)
    assert digest(work.duration, work.batch_user) == digest(again.duration, again.batch_user)
    assert cluster_units(100_000).sum(axis=0).max() <= 2**43


@pytest.mark.parametrize("policy", POLICIES)
def test_churn_keeps_its_load_and_its_books(policy: Policy) -> None:
    work = churn_work(150, policy, users=20, base=60)
    assert work.load == pytest.approx(0.8, abs=0.1)
    assert (work.free >= 0).all()
    servers = NumpyServers(work.capacity, work.free)
    totals, rows = servers.totals, work.free.tolist()
    run = churn(work, servers, policy, 300)
    line = list(zip(work.task_user.tolist(), work.task_server.tolist(), strict=True))
    usage = work.usage.tolist()
    for step in range(300):
        user, server = line.pop(0)
        for r, units in enumerate(work.need[user].tolist()):
            rows[server][r] += units
            usage[user][r] -= units
        levels = [max(u / t for u, t in zip(row, totals, strict=True)) for row in usage]
        for user in sorted(range(20), key=lambda u: (levels[u], u)):
            need = work.need[user].tolist()
            server = plain_search(rows, totals, need, policy)
            if server >= 0:
                break
        assert (run.user[step], run.server[step]) == (user, server)
        for r, units in enumerate(need):
            rows[server][r] -= units
            usage[user][r] += units
        line.append((user, server))
    assert servers.free.T.tolist() == rows
