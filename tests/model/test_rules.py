"""Rules by which servers admit tasks, as records, in files and in restrictions."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from drfh import Cluster, Kind, Scenario, Server, User, allocate, load_scenario, save_scenario
from drfh.errors import InputError
from drfh.files.scenario_file import parse_scenario, scenario_text
from drfh.model.edits import ReportedScenario, set_group
from drfh.model.rules import (
    AllOf,
    AnyOf,
    Match,
    Rule,
    Tolerates,
    Toleration,
    parse_rule,
    parse_taint,
)
from drfh.model.users import shown_restriction

RULE = AllOf(
    (
        AnyOf((Match("zone", "In", ("a", "b")), Match("disk", "Exists"))),
        Match(None, "NotIn", ("n3",)),
        Match("cores", "Gt", ("007",)),
        Tolerates((Toleration("gpu", "Exists", "", "NoSchedule"),)),
    )
)


def server(name: str, **labels: str) -> Server:
    return Server({"cpu": 4}, name=name, labels={"zone": "a", "cores": "8", **labels})


def test_a_rule_is_evaluated_on_labels_names_and_taints() -> None:
    assert RULE(server("n1"))
    assert not RULE(server("n3"))
    assert not RULE(server("n1", zone="c"))
    assert RULE(server("n1", zone="c", disk="ssd"))
    assert not RULE(server("n1", cores="7"))
    assert not RULE(server("n1", cores="many"))
    assert RULE(server("n1", **{"taint:gpu:NoSchedule": "yes"}))
    assert not RULE(server("n1", **{"taint:gpu:NoExecute": "yes"}))
    assert not RULE(server("n1", **{"taint:other:NoSchedule": ""}))


def test_a_rule_is_data() -> None:
    same = parse_rule(RULE.to_dict())
    assert same == RULE
    assert hash(same) == hash(RULE)
    assert pickle.loads(pickle.dumps(RULE)) == RULE
    text = "(zone=a|b or disk) and name≠n3 and cores>007 and tolerates gpu:NoSchedule"
    assert str(RULE) == text
    assert shown_restriction((RULE, "n7")) == f"{text} or n7"


def cluster() -> Cluster:
    return Cluster([server("n1"), server("n3"), server("n4", zone="c")])


def test_users_are_restricted_by_rules_as_by_names() -> None:
    by_rule = allocate(cluster(), [User("ann", {"cpu": 1}, servers=RULE)])
    assert by_rule.tasks == {"ann": 4}
    with pytest.raises(InputError, match="must match at least one server, got zone=z"):
        allocate(cluster(), [User("ann", {"cpu": 1}, servers=Match("zone", "In", ("z",)))])
    free = User("ann", {"cpu": 1}, servers=Tolerates())
    allocation = allocate(cluster(), [free])
    assert allocation.tasks == {"ann": 12}
    assert allocation.problem.eligible is None  # it restricts nobody here


def test_rules_in_scenario_files(tmp_path: Path) -> None:
    kinds = [Kind({"cpu": 1}, servers=[RULE, "n3"]), Kind({"cpu": 2}, servers=Match("a", "Exists"))]
    labelled = Server({"cpu": 1}, name="x", labels={"a": "1"})
    scenario = Scenario(
        cluster().plus(labelled),
        (User("ann", kinds=kinds), User("bob", {"cpu": 1}, servers={"rule": ["of", "thumb"]})),
    )
    for name in ("a.yaml", "a.json"):
        save_scenario(scenario, tmp_path / name)
        assert load_scenario(tmp_path / name) == scenario
    jsonschema = pytest.importorskip("jsonschema")
    import json

    from drfh.files.scenario_file import scenario_schema

    jsonschema.validate(json.loads((tmp_path / "a.json").read_text()), scenario_schema())
    assert "rule:" in scenario_text(scenario)


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ({"operator": "is"}, "servers.rule.operator must be one of"),
        ({"label": "zone", "operator": "In", "value": ["a"]}, "did you mean values"),
        ({"all": {}}, "servers.rule.all must be a list"),
        ({"any": [{"all": ["x"]}]}, r"servers.rule.any\[0\].all\[0\] must be all, any, tolerates"),
        ({"tolerates": ["gpu"]}, r"tolerates\[0\] must have key, value or effect"),
        ({"tolerates": [{"keys": "gpu"}]}, "did you mean key"),
    ],
)
def test_wrong_rules_are_one_line(rule: dict[str, Any], error: str) -> None:
    with pytest.raises(InputError, match=error) as caught:
        User("ann", {"cpu": 1}, servers={"rule": rule})
    assert "\n" not in str(caught.value)
    text = scenario_text(Scenario(cluster(), (User("ann", {"cpu": 1}),)))
    with pytest.raises(InputError, match=error):
        parse_scenario(f"{text}    servers: {{rule: {rule}}}\n", "a.yaml")


def test_a_rule_may_not_stand_beside_labels() -> None:
    with pytest.raises(InputError, match="must have nothing beside rule"):
        User("ann", {"cpu": 1}, servers={"rule": RULE.to_dict(), "zone": "a"})


def test_names_in_rules_follow_a_new_name() -> None:
    rule: Rule = Match(None, "In", ("n1", "n3"))
    state = ReportedScenario(Scenario(cluster(), (User("ann", {"cpu": 1}, servers=rule),)))
    after = set_group(state, "n1", server("renamed"))
    assert after.user("ann").servers == (Match(None, "In", ("renamed", "n3")),)


@pytest.mark.parametrize("text", ["", "=a", "gpu:Never", "gpu=yes:PreferNoSchedule"])
def test_wrong_taints(text: str) -> None:
    with pytest.raises(InputError, match="taint must look like KEY"):
        parse_taint(text)
