"""The record of a reproduction: tables, numbers and claims, on disk and back."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from drfh.errors import InputError
from drfh.experiments.claims import Claim
from drfh.files.atomic import read_text, shown_path

if TYPE_CHECKING:
    from drfh.experiments.evidence import Evidence

__all__ = ["RUNS", "SUMMARY_FILE", "TABLES", "Reproduction"]

#: The file by which the directory of a reproduction is known.
SUMMARY_FILE = "summary.json"
RUNS = "runs"
TABLES = "tables"


@dataclass(frozen=True, eq=False)
class Reproduction:
    """What ``drfh reproduce`` found out.

    Attributes
    ----------
    setup : dict
        Every choice, as plain data.
    tables : dict
        Name → table; each is described where it is made, in ``drfh.experiments``.
    numbers : dict
        What stands beside the tables, as plain data.
    claims : tuple of Claim
        The scorecard.
    evidence : Evidence or None
        The runs; None if this was read from a directory.
    """

    setup: dict[str, Any]
    tables: dict[str, pl.DataFrame]
    numbers: dict[str, Any]
    claims: tuple[Claim, ...]
    evidence: Evidence | None = None

    def summary(self) -> dict[str, Any]:
        """Return all but the tables as plain data, ready for JSON."""
        return {
            "setup": self.setup,
            "numbers": self.numbers,
            "claims": [asdict(claim) for claim in self.claims],
        }

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write tables (CSV and Parquet), the summary, and the runs, into a folder that is there.

        Parameters
        ----------
        folder
            ``tables/``, ``runs/`` and ``summary.json`` are written into it.
        """
        place = Path(folder)
        try:
            (place / TABLES).mkdir(exist_ok=True)
            for name, table in self.tables.items():
                table.write_parquet(place / TABLES / f"{name}.parquet")
                table.write_csv(place / TABLES / f"{name}.csv")
            if self.evidence is not None:
                self.evidence.write(place / RUNS)
            text = json.dumps(self.summary(), indent=2, ensure_ascii=False, allow_nan=False)
            (place / SUMMARY_FILE).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError("directory", f"must be writable ({reason})", str(place)) from None

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Reproduction:
        """Read tables and summary again.

        Examples
        --------
        >>> Reproduction.load("no-such-folder")
        Traceback (most recent call last):
        drfh.errors.InputError: no-such-folder: the directory must be one that drfh reproduce \
wrote (summary.json is missing)
        """
        place = Path(folder)
        if not (place / SUMMARY_FILE).is_file():
            rule = f"must be one that drfh reproduce wrote ({SUMMARY_FILE} is missing)"
            raise InputError("the directory", rule, place=shown_path(str(folder)))
        summary: Mapping[str, Any] = json.loads(read_text(str(place / SUMMARY_FILE)))
        tables = {
            path.stem: pl.read_parquet(path) for path in sorted((place / TABLES).glob("*.parquet"))
        }
        claims = tuple(
            Claim(**{**words, "spread": words["spread"] and tuple(words["spread"])})
            for words in summary["claims"]
        )
        return cls(dict(summary["setup"]), tables, dict(summary["numbers"]), claims)
