"""Generators of synthetic clusters and workloads."""

from __future__ import annotations

from typing import Any

from drfh.errors import UnknownNameError
from drfh.files.reader import Ledger
from drfh.generators import google_like, small
from drfh.generators.base import Generator
from drfh.model.resources import FrozenMap
from drfh.traces.base import Trace, read_options

__all__ = ["GENERATORS", "Generator", "generate"]

#: Name → generator.
GENERATORS: dict[str, Generator] = {
    "google-like": google_like.GENERATOR,
    "paper-dynamic": small.PAPER_DYNAMIC,
    "bursts": small.BURSTS,
    "two-shapes": small.TWO_SHAPES,
    "elephants-and-mice": small.ELEPHANTS_AND_MICE,
    "gpu-mix": small.GPU_MIX,
}


def generate(name: str, **options: Any) -> Trace:
    """Generate a cluster and a workload; the same options give the same ones.

    Parameters
    ----------
    name
        A name of :data:`GENERATORS`.
    **options
        Of the generator: ``GENERATORS[name].options``.

    Returns
    -------
    Trace
        As if it had been read: it unpacks into the cluster and the workload.

    Examples
    --------
    >>> cluster, workload = generate("google-like", users=20, hours=2, servers=10, seed=1)
    >>> cluster.size, len(workload.users)
    (10, 20)
    """
    if name not in GENERATORS:
        raise UnknownNameError("generator", str(name), GENERATORS)
    chosen = GENERATORS[name]
    values = read_options(chosen.options, options, of=name)
    ledger = Ledger()
    reading = chosen.make(values, ledger)
    return Trace(
        format=name,
        source="generated",
        cluster=reading.cluster,
        workload=reading.workload,
        details=reading.details,
        window=reading.window,
        options=FrozenMap(values),
        counts=FrozenMap(ledger.counts),
        remarks=tuple(ledger.remarks),
    )
