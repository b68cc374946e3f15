"""The generated reference is what the code says now: every page is written again and compared."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["reference"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    return load_script()


def test_pages_of_mechanisms_are_fresh(reference: ModuleType) -> None:
    for path, text in reference.pages().items():
        assert (DOCS / path).read_text(encoding="utf-8") == text, f"{path}: run make reference"


def test_no_page_is_left_over(reference: ModuleType) -> None:
    there = {f"mechanisms/{path.name}" for path in (DOCS / "mechanisms").glob("*.md")}
    assert there == {*reference.pages(), "mechanisms/found.md"}


def test_every_page_is_in_the_navigation(reference: ModuleType) -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(_leaves(yaml.safe_load(text)["nav"]))
    assert {*reference.pages(), "mechanisms/found.md", "properties.md"} <= listed


def test_what_properties_ask_is_fresh(reference: ModuleType) -> None:
    page = (DOCS / "properties.md").read_text(encoding="utf-8")
    assert reference.filled(page, "properties", reference.property_list()) == page


def test_fields_of_json_outputs_are_fresh(reference: ModuleType) -> None:
    page = (DOCS / "json.md").read_text(encoding="utf-8")
    assert reference.filled(page, "outputs", reference.output_tables()) == page
    for name in reference.OUTPUTS:
        assert f"### {name}\n" in page


def test_tables_have_every_property(reference: ModuleType) -> None:
    shown = {*reference.ALWAYS, *(p for columns in reference.TABLES.values() for p in columns)}
    assert shown | {"price-of-fairness"} == set(reference.drfh.PROPERTIES)


@pytest.mark.parametrize(
    "name",
    [
        "drfh",
        pytest.param("drf", marks=pytest.mark.slow),
        pytest.param("tsf", marks=pytest.mark.slow),
        "max-min:cpu",
        "whole-tasks",
    ],
)
def test_a_row_of_the_tables_is_fresh(reference: ModuleType, name: str) -> None:
    row = reference.survey(name)
    page = (DOCS / "properties.md").read_text(encoding="utf-8")
    for columns in reference.TABLES.values():
        marks = " | ".join(row.mark(column) for column in columns)
        line = f"| {reference.linked(name)} | {row.cases} | {marks} |"
        assert _without_amounts(line) in _without_amounts(page), "run make reference"


@pytest.mark.slow
def test_all_tables_are_fresh(reference: ModuleType) -> None:
    rows = [reference.survey(name) for name in reference.surveyed_mechanisms()]
    for path, text in reference.surveyed_pages(rows).items():
        there = (DOCS / path).read_text(encoding="utf-8")
        assert _without_amounts(there) == _without_amounts(text), f"{path}: run make reference"


def test_a_contradiction_stops_it(reference: ModuleType) -> None:
    finding = reference.Finding("pareto", "fails", 0.5, "half is idle", proof="a theorem")
    with pytest.raises(reference.Contradiction, match="half is idle"):
        reference._count(reference.Surveyed("drfh"), "a case", finding)


def test_a_page_without_the_part_is_an_error(reference: ModuleType) -> None:
    with pytest.raises(ValueError, match="no part tables"):
        reference.filled("# Nothing", "tables", "text")


def _without_amounts(text: str) -> str:
    """Leave out by how much: a search may find more on another machine."""
    return re.sub(r"(?:by )?(?:\d+ %|less than 1 %)", "", text)


def _leaves(nav: object) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    if isinstance(nav, dict):
        return [leaf for item in nav.values() for leaf in _leaves(item)]
    assert isinstance(nav, list)
    return [leaf for item in nav for leaf in _leaves(item)]
