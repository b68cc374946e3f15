"""Nodes of one shape and the same rules are one group."""

from __future__ import annotations

from drfh import Cluster, Server
from drfh.model.rules import AllOf, Match, Tolerates
from drfh.traces.groups import group_nodes


def node(name: str, cpu: float = 8.0, **labels: str) -> Server:
    return Server({"cpu": cpu}, name=name, labels={"host": name, **labels})


def groups(nodes: list[Server], *restrictions: object) -> dict[str, int]:
    found = group_nodes(Cluster(nodes), restrictions)  # type: ignore[arg-type]
    for restriction in restrictions:
        for server in found.cluster.servers:
            for name in found.nodes.get(str(server.name), (str(server.name),)):
                one = next(n for n in nodes if n.name == name)
                for term in restriction:  # type: ignore[attr-defined]
                    if not isinstance(term, str):
                        assert term(server) == term(one)
    return dict(zip(found.cluster.names, found.cluster.counts.tolist(), strict=True))


NODES = [node(f"w-{i:02}", zone="ab"[i % 2]) for i in range(6)]


def test_groups_have_one_shape() -> None:
    assert groups([*NODES, node("w-9", 16)]) == {"w-*": 6, "w-9": 1}
    assert groups([*NODES, node("w-9", 8 + 1e-14)]) == {"w-*": 7}
    assert groups([node("a"), node("b")]) == {"a +1": 2}
    assert groups([node("a1.example"), node("b2.example")]) == {"*.example": 2}


def test_rules_tell_nodes_apart_only_where_they_do() -> None:
    assert groups(NODES, (Match("zone", "In", ("a", "b")),)) == {"w-*": 3, "w-* #2": 3}
    assert groups(NODES, (Match("zone", "NotIn", ("c",)),)) == {"w-*": 6}
    assert groups(NODES, (AllOf((Match("zone", "In", ("a",)), Tolerates())),)) == {
        "w-*": 3,
        "w-* #2": 3,
    }
    assert groups(NODES, (Match("host", "In", ("w-03",)),)) == {"w-*": 5, "w-03": 1}
    assert groups(NODES, (Match(None, "NotIn", ("w-03",)),)) == {"w-*": 5, "w-03": 1}
    several = groups(NODES, (Match(None, "In", ("w-01", "w-03")),))
    assert several == {"w-*": 4, "w-01": 1, "w-03": 1}


def test_names_become_names_of_groups() -> None:
    found = group_nodes(Cluster(NODES), [("w-01", "w-03"), None])
    assert found.cluster.names == ("w-*", "w-* #2")
    assert found.restriction(("w-01", "w-03")) == ("w-* #2",)
    assert found.place["w-03"] == ("w-* #2", "w-* #2/1")
