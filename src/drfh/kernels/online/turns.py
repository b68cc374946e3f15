"""Turn order: a tree over the users, and their queues.

A queue is empty, ready (whether its head fits is not known) or waiting (its head fits no clean
server). Each node of the tree knows the first ready user and the first waiting user below it, and
the least that the heads of waiting queues below need of each column.
"""

from __future__ import annotations

import numpy as np

from drfh.kernels.online.state import (
    AT_ALLOWED,
    AT_BLOCKED,
    AT_FIRST_QUEUE,
    AT_FULL,
    AT_LEVEL,
    AT_NEED,
    AT_NEVER,
    AT_NEVER_TASKS,
    AT_NEXT_QUEUE,
    AT_QUEUE_HEAD,
    AT_QUEUE_SHAPE,
    AT_QUEUE_STATE,
    AT_QUEUE_TAIL,
    AT_QUEUE_USER,
    AT_QUEUED,
    AT_READY_FIRST,
    AT_RESTRICTION,
    AT_SERVER,
    AT_STACK,
    AT_TASK,
    AT_USAGE,
    AT_WAITERS,
    AT_WAITING_FIRST,
    AT_WAITING_NEED,
    AT_WEIGHT,
    BACKFILL,
    EMPTY,
    EPOCH,
    FIT_FROM,
    FIT_TO,
    FREE,
    LARGEST,
    LEAVES,
    LEVEL_FROM,
    LEVEL_TO,
    MODE,
    NEVER,
    OLDEST,
    QUEUED,
    QUEUED_NOW,
    QUEUES,
    READY,
    STRICT,
    SUM,
    TASK_AFTER,
    TASK_BEFORE,
    TASK_ORDER,
    TASK_SHAPE,
    TASK_STATE,
    TASK_USER,
    USERS,
    WAITERS,
    WAITING,
    Ints,
    flags1,
    flags2,
    floats1,
    ints1,
    ints2,
    kernel,
    small1,
)
from drfh.kernels.online.views import bare

__all__ = ["enqueue", "first_waiting_for", "set_level", "touch", "turns_build", "unlink"]


@kernel
def set_level(b: Ints, user: int) -> None:
    """Compute the level of a user, in the plain twin's order of operations."""
    b_task = ints2(b, AT_TASK)
    b_first_queue = small1(b, AT_FIRST_QUEUE)
    b_queue_head = small1(b, AT_QUEUE_HEAD)
    b_next_queue = small1(b, AT_NEXT_QUEUE)
    b_level = floats1(b, AT_LEVEL)
    b_full = floats1(b, AT_FULL)
    b_usage = ints2(b, AT_USAGE)
    b_weight = floats1(b, AT_WEIGHT)
    level = 0.0
    if b[MODE] == OLDEST:
        oldest = LARGEST
        queue = b_first_queue[user]
        while queue >= 0:
            head = b_queue_head[queue]
            if head >= 0 and b_task[head, TASK_ORDER] < oldest:
                oldest = b_task[head, TASK_ORDER]
            queue = b_next_queue[queue]
        b_level[user] = float(oldest) if oldest < LARGEST else 0.0
        return
    for column in range(b[LEVEL_FROM], b[LEVEL_TO]):
        if b_full[column] > 0:
            share = b_usage[user, column] / b_full[column]
            if b[MODE] == SUM:
                level = level + share
            elif share > level:
                level = share
    b_level[user] = level / b_weight[user]


@kernel
def earlier(b: Ints, one: int, two: int) -> int:
    """Return which of two users (-1: nobody) comes first."""
    b_level = floats1(b, AT_LEVEL)
    if one < 0:
        return two
    if two < 0:
        return one
    if b_level[one] < b_level[two] or (b_level[one] == b_level[two] and one < two):
        return one
    return two


@kernel
def fill_leaf(b: Ints, user: int) -> None:
    """Read the queues of a user into its leaf."""
    b_ready_first = small1(b, AT_READY_FIRST)
    b_waiting_first = small1(b, AT_WAITING_FIRST)
    b_waiting_need = ints2(b, AT_WAITING_NEED)
    b_first_queue = small1(b, AT_FIRST_QUEUE)
    b_queue_state = flags1(b, AT_QUEUE_STATE)
    b_queue_shape = small1(b, AT_QUEUE_SHAPE)
    b_need = ints2(b, AT_NEED)
    b_next_queue = small1(b, AT_NEXT_QUEUE)
    node = b[LEAVES] + user
    b_ready_first[node] = -1
    b_waiting_first[node] = -1
    for r in range(b[FIT_FROM], b[FIT_TO]):
        b_waiting_need[node, r] = LARGEST
    queue = b_first_queue[user]
    while queue >= 0:
        if b_queue_state[queue] == READY:
            b_ready_first[node] = user
        elif b_queue_state[queue] == WAITING:
            b_waiting_first[node] = user
            shape = b_queue_shape[queue]
            for r in range(b[FIT_FROM], b[FIT_TO]):
                if b_need[shape, r] < b_waiting_need[node, r]:
                    b_waiting_need[node, r] = b_need[shape, r]
        queue = b_next_queue[queue]


@kernel
def fill_node(b: Ints, node: int) -> None:
    """Join the two nodes below."""
    b_ready_first = small1(b, AT_READY_FIRST)
    b_waiting_first = small1(b, AT_WAITING_FIRST)
    b_waiting_need = ints2(b, AT_WAITING_NEED)
    left, right = 2 * node, 2 * node + 1
    b_ready_first[node] = earlier(b, b_ready_first[left], b_ready_first[right])
    b_waiting_first[node] = earlier(b, b_waiting_first[left], b_waiting_first[right])
    for r in range(b[FIT_FROM], b[FIT_TO]):
        b_waiting_need[node, r] = min(b_waiting_need[left, r], b_waiting_need[right, r])


@kernel
def climb_ready(b: Ints, user: int) -> None:
    """Follow a change of a leaf up the tree, as far as it matters: who is first of the ready."""
    b_level = floats1(b, AT_LEVEL)
    b_first = small1(b, AT_READY_FIRST)
    node = b[LEAVES] + user
    best = np.int64(b_first[node])
    level = b_level[best] if best >= 0 else np.inf
    while node > 1:
        other = np.int64(b_first[node ^ 1])
        if other >= 0:
            # Either may be first, like a coin: without a branch.
            its = b_level[other]
            wins = (best < 0) | (its < level) | ((its == level) & (other < best))
            best = other if wins else best
            level = its if wins else level
        node >>= 1
        before = b_first[node]
        b_first[node] = best
        # Who comes first may be the same as before and still have another level.
        if best == before and best != user:
            return


@kernel
def climb_waiting(b: Ints, user: int) -> None:
    """Follow a change of a leaf up the tree, as far as it matters: those who wait."""
    b_first = small1(b, AT_WAITING_FIRST)
    b_need = ints2(b, AT_WAITING_NEED)
    node = b[LEAVES] + user
    while node > 1:
        best = earlier(b, b_first[node], b_first[node ^ 1])
        above = node >> 1
        matters = best != b_first[above] or best == user
        b_first[above] = best
        for r in range(b[FIT_FROM], b[FIT_TO]):
            least = min(b_need[node, r], b_need[node ^ 1, r])
            if least != b_need[above, r]:
                b_need[above, r] = least
                matters = True
        if not matters:
            return
        node = above


@kernel
def touch(b: Ints, user: int) -> None:
    """Bring the tree up to date with one user."""
    b_ready_first = small1(b, AT_READY_FIRST)
    b_waiting_first = small1(b, AT_WAITING_FIRST)
    node = b[LEAVES] + user
    was_ready, was_waiting = b_ready_first[node] >= 0, b_waiting_first[node] >= 0
    fill_leaf(b, user)
    if was_ready or b_ready_first[node] >= 0:
        climb_ready(b, user)
    if was_waiting or b_waiting_first[node] >= 0:
        climb_waiting(b, user)


@kernel
def turns_build(b: Ints) -> None:
    """Compute all levels and build the tree anew."""
    b = bare(b)
    b_ready_first = small1(b, AT_READY_FIRST)
    b_waiting_first = small1(b, AT_WAITING_FIRST)
    b_waiting_need = ints2(b, AT_WAITING_NEED)
    for user in range(b[LEAVES]):
        if user < b[USERS]:
            set_level(b, user)
            fill_leaf(b, user)
        else:
            node = b[LEAVES] + user
            b_ready_first[node] = b_waiting_first[node] = -1
            for r in range(b_waiting_need.shape[1]):
                b_waiting_need[node, r] = LARGEST
    for node in range(b[LEAVES] - 1, 0, -1):
        fill_node(b, node)


@kernel
def first_waiting_for(b: Ints, server: int, bound: int) -> int:
    """Return the first of `bound` and the waiting users of whom a head fits on a server."""
    b_server = ints2(b, AT_SERVER)
    b_stack = small1(b, AT_STACK)
    b_waiting_first = small1(b, AT_WAITING_FIRST)
    b_waiting_need = ints2(b, AT_WAITING_NEED)
    b_first_queue = small1(b, AT_FIRST_QUEUE)
    b_queue_state = flags1(b, AT_QUEUE_STATE)
    b_next_queue = small1(b, AT_NEXT_QUEUE)
    leaves = b[LEAVES]
    best = bound
    top = 0
    b_stack[0] = 1
    while top >= 0:
        node = b_stack[top]
        top -= 1
        first = b_waiting_first[node]
        if first < 0 or first == best or earlier(b, first, best) != first:
            continue
        small = True
        for r in range(b[FIT_FROM], b[FIT_TO]):
            if b_waiting_need[node, r] > b_server[server, FREE + r]:
                small = False
                break
        if not small:
            continue
        if node >= leaves:
            queue = b_first_queue[first]
            while queue >= 0:
                if b_queue_state[queue] == WAITING and head_fits(b, queue, server):
                    best = first
                    break
                queue = b_next_queue[queue]
            continue
        # The child with the earlier user last, so that it is looked at next.
        left, right = 2 * node, 2 * node + 1
        if first == b_waiting_first[left]:
            left, right = right, left
        b_stack[top + 1] = left
        b_stack[top + 2] = right
        top += 2
    return best


@kernel
def head_fits(b: Ints, queue: int, server: int) -> bool:
    """Return whether the head of a queue fits on a server."""
    b_server = ints2(b, AT_SERVER)
    b_queue_shape = small1(b, AT_QUEUE_SHAPE)
    b_need = ints2(b, AT_NEED)
    b_restriction = small1(b, AT_RESTRICTION)
    b_allowed = flags2(b, AT_ALLOWED)
    shape = b_queue_shape[queue]
    for r in range(b[FIT_FROM], b[FIT_TO]):
        if b_need[shape, r] > b_server[server, FREE + r]:
            return False
    return b_restriction[shape] == 0 or b_allowed[b_restriction[shape], server] != 0


@kernel
def leave_waiting(b: Ints, queue: int) -> None:
    """Make a queue ready, or empty; the caller says which."""
    b_queue_state = flags1(b, AT_QUEUE_STATE)
    b_waiters = ints1(b, AT_WAITERS)
    b_queue_shape = small1(b, AT_QUEUE_SHAPE)
    if b_queue_state[queue] == WAITING:
        b_waiters[b_queue_shape[queue]] -= 1
        b[WAITERS] -= 1
    b_queue_state[queue] = READY


@kernel
def start_waiting(b: Ints, queue: int) -> None:
    """Note that the head of a queue fits no clean server."""
    b_queue_shape = small1(b, AT_QUEUE_SHAPE)
    b_queue_state = flags1(b, AT_QUEUE_STATE)
    b_waiters = ints1(b, AT_WAITERS)
    b_blocked = ints1(b, AT_BLOCKED)
    shape = b_queue_shape[queue]
    b_queue_state[queue] = WAITING
    b_waiters[shape] += 1
    b[WAITERS] += 1
    b_blocked[shape] = b[EPOCH]


@kernel
def new_head(b: Ints, queue: int) -> None:
    """Decide the state of a queue whose head is another one now."""
    b_task = ints2(b, AT_TASK)
    b_queue_head = small1(b, AT_QUEUE_HEAD)
    b_queue_state = flags1(b, AT_QUEUE_STATE)
    b_queue_shape = small1(b, AT_QUEUE_SHAPE)
    b_waiters = ints1(b, AT_WAITERS)
    b_blocked = ints1(b, AT_BLOCKED)
    leave_waiting(b, queue)
    head = b_queue_head[queue]
    if head < 0:
        b_queue_state[queue] = EMPTY
        return
    shape = b_task[head, TASK_SHAPE]
    b_queue_shape[queue] = shape
    # Others wait with the same shape: it is known to fit no clean server.
    if not b[STRICT] and (b_waiters[shape] > 0 or b_blocked[shape] == b[EPOCH]):
        start_waiting(b, queue)


@kernel
def queue_for(b: Ints, user: int, shape: int) -> int:
    """Return the queue of a user for a shape; a new one where there is none."""
    b_first_queue = small1(b, AT_FIRST_QUEUE)
    b_queue_shape = small1(b, AT_QUEUE_SHAPE)
    b_next_queue = small1(b, AT_NEXT_QUEUE)
    b_queue_user = small1(b, AT_QUEUE_USER)
    b_queue_head = small1(b, AT_QUEUE_HEAD)
    b_queue_tail = small1(b, AT_QUEUE_TAIL)
    b_queue_state = flags1(b, AT_QUEUE_STATE)
    queue = b_first_queue[user]
    if not b[BACKFILL] and queue >= 0:
        return queue
    while queue >= 0:
        if b_queue_shape[queue] == shape:
            return queue
        queue = b_next_queue[queue]
    queue = b[QUEUES]
    b[QUEUES] += 1
    b_queue_user[queue] = user
    b_queue_shape[queue] = shape
    b_queue_head[queue] = b_queue_tail[queue] = -1
    b_queue_state[queue] = EMPTY
    b_next_queue[queue] = b_first_queue[user]
    b_first_queue[user] = queue
    return queue


@kernel
def insert(b: Ints, queue: int, task: int) -> bool:
    """Put a task where its order belongs; return whether it is the head now."""
    b_task = ints2(b, AT_TASK)
    b_queue_tail = small1(b, AT_QUEUE_TAIL)
    b_queue_head = small1(b, AT_QUEUE_HEAD)
    order = b_task[task, TASK_ORDER]
    behind = b_queue_tail[queue]
    if behind >= 0 and b_task[behind, TASK_ORDER] > order:
        # It comes back: nearly always to the head.
        ahead = b_queue_head[queue]
        while b_task[ahead, TASK_ORDER] < order:
            ahead = b_task[ahead, TASK_AFTER]
        behind = b_task[ahead, TASK_BEFORE]
        b_task[ahead, TASK_BEFORE] = task
        b_task[task, TASK_AFTER] = ahead
    else:
        b_task[task, TASK_AFTER] = -1
        b_queue_tail[queue] = task
    b_task[task, TASK_BEFORE] = behind
    if behind >= 0:
        b_task[behind, TASK_AFTER] = task
        return False
    b_queue_head[queue] = task
    return True


@kernel
def enqueue(b: Ints, task: int) -> bool:
    """Queue a task, or count it as never to run; return whether its user has to be touched."""
    b = bare(b)
    b_never_tasks = ints1(b, AT_NEVER_TASKS)
    b_task = ints2(b, AT_TASK)
    b_never = flags1(b, AT_NEVER)
    b_queued = ints1(b, AT_QUEUED)
    user, shape = b_task[task, TASK_USER], b_task[task, TASK_SHAPE]
    if b_never[shape]:
        b_task[task, TASK_STATE] = NEVER
        b_never_tasks[user] += 1
        return False
    b_task[task, TASK_STATE] = QUEUED
    b_queued[user] += 1
    b[QUEUED_NOW] += 1
    queue = queue_for(b, user, shape)
    if insert(b, queue, task):
        new_head(b, queue)
        return True
    return False


@kernel
def unlink(b: Ints, task: int) -> bool:
    """Take a task out of its queue, or out of those that never run; return if it was the head."""
    b = bare(b)
    b_never_tasks = ints1(b, AT_NEVER_TASKS)
    b_task = ints2(b, AT_TASK)
    b_queued = ints1(b, AT_QUEUED)
    b_queue_tail = small1(b, AT_QUEUE_TAIL)
    b_queue_head = small1(b, AT_QUEUE_HEAD)
    user = b_task[task, TASK_USER]
    if b_task[task, TASK_STATE] == NEVER:
        b_never_tasks[user] -= 1
        return False
    b_queued[user] -= 1
    b[QUEUED_NOW] -= 1
    queue = queue_for(b, user, b_task[task, TASK_SHAPE])
    ahead, behind = b_task[task, TASK_BEFORE], b_task[task, TASK_AFTER]
    if behind >= 0:
        b_task[behind, TASK_BEFORE] = ahead
    else:
        b_queue_tail[queue] = ahead
    if ahead >= 0:
        b_task[ahead, TASK_AFTER] = behind
        return False
    b_queue_head[queue] = behind
    new_head(b, queue)
    return True
