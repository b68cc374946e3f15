"""GPU fragmentation (FGD): free capacity that the expected tasks cannot use.

Weng et al., Beware of fragmentation: scheduling GPU-sharing workloads with fragmentation gradient
descent, USENIX ATC 2023. As a policy it waits for servers that know their single GPU devices.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["fragmentation", "least_fragmenting_device"]

#: (CPU, GPU, how often) of the tasks to be expected.
Mix = Sequence[tuple[float, float, float]]


def fragmentation(cpu: float, gpus: Sequence[float], mix: Mix) -> float:
    """Return the expected amount of free GPU that the next task cannot use.

    Parameters
    ----------
    cpu
        Free CPU of the node.
    gpus
        Free part of each of its GPUs, 0 to 1.
    mix
        The tasks to be expected: CPU, GPU (a part of one, or whole ones) and probability.

    Examples
    --------
    >>> mix = [(4, 0.5, 0.5), (2, 1, 0.3), (10, 0.2, 0.2)]
    >>> round(fragmentation(8, [0.6, 0.4, 1.0], mix), 9)
    0.9
    """
    expected = 0.0
    for need, gpu, probability in mix:
        piece = min(gpu, 1.0)
        usable = [free for free in gpus if free >= piece > 0]
        runs = need <= cpu and (gpu <= 0 or len(usable) >= max(gpu, 1.0))
        lost = sum(free for free in gpus if free < piece) if runs else sum(gpus)
        expected += probability * lost
    return expected


def least_fragmenting_device(
    cpu: float, gpus: Sequence[float], task: tuple[float, float], mix: Mix
) -> tuple[int, float] | None:
    """Return the GPU on which a task adds the least fragmentation, and what it then is.

    `task` is (CPU, part of one GPU); None where it does not fit. Ties to the lowest index.

    Examples
    --------
    >>> mix = [(4, 0.5, 0.5), (2, 1, 0.3), (10, 0.2, 0.2)]
    >>> device, after = least_fragmenting_device(8, [0.6, 0.4, 1.0], (4, 0.5), mix)
    >>> device, round(after, 9)
    (0, 0.7)
    """
    need, gpu = task
    best: tuple[int, float] | None = None
    for device, free in enumerate(gpus):
        if need > cpu or gpu > free:
            continue
        left = [*gpus[:device], free - gpu, *gpus[device + 1 :]]
        after = fragmentation(cpu - need, left, mix)
        if best is None or after < best[1]:
            best = (device, after)
    return best
