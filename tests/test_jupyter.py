"""The notebook of the documentation runs, and shows what it says it shows."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebook", DOCS / "notebook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(notebook: dict[str, Any]) -> list[Any]:
    """Return the outputs of all cells; of pictures only that they are there."""
    outputs = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            data = output.get("data", {"stdout": output.get("text")})
            drawn = {kind for kind in data if kind.startswith("image/")}
            outputs.append(sorted(drawn) if drawn else data)
    return outputs


def test_it_shows_what_is_kept_in_it(script: ModuleType) -> None:
    kept = json.loads(script.NOTEBOOK.read_text(encoding="utf-8"))
    again = script.run_notebook(kept)
    assert shown(again) == shown(kept), "run make reference"


def test_it_shows_every_record_and_charts(script: ModuleType) -> None:
    kept = json.loads(script.NOTEBOOK.read_text(encoding="utf-8"))
    texts = [data["text/plain"] for data in shown(kept) if "text/html" in data]
    classes = ["Cluster", "Workload", "Allocation", "Comparison", "Report", "Result"]
    assert [text.partition("(")[0] for text in texts] == classes
    assert shown(kept).count(["image/svg+xml"]) == 2


def test_a_cell_that_fails_is_found(script: ModuleType) -> None:
    with pytest.raises(NameError):
        script.run_cell("nothing", {}, 1)
