"""The state of the indexed brain: one header of integers that leads to all arrays.

A kernel takes the header ``b`` alone. It holds the fixed numbers of the policy, the counters, and
for each array its address and its size; ``ints2(b, AT_FREE)`` is the array itself. Sixty arrays as
arguments would cost more than the work: numba would pass, and compile, five hundred numbers a call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

__all__ = ["Brain", "flags1", "flags2", "floats1", "floats2", "ints1", "ints2", "small1", "small2"]

Ints = NDArray[np.int64]
Small = NDArray[np.int32]
Flags = NDArray[np.uint8]
Floats = NDArray[np.float64]

# Server choices.
FIRST_FIT, BEST_FIT, RANDOM, COSINE, SIMPLEX, HILBERT, ALIGNMENT, DOT, TIGHTEST, SPREAD = range(10)
CHOICES = (
    "first-fit", "best-fit", "random", "cosine", "simplex", "hilbert", "alignment", "dot",
    "tightest", "spread",
)  # fmt: skip

# How a level follows from what a user holds.
MAXIMUM, SUM, OLDEST = range(3)
MODES = ("max", "sum", "oldest")

# How servers are found.
BY_SCAN, BY_BLOCKS, BY_STAIRS = range(3)

# States of a task, as in drfh.scheduler.core, and of a queue.
QUEUED, NEVER, RUNNING, GONE = range(4)
EMPTY, READY, WAITING = range(3)

# Fixed numbers, at the start of the header.
(
    CHOICE, STRICT, BACKFILL, MODE, FIT_FROM, FIT_TO, LEVEL_FROM, LEVEL_TO, RESOURCES, REFERENCE,
    OTHER, INDEX, RULES,
) = range(13)  # fmt: skip

# Counters, in `count`.
(
    USERS, SERVERS, TASKS, QUEUES, NEXT_ORDER, DIRTY, EPOCH, LEAVES, DIRECTORY, SPARE, STAIR_LEAVES,
    RUNNING_NOW, QUEUED_NOW, COUNTERS,
) = range(13, 27)  # fmt: skip

BLOCK = 64  # servers in a block of the Best-Fit index
STEPS = 16  # levels of a staircase of the First-Fit index
LEAF = 4  # servers under a leaf of the First-Fit tree
RETURNED = 2**52
LARGEST = 2**62

# Where the address, the rows and the columns of each array stand in the header.
(
    AT_DRAWS, AT_FULL, AT_TOTAL, AT_ROOM, AT_FREE, AT_DIRTY, AT_DIRTY_LIST, AT_FIRST_ON,
    AT_LAST_ON, AT_WEIGHT, AT_USAGE, AT_LEVEL, AT_RUNNING, AT_QUEUED, AT_FIRST_QUEUE,
    AT_READY_FIRST, AT_WAITING_FIRST, AT_WAITING_NEED, AT_STACK, AT_NEED, AT_PART, AT_RATIO,
    AT_REFERENCE, AT_RESTRICTION, AT_NEVER, AT_BLOCKED, AT_WAITERS, AT_ALLOWED, AT_QUEUE_USER,
    AT_QUEUE_SHAPE, AT_QUEUE_HEAD, AT_QUEUE_TAIL, AT_QUEUE_STATE, AT_NEXT_QUEUE, AT_TASK_USER,
    AT_TASK_SHAPE, AT_TASK_STATE, AT_TASK_SERVER, AT_TASK_ORDER, AT_BEFORE, AT_AFTER, AT_KEY,
    AT_BLOCK_KEY, AT_BLOCK_SERVER, AT_BLOCK_LENGTH, AT_BLOCK_FREE, AT_SPARE, AT_DIRECTORY,
    AT_DIRECTORY_KEY, AT_DIRECTORY_FIRST, AT_DIRECTORY_BOUND, AT_DIRECTORY_MOST,
    AT_DIRECTORY_LOW, AT_DIRECTORY_HIGH, AT_STEPS, AT_STAIRS, AT_STAIRS_REST,
) = range(COUNTERS, COUNTERS + 171, 3)  # fmt: skip

ARRAYS = (
    "draws", "full", "total", "room", "free", "dirty", "dirty_list", "first_on", "last_on",
    "weight", "usage", "level", "running", "queued", "first_queue", "ready_first",
    "waiting_first", "waiting_need", "stack", "need", "part", "ratio", "reference",
    "restriction", "never", "blocked", "waiters", "allowed", "queue_user", "queue_shape",
    "queue_head", "queue_tail", "queue_state", "next_queue", "task_user", "task_shape",
    "task_state", "task_server", "task_order", "before", "after", "key", "block_key",
    "block_server", "block_length", "block_free", "spare", "directory", "directory_key",
    "directory_first", "directory_bound", "directory_most", "directory_low", "directory_high",
    "steps", "stairs", "stairs_rest",
)  # fmt: skip
HEADER = COUNTERS + 3 * len(ARRAYS)


@intrinsic
def _pointer(context: Any, address: Any, like: Any) -> Any:
    """Read an address as a pointer to numbers of the type of `like`."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], target.get_value_type(signature.return_type))

    return types.CPointer(like)(address, like), generate


@njit(cache=True)
def ints1(b: Ints, at: int) -> Ints:
    """Return an array of the state."""
    return carray(_pointer(b[at], np.int64(0)), (b[at + 1],))


@njit(cache=True)
def ints2(b: Ints, at: int) -> Ints:
    """Return an array of the state with two axes."""
    return carray(_pointer(b[at], np.int64(0)), (b[at + 1], b[at + 2]))


@njit(cache=True)
def small1(b: Ints, at: int) -> Small:
    """Return an array of the state."""
    return carray(_pointer(b[at], np.int32(0)), (b[at + 1],))


@njit(cache=True)
def small2(b: Ints, at: int) -> Small:
    """Return an array of the state with two axes."""
    return carray(_pointer(b[at], np.int32(0)), (b[at + 1], b[at + 2]))


@njit(cache=True)
def flags1(b: Ints, at: int) -> Flags:
    """Return an array of the state."""
    return carray(_pointer(b[at], np.uint8(0)), (b[at + 1],))


@njit(cache=True)
def flags2(b: Ints, at: int) -> Flags:
    """Return an array of the state with two axes."""
    return carray(_pointer(b[at], np.uint8(0)), (b[at + 1], b[at + 2]))


@njit(cache=True)
def floats1(b: Ints, at: int) -> Floats:
    """Return an array of the state."""
    return carray(_pointer(b[at], np.float64(0)), (b[at + 1],))


@njit(cache=True)
def floats2(b: Ints, at: int) -> Floats:
    """Return an array of the state with two axes."""
    return carray(_pointer(b[at], np.float64(0)), (b[at + 1], b[at + 2]))


@njit(cache=True)
def words1(b: Ints, at: int) -> NDArray[np.uint64]:
    """Return an array of the state."""
    return carray(_pointer(b[at], np.uint64(0)), (b[at + 1],))


class Brain:
    """All arrays by name, and the header that leads to them. Rows beyond the counters are room."""

    def __init__(self) -> None:
        self.head = np.zeros(HEADER, dtype=np.int64)

    def set(self, name: str, array: NDArray[Any]) -> None:
        """Take an array; its shape beyond two axes is flattened."""
        assert array.flags.c_contiguous, name
        setattr(self, name, array)  # keeps it alive as long as the header has its address
        at = COUNTERS + 3 * ARRAYS.index(name)
        self.head[at] = array.ctypes.data
        self.head[at + 1] = array.shape[0]
        self.head[at + 2] = array.shape[1] if array.ndim > 1 else 1

    draws: NDArray[np.uint64]
    full: Floats  # what a full use of each column is, for levels
    total: Floats  # of each resource
    room: Ints  # servers × columns
    free: Ints
    dirty: Flags
    dirty_list: Ints
    first_on: Small  # tasks that run there, in the order of placing
    last_on: Small
    weight: Floats
    usage: Ints  # users × columns
    level: Floats
    running: Ints
    queued: Ints
    first_queue: Small
    ready_first: Small
    waiting_first: Small
    waiting_need: Ints  # nodes × columns: the least need of a waiting head below
    stack: Small
    need: Ints  # shapes × columns
    part: Floats  # shapes × resources: the need in shares of the pool
    ratio: Floats  # shapes × resources: that divided by the reference
    reference: Small
    restriction: Small
    never: Flags
    blocked: Ints  # the epoch in which it was found to fit no clean server
    waiters: Ints  # queues that wait with such a head
    allowed: Flags  # restrictions × servers
    queue_user: Small
    queue_shape: Small
    queue_head: Small
    queue_tail: Small
    queue_state: Flags
    next_queue: Small
    task_user: Small
    task_shape: Small
    task_state: Flags
    task_server: Small
    task_order: Ints
    before: Small  # neighbours in a queue, or on a server
    after: Small
    key: Floats  # of each server
    block_key: Floats
    block_server: Small
    block_length: Ints
    block_free: Ints  # blocks × entries × resources: what was free when the entry was made
    spare: Small  # blocks not in use
    directory: Small
    directory_key: Floats
    directory_first: Ints  # lowest server number in the block, or less
    directory_bound: Floats  # scratch
    directory_most: Ints  # largest free amount of each resource in the block
    directory_low: Floats  # ratios to the reference, three and more resources
    directory_high: Floats
    steps: Ints
    stairs: Ints
    stairs_rest: Ints
