"""Fig. 7: the part of its tasks that each user gets done."""

from __future__ import annotations

import polars as pl

from drfh.experiments.evidence import BEST_FIT, Evidence

__all__ = ["ratios_of", "ratios_table"]


def ratios_of(evidence: Evidence, seed: int, blocked: str = "skip") -> pl.DataFrame:
    """Return ``user``, ``tasks``, ``best_fit`` and ``slots``: tasks completed over submitted."""
    one = evidence.run(BEST_FIT, seed, blocked).users
    two = evidence.run(evidence.best_slots(seed), seed, blocked).users
    return one.select(
        "user",
        pl.col("submitted").alias("tasks"),
        pl.col("completion_ratio").alias("best_fit"),
    ).with_columns(two["completion_ratio"].alias("slots"))


def ratios_table(evidence: Evidence) -> pl.DataFrame:
    """Return a row for each user and seed: ``user``, ``tasks``, ``best_fit``, ``slots``, ``seed``.

    Ratios of completed to submitted tasks, under Best-Fit and under slots at their best number.
    """
    return pl.concat(
        ratios_of(evidence, seed).with_columns(pl.lit(seed, dtype=pl.Int64).alias("seed"))
        for seed in evidence.seeds
    )
