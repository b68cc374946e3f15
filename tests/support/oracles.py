"""Independent answers, written in another way than the product: for tests only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import highspy
import numpy as np
from numpy.typing import NDArray

from drfh import Cluster, User
from drfh.model.users import eligible_servers


def leximin_owa(cluster: Cluster, users: Sequence[User]) -> NDArray[np.float64]:
    """Levels by ordered weighted averages: for q = 1, 2, … maximise the sum of the q lowest.

    Max q·t_q − Σ_i e_iq with e_iq ≥ t_q − level_i, e ≥ 0, the earlier optima kept. Servers are
    single and raw units are used: nothing is shared with the product but the records.
    """
    servers = [(g, i) for g, s in enumerate(cluster.servers) for i in range(s.count)]
    totals = dict.fromkeys(cluster.resources, 0.0)
    for server in cluster.servers:
        for r, amount in server.resources.items():
            totals[r] += amount * server.count
    n = len(users)
    task_share = [max(a / totals[r] for r, a in u.demand.items() if a > 0) for u in users]
    model = highspy.Highs()
    model.silent()
    model.setOptionValue("primal_feasibility_tolerance", 1e-10)
    model.setOptionValue("dual_feasibility_tolerance", 1e-10)
    tasks = {}
    for i, user in enumerate(users):
        groups, singles = (
            (np.ones(len(cluster), bool), {})
            if user.servers is None
            else eligible_servers(user, cluster)
        )
        for g, index in servers:
            if groups[g] or index in singles.get(g, ()):
                tasks[i, g, index] = model.addVariable(lb=0)
    for g, index in servers:
        for r in cluster.resources:
            load = [
                u.demand.get(r, 0) * tasks[i, g, index]
                for i, u in enumerate(users)
                if (i, g, index) in tasks and u.demand.get(r, 0) > 0
            ]
            if load:
                model.addConstr(sum(load) <= cluster.servers[g].resources.get(r, 0.0))
    level = []
    for i, user in enumerate(users):
        mine = [v for (j, _, _), v in tasks.items() if j == i]
        total = model.addVariable(lb=0, ub=highspy.kHighsInf if user.tasks is None else user.tasks)
        model.addConstr(total == sum(mine))
        level.append((task_share[i] / user.weight) * total)
    lowest_sums = [0.0]
    for q in range(1, n + 1):
        threshold = model.addVariable(lb=-highspy.kHighsInf)
        below = [model.addVariable(lb=0) for _ in users]
        for i in range(n):
            model.addConstr(below[i] - threshold + level[i] >= 0)
        objective = q * threshold - sum(below)
        model.maximize(objective)
        best = model.getInfo().objective_function_value
        lowest_sums.append(best)
        model.addConstr(objective >= best - 1e-11 * max(1.0, abs(best)))
    values = np.array(model.getSolution().col_value)
    # The levels of the last solution; each is pinned by the sums of the lowest ones.
    reached = [
        (task_share[i] / users[i].weight)
        * sum(values[v.index] for (j, _, _), v in tasks.items() if j == i)
        for i in range(n)
    ]
    return np.array(reached)


def single_server_drf(capacity: Mapping[str, float], users: Sequence[User]) -> list[float]:
    """Closed form for one server, positive demands, no caps: g = 1 / max_r Σ_i w_i d_ir."""
    shares = [[u.demand[r] / c for r, c in capacity.items()] for u in users]
    dominant = [max(row) for row in shares]
    g = 1 / max(
        sum(u.weight * row[r] / top for u, row, top in zip(users, shares, dominant, strict=True))
        for r in range(len(capacity))
    )
    return [u.weight * g / top for u, top in zip(users, dominant, strict=True)]


def water_filling(total: float, users: Sequence[User]) -> list[float]:
    """One resource: raise all by weight, stop at caps; by bisection on the level."""
    need = [next(iter(u.demand.values())) for u in users]

    def amounts(t: float) -> list[float]:
        return [
            min(u.weight * t, np.inf if u.tasks is None else u.tasks * d)
            for u, d in zip(users, need, strict=True)
        ]

    low, high = 0.0, total / min(u.weight for u in users)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(amounts(middle)) <= total else (low, middle)
    return [a / d for a, d in zip(amounts(low), need, strict=True)]
