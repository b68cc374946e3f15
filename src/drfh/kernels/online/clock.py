"""Clock of the simulator: arrivals, ends, placing in between, and what is counted.

The plain twin is ``drfh.simulation.driver.PlainDriver``: every number must be the same. Ends stand
in a heap of four children a node, ordered by (time, number of the start).
"""

from __future__ import annotations

import numpy as np

from drfh.kernels.online.place import finish, place, submit
from drfh.kernels.online.state import (
    AT_QUEUED,
    AT_RUNNING,
    AT_TASK,
    AT_TOTAL,
    AT_USAGE,
    RESOURCES,
    TASK_RUN,
    TASK_SHAPE,
    TASK_USER,
    USERS,
    Ints,
    floats1,
    ints1,
    ints2,
    kernel,
)
from drfh.kernels.online.views import bare

__all__ = [
    "ARRAYS", "REGISTERS", "advance", "arrive", "flush", "next_time", "release", "sample", "settle",
]  # fmt: skip

# Counters. The clock itself is in the array `time`.
ARRIVED, PLACEMENTS, ENDS, STARTS, LOGS, REGISTERS = range(6)

# The tag of an end: number of the start × this + task. A workload has at most 10⁸ tasks.
MOST_TASKS = 2**27

# Entries of the array `time`: the last instant, and up to when the pool is counted.
NOW, POOL_SINCE = range(2)

(
    AT_TIME, AT_BATCH_USER, AT_BATCH_SHAPE, AT_BATCH_JOB, AT_BATCH_COUNT, AT_BATCH_PAIR, AT_ARRIVAL,
    AT_DURATION, AT_BATCH, AT_JOB_SIZE, AT_END_TIME, AT_END_TAG, AT_JOB_START,
    AT_JOB_FINISH, AT_JOB_DONE, AT_USER_DONE, AT_USER_STARTED, AT_USER_WAIT, AT_USER_SHARE, AT_USED,
    AT_CAPACITY, AT_ACTIVE, AT_SINCE, AT_SHARE, AT_POOL_USED, AT_NEED, AT_TASK_START, AT_TASK_END,
    AT_TASK_SERVER, AT_TASK_FIRST, AT_TASKS, AT_SERVERS,
) = range(REGISTERS, REGISTERS + 96, 3)  # fmt: skip
ARRAYS = (
    "time", "batch_user", "batch_shape", "batch_job", "batch_count", "batch_pair", "arrival",
    "duration", "batch", "job_size", "end_time", "end_tag", "job_start",
    "job_finish", "job_done", "user_done", "user_started", "user_wait", "user_share", "used",
    "capacity", "active", "since", "share", "pool_used", "need", "task_start", "task_end",
    "task_server", "task_first", "tasks", "servers",
)  # fmt: skip


@kernel
def push(c: Ints, time: float, tag: int) -> None:
    """Note an end. Tags grow, so a later one never comes before an earlier one of its time."""
    c_time, c_tag = floats1(c, AT_END_TIME), ints1(c, AT_END_TAG)
    at = c[ENDS]
    c[ENDS] += 1
    while at > 0:
        above = (at - 1) // 4
        if c_time[above] <= time:
            break
        c_time[at], c_tag[at] = c_time[above], c_tag[above]
        at = above
    c_time[at], c_tag[at] = time, tag


@kernel
def pop(c: Ints) -> None:
    """Drop the first end."""
    c_time, c_tag = floats1(c, AT_END_TIME), ints1(c, AT_END_TAG)
    c[ENDS] -= 1
    last = c[ENDS]
    time, tag = c_time[last], c_tag[last]
    at = 0
    while True:
        first = 4 * at + 1
        if first >= last:
            break
        least = first
        for child in range(first + 1, min(first + 4, last)):
            if c_time[child] < c_time[least] or (
                c_time[child] == c_time[least] and c_tag[child] < c_tag[least]
            ):
                least = child
        if time < c_time[least] or (time == c_time[least] and tag < c_tag[least]):
            break
        c_time[at], c_tag[at] = c_time[least], c_tag[least]
        at = least
    c_time[at], c_tag[at] = time, tag


@kernel
def next_end(c: Ints, b: Ints) -> float:
    """Return when the next task ends; runs that were cut short are dropped on the way."""
    c_time, c_tag = floats1(c, AT_END_TIME), ints1(c, AT_END_TAG)
    b_task = ints2(b, AT_TASK)
    while c[ENDS] > 0 and b_task[c_tag[0] % MOST_TASKS, TASK_RUN] != c_tag[0] // MOST_TASKS:
        pop(c)
    return c_time[0] if c[ENDS] > 0 else np.inf


@kernel
def next_time(c: Ints, b: Ints) -> float:
    """Return when the next task arrives or ends."""
    c, b = bare(c), bare(b)
    c_arrival = floats1(c, AT_ARRIVAL)
    arrives = c_arrival[c[ARRIVED]] if c[ARRIVED] < len(c_arrival) else np.inf
    return min(next_end(c, b), arrives)


@kernel
def count_pool(c: Ints, b: Ints, time: float) -> None:
    """Bring the integrals of the pool up to `time`."""
    c_clock = floats1(c, AT_TIME)
    passed = time - c_clock[POOL_SINCE]
    if passed > 0:
        c_used, c_capacity = floats1(c, AT_USED), floats1(c, AT_CAPACITY)
        c_pool_used = ints1(c, AT_POOL_USED)
        b_total = floats1(b, AT_TOTAL)
        for r in range(b[RESOURCES]):
            c_used[r] += passed * c_pool_used[r]
            c_capacity[r] += passed * b_total[r]
        c_clock[POOL_SINCE] = time


@kernel
def count_user(c: Ints, user: int, time: float) -> None:
    """Bring the integral of a user's share up to `time`."""
    c_since, c_share = floats1(c, AT_SINCE), floats1(c, AT_SHARE)
    c_user_share = floats1(c, AT_USER_SHARE)
    c_user_share[user] += (time - c_since[user]) * c_share[user]
    c_since[user] = time


@kernel
def set_share(c: Ints, b: Ints, user: int) -> None:
    """Take a user's dominant share from the core."""
    c_share = floats1(c, AT_SHARE)
    b_usage, b_total = ints2(b, AT_USAGE), floats1(b, AT_TOTAL)
    highest = 0.0
    for r in range(b[RESOURCES]):
        if b_total[r] > 0:
            highest = max(highest, b_usage[user, r] / b_total[r])
    c_share[user] = highest


@kernel
def count(c: Ints, b: Ints, user: int, shape: int, sign: int, time: float) -> None:
    """Count one task more or fewer in use from now on."""
    c_pool_used, c_need = ints1(c, AT_POOL_USED), ints2(c, AT_NEED)
    count_pool(c, b, time)
    count_user(c, user, time)
    for r in range(b[RESOURCES]):
        c_pool_used[r] += sign * c_need[shape, r]
    set_share(c, b, user)


@kernel
def start(c: Ints, b: Ints, task: int, server: int, time: float) -> float:
    """Note the start of a task and return when it ends."""
    b_task = ints2(b, AT_TASK)
    c_user_started, c_user_wait = ints1(c, AT_USER_STARTED), floats1(c, AT_USER_WAIT)
    c_job_start = floats1(c, AT_JOB_START)
    batch = ints1(c, AT_BATCH)[task]
    user, job = b_task[task, TASK_USER], ints1(c, AT_BATCH_JOB)[batch]
    end = time + floats1(c, AT_DURATION)[task]
    is_first = b_task[task, TASK_RUN] == 0
    c[STARTS] += 1  # from 1 on: 0 is a task that never started
    b_task[task, TASK_RUN] = c[STARTS]
    if end < np.inf:
        push(c, end, c[STARTS] * MOST_TASKS + task)
    c[PLACEMENTS] += 1
    if is_first:
        c_user_started[user] += 1
        c_user_wait[user] += time - floats1(c, AT_ARRIVAL)[batch]
        if np.isnan(c_job_start[job]):
            c_job_start[job] = time
    if c[LOGS]:
        c_task_start, c_task_server = floats1(c, AT_TASK_START), ints1(c, AT_TASK_SERVER)
        c_task_start[task] = time
        c_task_server[task] = server
        if is_first:
            c_task_first = floats1(c, AT_TASK_FIRST)
            c_task_first[task] = time
    count(c, b, user, b_task[task, TASK_SHAPE], 1, time)
    return end


@kernel
def end(c: Ints, b: Ints, task: int, time: float) -> None:
    """Note the end of a task."""
    b_task = ints2(b, AT_TASK)
    c_job_done, c_job_finish = ints1(c, AT_JOB_DONE), floats1(c, AT_JOB_FINISH)
    c_user_done, c_active = ints1(c, AT_USER_DONE), ints1(c, AT_ACTIVE)
    batch = ints1(c, AT_BATCH)[task]
    user, job = b_task[task, TASK_USER], ints1(c, AT_BATCH_JOB)[batch]
    b_task[task, TASK_RUN] = -1
    finish(b, task)
    c_user_done[user] += 1
    c_active[ints1(c, AT_BATCH_PAIR)[batch]] -= 1
    c_job_done[job] += 1
    if c_job_done[job] == ints1(c, AT_JOB_SIZE)[job]:
        c_job_finish[job] = time
    if c[LOGS]:
        c_task_end = floats1(c, AT_TASK_END)
        c_task_end[task] = time
    count(c, b, user, b_task[task, TASK_SHAPE], -1, time)


@kernel
def release(c: Ints, b: Ints, time: float) -> None:
    """End the tasks that end at `time`, in order of their start."""
    c, b = bare(c), bare(b)
    c_clock, c_tag = floats1(c, AT_TIME), ints1(c, AT_END_TAG)
    while next_end(c, b) <= time:
        task = c_tag[0] % MOST_TASKS
        pop(c)
        end(c, b, task, time)
    c_clock[NOW] = time


@kernel
def arrive(c: Ints, b: Ints, time: float) -> None:
    """Let the tasks of `time` arrive."""
    c, b = bare(c), bare(b)
    c_clock = floats1(c, AT_TIME)
    c_arrival, c_count = floats1(c, AT_ARRIVAL), ints1(c, AT_BATCH_COUNT)
    c_user, c_shape = ints1(c, AT_BATCH_USER), ints1(c, AT_BATCH_SHAPE)
    c_pair, c_active = ints1(c, AT_BATCH_PAIR), ints1(c, AT_ACTIVE)
    c_clock[NOW] = time
    while c[ARRIVED] < len(c_arrival) and c_arrival[c[ARRIVED]] <= time:
        batch = c[ARRIVED]
        submit(b, c_user[batch], c_shape[batch], c_count[batch])
        c_active[c_pair[batch]] += c_count[batch]
        c[ARRIVED] += 1


@kernel
def settle(c: Ints, b: Ints, time: float) -> None:
    """Let the tasks of `time` arrive, and place."""
    c, b = bare(c), bare(b)
    tasks, servers = ints1(c, AT_TASKS), ints1(c, AT_SERVERS)
    arrive(c, b, time)
    again = True
    while again:
        again = False
        number = len(tasks)
        while number == len(tasks):
            number = place(b, tasks, servers, len(tasks))
            for i in range(number):
                if start(c, b, tasks[i], servers[i], time) <= time:
                    again = True
        if again:
            release(c, b, time)


@kernel
def advance(c: Ints, b: Ints, before: float) -> None:
    """Go through all instants with a time < `before`."""
    c, b = bare(c), bare(b)
    while True:
        time = next_time(c, b)
        if not time < before:
            return
        release(c, b, time)
        settle(c, b, time)


@kernel
def flush(c: Ints, b: Ints, time: float) -> None:
    """Bring all integrals up to `time`."""
    c, b = bare(c), bare(b)
    count_pool(c, b, time)
    for user in range(b[USERS]):
        count_user(c, user, time)


@kernel
def rescale(c: Ints, b: Ints) -> None:
    """Take shares and use from the core again."""
    c, b = bare(c), bare(b)
    c_pool_used, b_usage = ints1(c, AT_POOL_USED), ints2(b, AT_USAGE)
    for r in range(b[RESOURCES]):
        c_pool_used[r] = 0
        for user in range(b[USERS]):
            c_pool_used[r] += b_usage[user, r]
    for user in range(b[USERS]):
        set_share(c, b, user)


@kernel
def sample(b: Ints, share: np.ndarray, utilisation: np.ndarray) -> tuple[int, int]:
    """Write the dominant shares and what is in use; return how many tasks run and wait."""
    b = bare(b)
    b_usage, b_total = ints2(b, AT_USAGE), floats1(b, AT_TOTAL)
    b_running, b_queued = ints1(b, AT_RUNNING), ints1(b, AT_QUEUED)
    users = b[USERS]
    running = queued = 0
    for user in range(users):
        share[user] = 0.0
        running += b_running[user]
        queued += b_queued[user]
    for r in range(b[RESOURCES]):
        used = 0
        utilisation[r] = 0.0
        if b_total[r] > 0:
            for user in range(users):
                used += b_usage[user, r]
                share[user] = max(share[user], b_usage[user, r] / b_total[r])
            utilisation[r] = used / b_total[r]
    return running, queued
