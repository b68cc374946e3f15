"""The brain's own steps: start tasks, end them, and the loop that finds who is next where.

What a release makes possible is found exactly, without trying everybody again: a server whose
room grew is *dirty* until the next round of placing is over, and a waiting head can fit on a
dirty server only. Dirty servers are looked at one by one and come back into the index at the end
of the round.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from drfh.kernels.online.blocks import blocks_search, blocks_update
from drfh.kernels.online.scan import draw, holds, scan, score
from drfh.kernels.online.stairs import stairs_search, stairs_update
from drfh.kernels.online.state import (
    AT_AFTER,
    AT_BEFORE,
    AT_BLOCKED,
    AT_DIRTY,
    AT_DIRTY_LIST,
    AT_FIRST_ON,
    AT_FIRST_QUEUE,
    AT_FREE,
    AT_LAST_ON,
    AT_NEED,
    AT_NEXT_QUEUE,
    AT_QUEUE_HEAD,
    AT_QUEUE_SHAPE,
    AT_QUEUE_STATE,
    AT_QUEUE_USER,
    AT_QUEUED,
    AT_READY_FIRST,
    AT_RUNNING,
    AT_TASK_ORDER,
    AT_TASK_SERVER,
    AT_TASK_SHAPE,
    AT_TASK_STATE,
    AT_TASK_USER,
    AT_USAGE,
    AT_WAITING_FIRST,
    BY_BLOCKS,
    BY_STAIRS,
    CHOICE,
    DIRTY,
    EPOCH,
    GONE,
    INDEX,
    LARGEST,
    NEXT_ORDER,
    QUEUED,
    RANDOM,
    READY,
    RETURNED,
    RUNNING,
    RUNNING_NOW,
    SERVERS,
    STRICT,
    TASKS,
    USERS,
    WAITING,
    Ints,
    flags1,
    ints1,
    ints2,
    small1,
)
from drfh.kernels.online.turns import (
    earlier,
    enqueue,
    first_waiting_for,
    head_fits,
    leave_waiting,
    set_level,
    start_waiting,
    touch,
    unlink,
)

__all__ = ["cancel", "finish", "mark_dirty", "place", "put_back", "put_on", "submit", "wake_all"]


@njit(cache=True)
def index_update(b: Ints, server: int) -> None:
    """Bring the index up to date with one server."""
    if b[INDEX] == BY_BLOCKS:
        blocks_update(b, server)
    elif b[INDEX] == BY_STAIRS:
        stairs_update(b, server)


@njit(cache=True)
def mark_dirty(b: Ints, server: int) -> None:
    """Note that the room on a server grew."""
    b_dirty = flags1(b, AT_DIRTY)
    b_dirty_list = ints1(b, AT_DIRTY_LIST)
    if not b_dirty[server]:
        b_dirty[server] = 1
        b_dirty_list[b[DIRTY]] = server
        b[DIRTY] += 1


@njit(cache=True)
def settle(b: Ints) -> None:
    """Take the dirty servers back into the index."""
    b_dirty = flags1(b, AT_DIRTY)
    b_dirty_list = ints1(b, AT_DIRTY_LIST)
    number = b[DIRTY]
    for i in range(number):
        b_dirty[b_dirty_list[i]] = 0
    for i in range(number):
        index_update(b, b_dirty_list[i])
    b[DIRTY] = 0
    b[EPOCH] += 1


@njit(cache=True)
def wake(b: Ints, user: int) -> None:
    """Forget that heads of a user fit nowhere."""
    b_first_queue = small1(b, AT_FIRST_QUEUE)
    b_queue_state = flags1(b, AT_QUEUE_STATE)
    b_next_queue = small1(b, AT_NEXT_QUEUE)
    queue = b_first_queue[user]
    while queue >= 0:
        if b_queue_state[queue] == WAITING:
            leave_waiting(b, queue)
        queue = b_next_queue[queue]
    touch(b, user)


@njit(cache=True)
def wake_all(b: Ints) -> None:
    """Forget who fits nowhere."""
    b_waiting_first = small1(b, AT_WAITING_FIRST)
    b[EPOCH] += 1
    while b_waiting_first[1] >= 0:
        wake(b, b_waiting_first[1])


@njit(cache=True)
def put_on(b: Ints, task: int, server: int) -> None:
    """Start a task on a server. The index, the level and the tree are left to the caller."""
    b_task_user = small1(b, AT_TASK_USER)
    b_task_shape = small1(b, AT_TASK_SHAPE)
    b_need = ints2(b, AT_NEED)
    b_free = ints2(b, AT_FREE)
    b_usage = ints2(b, AT_USAGE)
    b_running = ints1(b, AT_RUNNING)
    b_task_state = flags1(b, AT_TASK_STATE)
    b_task_server = small1(b, AT_TASK_SERVER)
    b_last_on = small1(b, AT_LAST_ON)
    b_before = small1(b, AT_BEFORE)
    b_after = small1(b, AT_AFTER)
    b_first_on = small1(b, AT_FIRST_ON)
    user, shape = b_task_user[task], b_task_shape[task]
    for r in range(b_need.shape[1]):
        b_free[server, r] -= b_need[shape, r]
        b_usage[user, r] += b_need[shape, r]
    b_running[user] += 1
    b[RUNNING_NOW] += 1
    b_task_state[task] = RUNNING
    b_task_server[task] = server
    last = b_last_on[server]
    b_before[task] = last
    b_after[task] = -1
    if last >= 0:
        b_after[last] = task
    else:
        b_first_on[server] = task
    b_last_on[server] = task


@njit(cache=True)
def take_off(b: Ints, task: int) -> None:
    """End the run of a task; its server is dirty then."""
    b_task_user = small1(b, AT_TASK_USER)
    b_task_shape = small1(b, AT_TASK_SHAPE)
    b_task_server = small1(b, AT_TASK_SERVER)
    b_need = ints2(b, AT_NEED)
    b_free = ints2(b, AT_FREE)
    b_usage = ints2(b, AT_USAGE)
    b_running = ints1(b, AT_RUNNING)
    b_before = small1(b, AT_BEFORE)
    b_after = small1(b, AT_AFTER)
    b_first_on = small1(b, AT_FIRST_ON)
    b_last_on = small1(b, AT_LAST_ON)
    user, shape, server = b_task_user[task], b_task_shape[task], b_task_server[task]
    for r in range(b_need.shape[1]):
        b_free[server, r] += b_need[shape, r]
        b_usage[user, r] -= b_need[shape, r]
    b_running[user] -= 1
    b[RUNNING_NOW] -= 1
    b_task_server[task] = -1
    ahead, behind = b_before[task], b_after[task]
    if ahead >= 0:
        b_after[ahead] = behind
    else:
        b_first_on[server] = behind
    if behind >= 0:
        b_before[behind] = ahead
    else:
        b_last_on[server] = ahead
    mark_dirty(b, server)


@njit(cache=True)
def changed(b: Ints, user: int) -> None:
    """Follow a change of what a user holds, or of its queue."""
    set_level(b, user)
    touch(b, user)


@njit(cache=True)
def submit(b: Ints, user: int, shape: int, number: int) -> int:
    """Queue so many tasks and return the first."""
    b_task_user = small1(b, AT_TASK_USER)
    b_task_shape = small1(b, AT_TASK_SHAPE)
    b_task_server = small1(b, AT_TASK_SERVER)
    b_task_order = ints1(b, AT_TASK_ORDER)
    first = b[TASKS]
    b[TASKS] += number
    stale = False
    for task in range(first, first + number):
        b_task_user[task] = user
        b_task_shape[task] = shape
        b_task_server[task] = -1
        b_task_order[task] = b[NEXT_ORDER]
        b[NEXT_ORDER] += 1
        if enqueue(b, task):
            stale = True
    if stale:
        changed(b, user)
    return first


@njit(cache=True)
def cancel(b: Ints, task: int) -> None:
    """Drop a task that does not run."""
    b_task_state = flags1(b, AT_TASK_STATE)
    b_task_user = small1(b, AT_TASK_USER)
    if b_task_state[task] == QUEUED and unlink(b, task):
        changed(b, b_task_user[task])
    b_task_state[task] = GONE


@njit(cache=True)
def finish(b: Ints, task: int) -> None:
    """End a task."""
    b_task_state = flags1(b, AT_TASK_STATE)
    b_task_user = small1(b, AT_TASK_USER)
    b_queued = ints1(b, AT_QUEUED)
    take_off(b, task)
    b_task_state[task] = GONE
    user = b_task_user[task]
    set_level(b, user)
    if b_queued[user] > 0:
        touch(b, user)


@njit(cache=True)
def put_back(b: Ints, task: int) -> None:
    """Take a task off its server, to the head of its user's queue."""
    b_task_order = ints1(b, AT_TASK_ORDER)
    b_task_user = small1(b, AT_TASK_USER)
    take_off(b, task)
    if b_task_order[task] >= 0:
        b_task_order[task] -= RETURNED
    enqueue(b, task)
    changed(b, b_task_user[task])


@njit(cache=True)
def search(b: Ints, shape: int) -> int:
    """Return the server that the policy chooses for a task, or -1."""
    how = b[INDEX]
    if how == BY_BLOCKS:
        best, best_score = blocks_search(b, shape)
    elif how == BY_STAIRS:
        best, best_score = stairs_search(b, shape), 0.0
    elif b[CHOICE] == RANDOM:
        return pick_any(b, shape, False)
    else:
        return scan(b, shape)
    return among_dirty(b, shape, best, best_score)


@njit(cache=True)
def among_dirty(b: Ints, shape: int, best: int, best_score: float) -> int:
    """Return the better of the best clean server (-1: none) and the dirty ones."""
    b_dirty_list = ints1(b, AT_DIRTY_LIST)
    for i in range(b[DIRTY]):
        server = b_dirty_list[i]
        if holds(b, shape, server):
            value = score(b, shape, server)
            if best < 0 or value < best_score or (value == best_score and server < best):
                best, best_score = server, value
    return best


@njit(cache=True)
def pick_any(b: Ints, shape: int, dirty_only: bool) -> int:
    """Return a random server that holds a task, or -1; nothing is drawn if there is none."""
    b_dirty_list = ints1(b, AT_DIRTY_LIST)
    number = b[DIRTY] if dirty_only else b[SERVERS]
    fitting = 0
    for i in range(number):
        if holds(b, shape, b_dirty_list[i] if dirty_only else i):
            fitting += 1
    if fitting == 0:
        return -1
    left = draw(b, fitting)
    for i in range(number):
        server = b_dirty_list[i] if dirty_only else i
        if holds(b, shape, server):
            if left == 0:
                return server
            left -= 1
    return -1


@njit(cache=True)
def search_dirty(b: Ints, shape: int) -> int:
    """Return the server for a task that fits no clean one, or -1."""
    if b[CHOICE] == RANDOM:
        return pick_any(b, shape, True)
    return among_dirty(b, shape, -1, np.inf)


@njit(cache=True)
def fits_dirty(b: Ints, queue: int) -> bool:
    """Return whether the head of a waiting queue fits on a dirty server."""
    b_dirty_list = ints1(b, AT_DIRTY_LIST)
    for i in range(b[DIRTY]):  # noqa: SIM110 (numba)
        if head_fits(b, queue, b_dirty_list[i]):
            return True
    return False


@njit(cache=True)
def next_of(b: Ints, user: int) -> tuple[int, int]:
    """Return (queue, server) of the user's oldest task that fits, or (-1, -1).

    Ready queues whose head does not fit start to wait.
    """
    b_first_queue = small1(b, AT_FIRST_QUEUE)
    b_queue_state = flags1(b, AT_QUEUE_STATE)
    b_task_order = ints1(b, AT_TASK_ORDER)
    b_queue_head = small1(b, AT_QUEUE_HEAD)
    b_next_queue = small1(b, AT_NEXT_QUEUE)
    b_queue_shape = small1(b, AT_QUEUE_SHAPE)
    b_blocked = ints1(b, AT_BLOCKED)
    while True:
        chosen, oldest = -1, LARGEST
        queue = b_first_queue[user]
        while queue >= 0:
            state = b_queue_state[queue]
            if state in (READY, WAITING):
                order = b_task_order[b_queue_head[queue]]
                if order < oldest and (state == READY or fits_dirty(b, queue)):
                    chosen, oldest = queue, order
            queue = b_next_queue[queue]
        if chosen < 0:
            return -1, -1
        shape = b_queue_shape[chosen]
        if b_queue_state[chosen] == WAITING:
            b_blocked[shape] = b[EPOCH]
            return chosen, search_dirty(b, shape)
        server = search(b, shape)
        if server >= 0:
            return chosen, server
        start_waiting(b, chosen)


@njit(cache=True)
def start_head(b: Ints, queue: int, server: int) -> int:
    """Start the head of a queue and return the task."""
    b_queue_head = small1(b, AT_QUEUE_HEAD)
    b_dirty = flags1(b, AT_DIRTY)
    b_queue_user = small1(b, AT_QUEUE_USER)
    task = b_queue_head[queue]
    unlink(b, task)
    put_on(b, task, server)
    if not b_dirty[server]:
        index_update(b, server)
    changed(b, b_queue_user[queue])
    return task


@njit(cache=True)
def place_strict(b: Ints, tasks: np.ndarray, servers: np.ndarray, limit: int) -> int:
    """Place until the user whose turn it is has nothing that fits. Nobody waits between rounds."""
    b_waiting_first = small1(b, AT_WAITING_FIRST)
    b_ready_first = small1(b, AT_READY_FIRST)
    settle(b)
    while b_waiting_first[1] >= 0:
        wake(b, b_waiting_first[1])
    placed = 0
    while placed < limit:
        user = earlier(b, b_ready_first[1], b_waiting_first[1])
        if user < 0:
            break
        queue, server = next_of(b, user)
        if queue < 0:
            touch(b, user)
            break
        tasks[placed] = start_head(b, queue, server)
        servers[placed] = server
        placed += 1
    return placed


@njit(cache=True)
def place(b: Ints, tasks: np.ndarray, servers: np.ndarray, limit: int) -> int:
    """Start tasks until nothing fits any more, or `limit`; return how many.

    Fewer than the room in `tasks` and than `limit` means that the round is complete.
    """
    b_dirty_list = ints1(b, AT_DIRTY_LIST)
    b_ready_first = small1(b, AT_READY_FIRST)
    b_waiting_first = small1(b, AT_WAITING_FIRST)
    if b[STRICT]:
        return place_strict(b, tasks, servers, limit)
    if b[DIRTY] > 64 and b[DIRTY] > 4 * b[USERS]:
        settle(b)
        wake_all(b)
    elif b[CHOICE] == RANDOM and b[DIRTY] > 1:
        b_dirty_list[: b[DIRTY]].sort()
    placed = 0
    while placed < limit:
        user = b_ready_first[1]
        if b_waiting_first[1] >= 0:
            for i in range(b[DIRTY]):
                user = first_waiting_for(b, b_dirty_list[i], user)
        if user < 0:
            settle(b)
            break
        queue, server = next_of(b, user)
        if queue < 0:
            touch(b, user)
            continue
        tasks[placed] = start_head(b, queue, server)
        servers[placed] = server
        placed += 1
    return placed
