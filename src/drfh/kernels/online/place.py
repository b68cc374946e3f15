"""Steps of the core: start tasks, end them, and find who is next and where.

What a release makes possible is found exactly, without trying everybody again: a server whose
room grew is *dirty* until the next round of placing is over, and a waiting head can fit on a
dirty server only. Dirty servers are looked at one by one and come back into the index at the end
of the round.
"""

from __future__ import annotations

import numpy as np

from drfh.kernels.online.blocks import blocks_search, blocks_update
from drfh.kernels.online.scan import draw, holds, scan, score
from drfh.kernels.online.stairs import stairs_search, stairs_update
from drfh.kernels.online.state import (
    AT_BLOCKED,
    AT_DIRTY_LIST,
    AT_FIRST_QUEUE,
    AT_NEED,
    AT_NEXT_QUEUE,
    AT_QUEUE_HEAD,
    AT_QUEUE_SHAPE,
    AT_QUEUE_STATE,
    AT_QUEUE_USER,
    AT_QUEUED,
    AT_READY_FIRST,
    AT_RUNNING,
    AT_SERVER,
    AT_TASK,
    AT_USAGE,
    AT_WAITING_FIRST,
    BY_BLOCKS,
    BY_STAIRS,
    CHOICE,
    DIRTY,
    EPOCH,
    FIRST_ON,
    FREE,
    GONE,
    INDEX,
    IS_DIRTY,
    LARGEST,
    LAST_ON,
    LISTS,
    NEXT_ORDER,
    RANDOM,
    READY,
    RETURNED,
    RUNNING,
    RUNNING_NOW,
    SERVERS,
    STRICT,
    TASK_AFTER,
    TASK_BEFORE,
    TASK_ORDER,
    TASK_SERVER,
    TASK_SHAPE,
    TASK_STATE,
    TASK_USER,
    TASKS,
    WAITERS,
    WAITING,
    Ints,
    flags1,
    ints1,
    ints2,
    kernel,
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
from drfh.kernels.online.views import bare, seen

__all__ = ["cancel", "finish", "mark_dirty", "place", "put_back", "put_on", "submit", "wake_all"]


@kernel
def index_update(b: Ints, server: int) -> None:
    """Bring the index up to date with one server."""
    b = bare(b)
    if b[INDEX] == BY_BLOCKS:
        blocks_update(b, server)
    elif b[INDEX] == BY_STAIRS:
        stairs_update(b, server)


@kernel
def mark_dirty(b: Ints, server: int) -> None:
    """Note that the room on a server grew."""
    b = bare(b)
    b_server = ints2(b, AT_SERVER)
    b_dirty_list = ints1(b, AT_DIRTY_LIST)
    if not b_server[server, IS_DIRTY]:
        b_server[server, IS_DIRTY] = 1
        b_dirty_list[b[DIRTY]] = server
        b[DIRTY] += 1


@kernel
def settle(b: Ints) -> None:
    """Take the dirty servers back into the index."""
    b = bare(b)
    b_server = ints2(b, AT_SERVER)
    b_dirty_list = ints1(b, AT_DIRTY_LIST)
    number = b[DIRTY]
    for i in range(number):
        b_server[b_dirty_list[i], IS_DIRTY] = 0
    for i in range(number):
        index_update(b, b_dirty_list[i])
    b[DIRTY] = 0
    b[EPOCH] += 1


@kernel
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


@kernel
def wake_all(b: Ints) -> None:
    """Forget who fits nowhere."""
    b = bare(b)
    b_waiting_first = small1(b, AT_WAITING_FIRST)
    b[EPOCH] += 1
    while b_waiting_first[1] >= 0:
        wake(b, b_waiting_first[1])


@kernel
def put_on(b: Ints, task: int, server: int) -> None:
    """Start a task on a server. The index, the level and the tree are left to the caller."""
    b = bare(b)
    b_task = ints2(b, AT_TASK)
    b_server = ints2(b, AT_SERVER)
    b_need = ints2(b, AT_NEED)
    b_usage = ints2(b, AT_USAGE)
    b_running = ints1(b, AT_RUNNING)
    user, shape = b_task[task, TASK_USER], b_task[task, TASK_SHAPE]
    for r in range(b_need.shape[1]):
        b_server[server, FREE + r] -= b_need[shape, r]
        b_usage[user, r] += b_need[shape, r]
    b_running[user] += 1
    b[RUNNING_NOW] += 1
    b_task[task, TASK_STATE] = RUNNING
    b_task[task, TASK_SERVER] = server
    if not b[LISTS]:
        return
    last = b_server[server, LAST_ON]
    b_task[task, TASK_BEFORE] = last
    b_task[task, TASK_AFTER] = -1
    if last >= 0:
        b_task[last, TASK_AFTER] = task
    else:
        b_server[server, FIRST_ON] = task
    b_server[server, LAST_ON] = task


@kernel
def take_off(b: Ints, task: int) -> None:
    """End the run of a task; its server is dirty then."""
    b_task = ints2(b, AT_TASK)
    b_server = ints2(b, AT_SERVER)
    b_need = ints2(b, AT_NEED)
    b_usage = ints2(b, AT_USAGE)
    b_running = ints1(b, AT_RUNNING)
    user, shape, server = (
        b_task[task, TASK_USER],
        b_task[task, TASK_SHAPE],
        b_task[task, TASK_SERVER],
    )
    for r in range(b_need.shape[1]):
        b_server[server, FREE + r] += b_need[shape, r]
        b_usage[user, r] -= b_need[shape, r]
    b_running[user] -= 1
    b[RUNNING_NOW] -= 1
    b_task[task, TASK_SERVER] = -1
    if b[LISTS]:
        ahead, behind = b_task[task, TASK_BEFORE], b_task[task, TASK_AFTER]
        if ahead >= 0:
            b_task[ahead, TASK_AFTER] = behind
        else:
            b_server[server, FIRST_ON] = behind
        if behind >= 0:
            b_task[behind, TASK_BEFORE] = ahead
        else:
            b_server[server, LAST_ON] = ahead
    mark_dirty(b, server)


@kernel
def changed(b: Ints, user: int) -> None:
    """Follow a change of what a user holds, or of its queue."""
    b = bare(b)
    set_level(b, user)
    touch(b, user)


@kernel
def submit(b: Ints, user: int, shape: int, number: int) -> int:
    """Queue so many tasks and return the first."""
    b = bare(b)
    b_task = ints2(b, AT_TASK)
    first = b[TASKS]
    b[TASKS] += number
    stale = False
    for task in range(first, first + number):
        b_task[task, TASK_USER] = user
        b_task[task, TASK_SHAPE] = shape
        b_task[task, TASK_SERVER] = -1
        b_task[task, TASK_ORDER] = b[NEXT_ORDER]
        b[NEXT_ORDER] += 1
        if enqueue(b, task):
            stale = True
    if stale:
        changed(b, user)
    return first


@kernel
def cancel(b: Ints, task: int) -> None:
    """Drop a task that does not run."""
    b = bare(b)
    b_task = ints2(b, AT_TASK)
    if unlink(b, task):
        changed(b, b_task[task, TASK_USER])
    b_task[task, TASK_STATE] = GONE


@kernel
def finish(b: Ints, task: int) -> None:
    """End a task."""
    b = bare(b)
    b_task = ints2(b, AT_TASK)
    b_queued = ints1(b, AT_QUEUED)
    take_off(b, task)
    b_task[task, TASK_STATE] = GONE
    user = b_task[task, TASK_USER]
    set_level(b, user)
    if b_queued[user] > 0:
        touch(b, user)


@kernel
def put_back(b: Ints, task: int) -> None:
    """Take a task off its server, to the head of its user's queue."""
    b = bare(b)
    b_task = ints2(b, AT_TASK)
    take_off(b, task)
    if b_task[task, TASK_ORDER] >= 0:
        b_task[task, TASK_ORDER] -= RETURNED
    enqueue(b, task)
    changed(b, b_task[task, TASK_USER])


@kernel
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


@kernel
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


@kernel
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


@kernel
def search_dirty(b: Ints, shape: int) -> int:
    """Return the server for a task that fits no clean one, or -1."""
    if b[CHOICE] == RANDOM:
        return pick_any(b, shape, True)
    return among_dirty(b, shape, -1, np.inf)


@kernel
def fits_dirty(b: Ints, queue: int) -> bool:
    """Return whether the head of a waiting queue fits on a dirty server."""
    b_dirty_list = ints1(b, AT_DIRTY_LIST)
    for i in range(b[DIRTY]):  # noqa: SIM110 (numba)
        if head_fits(b, queue, b_dirty_list[i]):
            return True
    return False


@kernel
def next_of(b: Ints, user: int) -> tuple[int, int]:
    """Return (queue, server) of the user's oldest task that fits, or (-1, -1).

    Ready queues whose head does not fit start to wait.
    """
    b_task = ints2(b, AT_TASK)
    b_first_queue = small1(b, AT_FIRST_QUEUE)
    b_queue_state = flags1(b, AT_QUEUE_STATE)
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
                order = b_task[b_queue_head[queue], TASK_ORDER]
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


@kernel
def start_head(b: Ints, queue: int, server: int) -> int:
    """Start the head of a queue and return the task."""
    b_server = ints2(b, AT_SERVER)
    b_queue_head = small1(b, AT_QUEUE_HEAD)
    b_queue_user = small1(b, AT_QUEUE_USER)
    task = b_queue_head[queue]
    unlink(b, task)
    put_on(b, task, server)
    if not b_server[server, IS_DIRTY]:
        index_update(b, server)
    changed(b, b_queue_user[queue])
    return task


@kernel
def sort_dirty(b: Ints) -> None:
    """Sort the dirty servers by number."""
    b_dirty_list = ints1(b, AT_DIRTY_LIST)
    for i in range(1, b[DIRTY]):  # they are few: see below
        server = b_dirty_list[i]
        at = i
        while at > 0 and b_dirty_list[at - 1] > server:
            b_dirty_list[at] = b_dirty_list[at - 1]
            at -= 1
        b_dirty_list[at] = server


@kernel
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


@kernel
def place(b: Ints, tasks: np.ndarray, servers: np.ndarray, limit: int) -> int:
    """Start tasks until nothing fits any more, or `limit`; return how many.

    Fewer than the room in `tasks` and than `limit` means that the round is complete.
    """
    b = bare(b)
    tasks, servers = seen(tasks), seen(servers)
    b_dirty_list = ints1(b, AT_DIRTY_LIST)
    b_ready_first = small1(b, AT_READY_FIRST)
    b_waiting_first = small1(b, AT_WAITING_FIRST)
    if b[STRICT]:
        return place_strict(b, tasks, servers, limit)
    # To ask all who wait costs a search each; to look at dirty servers one by one, up to a look at
    # each for as many tasks as may start there. A search takes as long as about 50 looks.
    # A few dirty servers are always looked at: a task often goes where one has just ended, and the
    # index then changes once.
    if b[DIRTY] * b[DIRTY] > 50 * b[WAITERS] + 16:
        settle(b)
        wake_all(b)
    elif b[CHOICE] == RANDOM and b[DIRTY] > 1:
        sort_dirty(b)
    placed = 0
    while placed < limit:
        user = b_ready_first[1]
        if b_waiting_first[1] >= 0:
            for i in range(b[DIRTY]):
                user = first_waiting_for(b, b_dirty_list[i], user)
        if user < 0:
            break
        queue, server = next_of(b, user)
        if queue < 0:
            touch(b, user)
            continue
        tasks[placed] = start_head(b, queue, server)
        servers[placed] = server
        placed += 1
    # Dirty servers matter to those who wait. After `limit` they may not have been asked yet.
    if placed < limit or b_waiting_first[1] < 0:
        settle(b)
    return placed
