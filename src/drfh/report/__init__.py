"""Figures and offline pages of results."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drfh.report.pages.runs import load_runs, name_runs, save_figures, save_runs

__all__ = ["load_runs", "name_runs", "save_figures", "save_runs"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'drfh.report' has no attribute {name!r}")
    return getattr(import_module("drfh.report.pages.runs"), name)
