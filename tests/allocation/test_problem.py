"""The problem as arrays."""

import numpy as np
import pytest

from drfh import Cluster, Server, User
from drfh.allocation.problem import Problem


@pytest.mark.parametrize("resources", [1, 2, 8, 9, 20])
@pytest.mark.parametrize("restricted", [False, True])
def test_usable_servers_have_all_that_a_user_needs(resources: int, restricted: bool) -> None:
    rng = np.random.default_rng(resources)
    names = [f"r{number}" for number in range(resources)]
    servers = [
        Server({name: float(rng.random() < 0.7) for name in names} | {names[0]: 1.0}, name=f"s{k}")
        for k in range(40)
    ]
    users = [
        User(
            f"u{number}",
            {name: float(rng.random() < 0.2) for name in names} | {names[-1]: 1.0},
            servers=[f"s{k}" for k in range(number, 40)] if restricted else None,
        )
        for number in range(15)
    ]
    problem = Problem.build(Cluster([*servers, Server(dict.fromkeys(names, 1.0))]), users)
    blocks = np.arange(len(problem.blocks))
    with np.errstate(all="raise"):
        usable = problem.usable_on(blocks)
    user, block = np.divmod(np.arange(15 * len(blocks)), len(blocks))
    expected = problem.can_use(user, block).reshape(15, -1)
    assert (np.ones_like(expected) if usable is None else usable).tolist() == expected.tolist()


def test_a_server_without_gpus_is_for_users_without_gpus() -> None:
    cluster = Cluster([Server({"cpu": 1}), Server({"cpu": 1, "gpu": 1})])
    problem = Problem.build(cluster, [User("ann", {"gpu": 1}), User("bob", {"cpu": 1})])
    needs, lacks = problem.demand > 0, problem.lacks
    assert lacks is not None
    usable = problem.usable_on(np.arange(2))
    assert usable is not None
    assert usable.dtype == np.bool_
    assert usable.tolist() == [[not (need & lack).any() for lack in lacks] for need in needs]
