"""Random clusters and users with everything that makes trouble: zeros, ties, caps, restrictions."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from drfh import Cluster, Server, User
from drfh.allocation.proofs.rational import RationalProblem

RESOURCES = ("cpu", "memory", "gpu", "disk", "net")
AMOUNTS = st.sampled_from([0, 0.25, 0.5, 1, 2, 3, 5, 8, 12])
POSITIVE = st.sampled_from([0.1, 0.2, 0.25, 0.5, 1, 1.5, 2, 3, 5, 8, 12])


def amounts(resources: tuple[str, ...], positive: bool) -> st.SearchStrategy[dict[str, float]]:
    values = POSITIVE if positive else AMOUNTS
    return st.fixed_dictionaries(dict.fromkeys(resources, values)).filter(
        lambda row: any(row.values())
    )


@st.composite
def clusters(
    draw: st.DrawFn, m: int, *, positive: bool = False, most: int = 5, most_count: int = 3
) -> Cluster:
    names = RESOURCES[:m]
    rows = draw(st.lists(amounts(names, positive), min_size=1, max_size=most))
    # Somebody must have some of everything, else a demand for it is an error.
    for name in names:
        if not any(row[name] for row in rows):
            rows[0] = {**rows[0], name: 1.0}
    return Cluster(
        [
            Server(
                row,
                name=f"s{i}",
                count=draw(st.integers(1, most_count)),
                labels={"zone": draw(st.sampled_from("ab"))},
            )
            for i, row in enumerate(rows)
        ]
    )


@st.composite
def parallel_problems(draw: st.DrawFn) -> tuple[Cluster, list[User]]:
    """Two resources; many servers and users have the same slope up to the last digit."""
    slopes = draw(st.lists(st.sampled_from([0.1, 0.3, 0.5, 0.7, 1.1, 3.0]), min_size=1, max_size=3))
    sizes = st.sampled_from([0.1, 0.3, 0.7, 1.0, 1.3, 4.9, 11.0])

    def row() -> dict[str, float]:
        size = draw(sizes)
        return {"cpu": size, "memory": size * draw(st.sampled_from(slopes))}

    cluster = Cluster([Server(row()) for _ in range(draw(st.integers(1, 6)))])
    users = [
        User(f"u{i}", row(), weight=draw(st.sampled_from([1, 3])))
        for i in range(draw(st.integers(1, 12)))
    ]
    return cluster, users


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    m: st.SearchStrategy[int] | None = None,
    positive: bool = False,
    caps: bool = True,
    weights: bool = True,
    restrictions: bool = True,
    most_users: int = 5,
) -> tuple[Cluster, list[User]]:
    width = draw(m if m is not None else st.integers(1, 5))
    cluster = draw(clusters(width, positive=positive))
    users = []
    for i in range(draw(st.integers(1, most_users))):
        servers = None
        if restrictions and draw(st.booleans()):
            group = draw(st.sampled_from(cluster.servers))
            single = f"{group.name}/{group.count - 1}" if group.count > 1 else str(group.name)
            servers = draw(
                st.sampled_from([group.name, single, {"zone": group.labels["zone"]},
                                 [str(group.name), str(cluster.servers[0].name)]])
            )  # fmt: skip
        users.append(
            User(
                f"u{i}",
                draw(amounts(RESOURCES[:width], positive)),
                weight=draw(st.sampled_from([0.5, 1, 2, 3])) if weights else 1,
                tasks=draw(st.sampled_from([None, None, 0, 0.5, 1, 4])) if caps else None,
                servers=servers,
            )
        )
    return cluster, users


@st.composite
def rational_problems(
    draw: st.DrawFn, numbers: str = "0 0 1 2 3 5 1/3 1e9 1e-9"
) -> RationalProblem:
    """Draw small problems in fractions, with ties, zeros and by default numbers far apart."""
    amount = st.sampled_from([Fraction(number) for number in numbers.split()])
    n, k, m = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 4))

    def table(rows: int) -> list[list[Fraction]]:
        return [[draw(amount) for _ in range(m)] for _ in range(rows)]

    demand, capacity = table(n), table(k)
    for row in demand:
        if not any(row):
            row[draw(st.integers(0, m - 1))] = Fraction(1)
    usable = [
        tuple(
            s
            for s in range(k)
            if all(capacity[s][r] or not need for r, need in enumerate(row)) and draw(st.booleans())
        )
        for row in demand
    ]
    caps = [draw(st.none() | st.integers(0, 5)) for _ in range(n)]
    return RationalProblem(
        tuple(map(tuple, demand)),
        tuple(map(tuple, capacity)),
        tuple(usable),
        tuple(Fraction(draw(st.integers(1, 3))) for _ in range(n)),
        tuple(
            Fraction(0) if not where else None if cap is None else Fraction(cap)
            for cap, where in zip(caps, usable, strict=True)
        ),
    )
