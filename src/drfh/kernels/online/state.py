"""State of the indexed core: one header of integers that leads to all arrays.

A kernel takes the header ``b`` alone. It holds the fixed numbers of the policy, the counters, and
for each array its address and its size; ``ints2(b, AT_FREE)`` is the array itself. Sixty arrays as
arguments would cost more than the work: numba would pass, and compile, five hundred numbers a call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from drfh.kernels import machine_code
from drfh.kernels.online.views import bare, view1, view2

__all__ = [
    "CoreArrays",
    "StateHeader",
    "flags1",
    "flags2",
    "floats1",
    "floats2",
    "ints1",
    "ints2",
    "small1",
    "small2",
    "tiny2",
]

Ints = NDArray[np.int64]
Small = NDArray[np.int32]
Tiny = NDArray[np.int16]
Flags = NDArray[np.uint8]
Floats = NDArray[np.float64]

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a function when it is first called, dividing by zero as NumPy does."""
    return machine_code.kernel(function, error_model="numpy")


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
    OTHER, INDEX, LISTS, RULES,
) = range(14)  # fmt: skip

# Counters, in `count`.
(
    USERS, SERVERS, TASKS, QUEUES, NEXT_ORDER, DIRTY, EPOCH, LEAVES, DIRECTORY, SPARE, STAIR_LEAVES,
    RUNNING_NOW, QUEUED_NOW, SPLIT, STEPS, ROUNDING, WAITERS, COUNTERS,
) = range(14, 32)  # fmt: skip

# Columns of a server's row; what is free follows. SLOT: its entry in a block.
IS_DIRTY, FIRST_ON, LAST_ON, SLOT, FREE = range(5)

# Columns of a task's row: one line of the processor's cache. The last one is the simulator's.
(
    TASK_USER, TASK_SHAPE, TASK_STATE, TASK_SERVER, TASK_ORDER, TASK_BEFORE, TASK_AFTER, TASK_RUN,
) = range(8)  # fmt: skip

BLOCK = 128  # servers in a block of the Best-Fit index
MOST_STEPS = 256  # of a staircase of the First-Fit index
LEAF = 8  # servers under a leaf of the First-Fit tree
RETURNED = 2**52
LARGEST = 2**62

# Where the address, the rows and the columns of each array stand in the header.
(
    AT_DRAWS, AT_FULL, AT_TOTAL, AT_CAPACITY, AT_SERVER, AT_DIRTY_LIST, AT_WEIGHT, AT_USAGE,
    AT_LEVEL, AT_RUNNING, AT_QUEUED, AT_NEVER_TASKS, AT_FIRST_QUEUE, AT_READY_FIRST,
    AT_WAITING_FIRST, AT_WAITING_NEED, AT_STACK, AT_NEED, AT_PART, AT_RATIO, AT_REFERENCE,
    AT_RESTRICTION,
    AT_NEVER, AT_BLOCKED, AT_WAITERS, AT_ALLOWED, AT_QUEUE_USER, AT_QUEUE_SHAPE, AT_QUEUE_HEAD,
    AT_QUEUE_TAIL, AT_QUEUE_STATE, AT_NEXT_QUEUE, AT_TASK, AT_BLOCK_KEY, AT_BLOCK_SERVER,
    AT_BLOCK_LENGTH, AT_BLOCK_FREE, AT_SPARE, AT_DIRECTORY, AT_DIRECTORY_KEY, AT_BLOCK_BOUND,
    AT_BLOCK_LEAST, AT_BLOCK_FIRST, AT_BLOCK_MOST, AT_BLOCK_LOW, AT_BLOCK_HIGH,
    AT_BLOCK_SCRATCH, AT_STEPS, AT_STANDING, AT_STAIRS, AT_STAIRS_REST,
) = range(COUNTERS, COUNTERS + 153, 3)  # fmt: skip

ARRAYS = (
    "draws", "full", "total", "capacity", "server", "dirty_list", "weight", "usage", "level",
    "running", "queued", "never_tasks", "first_queue", "ready_first", "waiting_first",
    "waiting_need", "stack", "need", "part", "ratio", "reference", "restriction", "never",
    "blocked", "waiters",
    "allowed", "queue_user", "queue_shape", "queue_head", "queue_tail", "queue_state",
    "next_queue", "task", "block_key", "block_server", "block_length", "block_free", "spare",
    "directory", "directory_key", "block_bound", "block_least", "block_first", "block_most",
    "block_low", "block_high", "block_scratch", "steps", "standing", "stairs", "stairs_rest",
)  # fmt: skip


@kernel
def ints1(b: Ints, at: int) -> Ints:
    """Return an array of the state."""
    return view1(bare(b), at, np.int64(0))


@kernel
def ints2(b: Ints, at: int) -> Ints:
    """Return an array of the state with two axes."""
    return view2(bare(b), at, np.int64(0))


@kernel
def small1(b: Ints, at: int) -> Small:
    """Return an array of the state."""
    return view1(bare(b), at, np.int32(0))


@kernel
def small2(b: Ints, at: int) -> Small:
    """Return an array of the state with two axes."""
    return view2(bare(b), at, np.int32(0))


@kernel
def tiny2(b: Ints, at: int) -> Tiny:
    """Return an array of the state with two axes."""
    return view2(bare(b), at, np.int16(0))


@kernel
def flags1(b: Ints, at: int) -> Flags:
    """Return an array of the state."""
    return view1(bare(b), at, np.uint8(0))


@kernel
def flags2(b: Ints, at: int) -> Flags:
    """Return an array of the state with two axes."""
    return view2(bare(b), at, np.uint8(0))


@kernel
def floats1(b: Ints, at: int) -> Floats:
    """Return an array of the state."""
    return view1(bare(b), at, np.float64(0))


@kernel
def floats2(b: Ints, at: int) -> Floats:
    """Return an array of the state with two axes."""
    return view2(bare(b), at, np.float64(0))


@kernel
def words1(b: Ints, at: int) -> NDArray[np.uint64]:
    """Return an array of the state."""
    return view1(bare(b), at, np.uint64(0))


class StateHeader:
    """Arrays by name, and the integers that lead to them.

    Parameters
    ----------
    registers
        How many integers come before the addresses.
    names
        The arrays, in the order of their ``AT_`` numbers.
    """

    def __init__(self, registers: int, names: tuple[str, ...]) -> None:
        self.head = np.zeros(registers + 3 * len(names), dtype=np.int64)
        self._at = {name: registers + 3 * position for position, name in enumerate(names)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become a copy: its addresses are those of its own arrays."""
        self.__dict__.update(state)
        for name in self._at:
            if hasattr(self, name):
                self.set(name, getattr(self, name))

    def set(self, name: str, array: NDArray[Any]) -> None:
        """Take an array of one or two axes."""
        assert array.flags.c_contiguous, name
        setattr(self, name, array)  # keeps it alive as long as the header has its address
        at = self._at[name]
        self.head[at] = array.ctypes.data
        self.head[at + 1] = array.shape[0]
        self.head[at + 2] = array.shape[1] if array.ndim > 1 else 1


class CoreArrays(StateHeader):
    """All arrays of the indexed core. Rows beyond the counters are spare."""

    def __init__(self) -> None:
        super().__init__(COUNTERS, ARRAYS)

    @property
    def free(self) -> Ints:
        """What is free, servers × columns."""
        return self.server[:, FREE:]

    draws: NDArray[np.uint64]
    full: Floats  # what a full use of each column is, for levels
    total: Floats  # of each resource
    capacity: Ints  # servers × columns
    server: Ints  # IS_DIRTY …, then what is free by column
    dirty_list: Ints
    weight: Floats
    usage: Ints  # users × columns
    level: Floats
    running: Ints
    queued: Ints
    never_tasks: Ints  # tasks that no server can hold
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
    task: Ints  # TASK_USER …
    block_key: Floats
    block_server: Small
    block_length: Ints
    block_free: Ints  # blocks × entries × resources: what was free when the entry was made
    spare: Small  # blocks not in use
    directory: Small
    directory_key: Floats
    block_bound: Floats  # (key, number) from which a block begins
    block_least: Ints
    block_first: Ints  # lowest server number in it, or less
    block_most: Ints  # largest free amount of each resource
    block_low: Floats  # ratios to the reference, three and more resources
    block_high: Floats
    block_scratch: Floats  # lower bounds of one search
    steps: Ints
    standing: Tiny  # servers × (step, height there), as the stairs know them
    stairs: Tiny
    stairs_rest: Ints
