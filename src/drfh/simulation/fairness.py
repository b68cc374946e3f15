"""Fair levels of the active users of a run."""

from __future__ import annotations

import time
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from drfh.allocation.problem import Blocks, Problem
from drfh.mechanisms import prepare
from drfh.mechanisms.drfh import drfh
from drfh.model.cluster import Cluster
from drfh.model.users import User
from drfh.scheduler.core import Core
from drfh.simulation.plan import Plan

__all__ = ["FairLevels"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


class FairLevels:
    """Levels of users in the exact DRFH allocation of an instant.

    A user is *active* if it has tasks that run or wait for a server. It enters with the mean
    demand of these tasks and with their number. If all of them have the same restriction, the
    user has it; if they differ, it has none, and its fair level may be more than it could reach.

    Parameters
    ----------
    core
        The core that is read.
    plan
        What it was built for.
    users
        For their names.
    resources
        Names of the columns.
    """

    def __init__(
        self, core: Core, plan: Plan, users: tuple[User, ...], resources: tuple[str, ...]
    ) -> None:
        self.core, self.plan = core, plan
        self.users, self.resources = users, resources
        self.seconds = 0.0
        self.solved = 0
        #: Users who were active with tasks that differ, of which the mean was taken.
        self.mixed = np.zeros(len(users), dtype=bool)
        same = np.unique(
            np.column_stack((plan.need, plan.restriction)), axis=0, return_inverse=True
        )[1]
        self._kind: Ints = same.reshape(-1)  # equal for shapes that do not differ
        self._cluster: Cluster | None = None
        self._eligible: Bools
        self._total: Ints
        self._never: Bools
        self._last: tuple[bytes, Floats] | None = None
        self.servers_changed()

    def servers_changed(self) -> None:
        """Read the servers again."""
        plan, core = self.plan, self.core
        servers = range(len(plan.capacity))
        capacity = np.array([core.capacity(s) for s in servers], dtype=np.int64)
        up = np.flatnonzero(capacity.any(axis=1))
        self._last = None
        self._total = capacity.sum(axis=0)
        # Equal servers that no restriction tells apart are one group.
        marks = np.column_stack((capacity[up], plan.allowed[:, up].T))
        kinds, example, counts = np.unique(marks, axis=0, return_index=True, return_counts=True)
        self._eligible = plan.allowed[:, up[example]]
        self._cluster = None
        if len(kinds):
            sizes = kinds[:, : len(self.resources)].astype(np.float64)
            self._cluster = Cluster.from_arrays(sizes, self.resources, counts=counts)
        own = core.rules.policy.fits is not None  # which may look at the name of a server
        asked = up if own else up[example]
        self._never = np.array(
            [
                core.rules.refuses(need, capacity)
                or not any(core.could_hold(shape, int(server)) for server in asked)
                for shape, need in enumerate(plan.need)
            ],
            dtype=bool,
        )

    def at(self, active: Ints) -> Floats:
        """Return the fair level of each user; NaN for inactive ones.

        Parameters
        ----------
        active
            Tasks of each pair that have arrived and not ended.
        """
        key = active.tobytes()
        if self._last is None or self._last[0] != key:
            started = time.perf_counter()
            self._last = key, self._solve(active)
            self.seconds += time.perf_counter() - started
        return self._last[1]

    def _solve(self, active: Ints) -> Floats:
        plan, users = self.plan, len(self.users)
        level = np.full(users, np.nan)
        live = np.flatnonzero((active > 0) & ~self._never[plan.pair_shape])
        if self._cluster is None or not len(live):
            return level
        owner, shape, tasks = plan.pair_user[live], plan.pair_shape[live], active[live]
        kinds_of = np.unique(owner * len(self._kind) + self._kind[shape]) // len(self._kind)
        self.mixed |= np.bincount(kinds_of, minlength=users) > 1
        count = np.bincount(owner, tasks, minlength=users)
        who = np.flatnonzero(count)
        needs = plan.need[shape] * (self._total > 0) * tasks[:, None].astype(np.float64)
        demand: Floats = np.column_stack(
            [np.bincount(owner, column, minlength=users)[who] for column in needs.T]
        )
        demand = demand / count[who, None]
        limits = plan.restriction[shape]
        least = np.full(users, len(plan.allowed))
        most = np.zeros(users, dtype=np.int64)
        np.minimum.at(least, owner, limits)
        np.maximum.at(most, owner, limits)
        restriction = np.where(least == most, most, 0)[who]
        free = not restriction.any()
        kinds = np.arange(len(self._cluster), dtype=np.int64)
        problem = Problem(
            self._cluster,
            tuple(self.users[i] for i in who.tolist()),
            demand,
            plan.weight[who],
            count[who].astype(np.float64),
            Blocks(kinds, np.zeros_like(kinds), self._cluster.counts),
            None if free else self._eligible,
            None if free else restriction,
        )
        if self.solved == 0:
            prepare(problem, 100)
        self.solved += 1
        tasks_of = drfh(problem).placement.user_tasks
        level[who] = tasks_of * problem.task_share / problem.weight
        return level
