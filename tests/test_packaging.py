"""What a wheel says of itself."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_classifiers_name_the_versions_of_python() -> None:
    versions = {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if "Python :: 3." in c}
    assert versions == {"3.11", "3.12", "3.13"}
    assert PROJECT["requires-python"] == ">=3.11"


def test_links_of_the_description_work_without_the_repository() -> None:
    text = (ROOT / PROJECT["readme"]).read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"", text)
    assert [t for pair in targets for t in pair if t and not t.startswith("https://")] == []
    assert "<picture>" not in text
    assert "](#" not in text


@pytest.mark.parametrize(
    "name", ["README.md", "DESCRIPTION.md", "CITATION.cff", "pyproject.toml", "docs/index.md"]
)
def test_it_is_called_an_independent_implementation(name: str) -> None:
    text = " ".join((ROOT / name).read_text(encoding="utf-8").split()).lower()
    assert "independent implementation" in text
    assert not re.search(r"(reference|official|re-?)\s*implementation", text)


def test_readme_says_how_to_install() -> None:
    assert "pip install ." in (ROOT / "README.md").read_text(encoding="utf-8")
