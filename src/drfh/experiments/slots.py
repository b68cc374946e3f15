"""Table II: utilisation of slots, by their number and by what a slot is."""

from __future__ import annotations

import polars as pl

from drfh.experiments.evidence import Evidence, slots_name

__all__ = ["PAPER", "slots_table"]

#: Slots per largest server → CPU and memory utilisation that the paper states.
PAPER = {
    10: (0.351, 0.234),
    12: (0.422, 0.274),
    14: (0.439, 0.280),
    16: (0.454, 0.242),
    20: (0.406, 0.200),
}
_COLUMNS = {
    "source": pl.String, "slots": pl.Int64, "count_rule": pl.String, "oversize": pl.String,
    "seed": pl.Int64, "cpu": pl.Float64, "memory": pl.Float64, "completed": pl.Int64,
}  # fmt: skip


def slots_table(evidence: Evidence) -> pl.DataFrame:
    """Return the paper's rows, then ours: a row for each number, rule and seed.

    Columns: ``source`` (paper or ours), ``slots``, ``count_rule``, ``oversize``, ``seed``, the
    utilisation of ``cpu`` and ``memory`` over the whole window, tasks ``completed``.
    """
    rows: list[tuple[object, ...]] = [
        ("paper", number, None, None, None, *used, None) for number, used in PAPER.items()
    ]
    for seed in evidence.seeds:
        for count in evidence.count_rules:
            for oversize in evidence.oversize:
                for number in evidence.slots:
                    run = evidence.run(slots_name(number, count, oversize), seed).numbers
                    used = run["utilisation"]
                    done = run["tasks"]["completed"]
                    rows.append(
                        ("ours", number, count, oversize, seed, used["cpu"], used["memory"], done)
                    )
    return pl.DataFrame(rows, schema=_COLUMNS, orient="row")
