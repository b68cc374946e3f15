"""Options that edit a scenario make the same scenario as the explorer's steps."""

from __future__ import annotations

from typing import Any

import pytest

from drfh.cli.edits import changed
from drfh.web.session.steps import (
    AddServer,
    RemoveServer,
    SetServer,
    SetUser,
    Step,
    WorkbookState,
)
from tests.model.test_edits import TEAM


@pytest.mark.parametrize(
    ("options", "step"),
    [
        ({"remove": ["small"]}, RemoveServer("small")),
        ({"remove": ["small:2"]}, RemoveServer("small")),
        ({"remove": ["small:1"]}, SetServer("small", "count", "1")),
        ({"remove": ["big:2"]}, SetServer("big", "count", "2")),
        ({"add": ["3x big"]}, SetServer("big", "count", "7")),
        (
            {"add": ["2x cpu=8,memory=8,zone:b"]},
            AddServer(None, {"cpu": "8", "memory": "8"}, "2", "zone=b"),
        ),
        ({"weight": ["ann=3"]}, SetUser("ann", "weight", "3")),
        ({"tasks": ["bob="]}, SetUser("bob", "tasks", "")),
        ({"tasks": ["ann=7"]}, SetUser("ann", "tasks", "7")),
        ({"demand": ["bob:memory=2"]}, SetUser("bob", "memory", "2")),
    ],
)
def test_options_and_steps_make_the_same_scenario(options: Any, step: Step) -> None:
    assert changed(TEAM, **options) == step.apply(WorkbookState(TEAM)).scenario
