"""Curves over the time of a simulation, as options for ECharts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from drfh.formatting import time_unit
from drfh.report.html import DASHES, FONT, PALETTE, join, tag
from drfh.web.play.recording import Recording

__all__ = ["LEFT", "RIGHT", "Curve", "curve_options", "fair_text", "keys", "shares_of", "used_of"]

Floats: TypeAlias = NDArray[np.float64]

#: Pixels left and right of the plot area.
LEFT, RIGHT = 52, 16
_MOST_USERS = 8
_MOST_FAIR = 4


@dataclass(frozen=True, eq=False)
class Curve:
    """Line of parts of 1 over time; thin for a fair share."""

    name: str
    colour: str
    dash: Sequence[int]
    time: Floats
    part: Floats
    thin: bool = False


def used_of(recording: Recording) -> list[Curve]:
    """Return the utilisation curve of each resource.

    Examples
    --------
    >>> from drfh import load_scenario, simulate
    >>> from drfh.web.play.recording import record
    >>> cluster, workload = load_scenario("gpu-day").cluster, load_scenario("gpu-day").workload
    >>> recording = record(simulate(cluster, workload, log=True), cluster, workload)
    >>> [curve.name for curve in used_of(recording)]
    ['cpu', 'memory', 'gpu']
    """
    samples = recording.samples
    return [
        Curve(name, _colour(i), _dash(i), samples.time, samples.utilisation[:, i])
        for i, name in enumerate(recording.resources)
    ]


def shares_of(recording: Recording, users: Sequence[str] = ()) -> list[Curve]:
    """Return the curves of dominant shares, with fair shares for up to four users.

    Parameters
    ----------
    users
        Names; by default the eight users with the largest mean shares.
    """
    samples = recording.samples
    if not users:
        users = [recording.users[i] for i in sorted(recording.largest[:_MOST_USERS])]
    place = {name: position for position, name in enumerate(recording.users)}
    curves = []
    for i, name in enumerate(users):
        own = place[name]
        curves.append(Curve(name, _colour(i), _dash(i), samples.time, samples.share[:, own]))
        if samples.fair is not None and len(recording.users) <= _MOST_FAIR:
            fair = samples.fair[:, own]
            curves.append(Curve(name, _colour(i), (), samples.time, fair, thin=True))
    return curves


def curve_options(curves: Sequence[Curve], end: float, most: float) -> dict[str, Any]:
    """Return the options of an ECharts line chart.

    Parameters
    ----------
    end
        End of the time axis in seconds.
    most
        Part of 1 that the vertical axis reaches, at least.

    Examples
    --------
    >>> curve = Curve("cpu", "#2d7dc4", (), np.array([0.0, 300.0]), np.array([0.5, 0.25]))
    >>> options = curve_options([curve], 600.0, 1.0)
    >>> options["series"][0]["data"], options["xAxis"]["max"]
    ([[0.0, 50.0], [5.0, 25.0]], 10.0)
    """
    size, unit = time_unit(end, short=True)
    top = next((t for t in (0.05, 0.1, 0.2, 0.4, 0.6, 0.8) if most <= t), 1.0)
    return {
        "animation": False,
        "textStyle": {"fontFamily": FONT},
        "grid": {"left": LEFT, "right": RIGHT, "top": 10, "bottom": 28},
        "xAxis": {
            "type": "value",
            "min": 0,
            "max": float(end / size) or 1.0,
            "axisLabel": {
                "color": "currentColor",
                "formatter": f"{{value}} {unit}",
                "hideOverlap": True,
                "showMaxLabel": False,
            },
            "axisLine": {"lineStyle": {"color": "currentColor", "opacity": 0.4}},
            "splitLine": {"show": False},
            "axisPointer": {"label": {"formatter": f"{{value}} {unit}", "precision": 2}},
            "splitNumber": 4,
        },
        "yAxis": {
            "type": "value",
            "min": 0,
            "max": round(100 * max(top, 0.01), 6),
            "interval": round(25 * top, 6),
            "axisLabel": {"formatter": "{value} %", "color": "currentColor"},
            "splitLine": {"lineStyle": {"color": "currentColor", "opacity": 0.15}},
        },
        "tooltip": {"trigger": "axis", "confine": True, "className": "drfh-tip",
                    "transitionDuration": 0},
        "series": [_series(curve, size) for curve in curves],
    }  # fmt: skip


def _series(curve: Curve, size: int) -> dict[str, Any]:
    kept = ~np.isnan(curve.part)
    values = np.where(kept, np.round(100 * curve.part, 2), 0.0)
    data = [
        [float(f"{time / size:.6g}"), value if there else None]
        for time, value, there in zip(
            curve.time.tolist(), values.tolist(), kept.tolist(), strict=True
        )
    ]
    dash = list(curve.dash) or "solid"
    style = {"color": curve.colour, "width": 1 if curve.thin else 2.2, "type": dash}
    return {
        "type": "line",
        "name": f"{curve.name}, fair" if curve.thin else curve.name,
        "color": curve.colour,
        "step": "end",
        "showSymbol": False,
        "silent": True,
        "lineStyle": style,
        "data": data,
    }


def keys(curves: Sequence[Curve]) -> Markup:
    """Return the legend of the curves; names are escaped.

    Examples
    --------
    >>> curve = Curve("<b>", "#2d7dc4", (4, 2), np.zeros(1), np.zeros(1))
    >>> "&lt;b&gt;</span>" in keys([curve])
    True
    """
    parts = []
    for curve in curves:
        if not curve.thin:
            dash = ",".join(map(str, curve.dash)) or "none"
            line = f'<line x1="0" y1="5" x2="26" y2="5" stroke="{curve.colour}" stroke-width="3" '
            line += f'stroke-dasharray="{dash}"/>'
            symbol = Markup(f'<svg width="26" height="10" aria-hidden="true">{line}</svg>')
            parts.append(tag("span", symbol + curve.name))
    return tag("p", join(parts), "keys note")


def fair_text(curves: Sequence[Curve]) -> str:
    """Return the note on thin lines; empty if there are none."""
    thin = any(curve.thin for curve in curves)
    return "Thin lines: the share in the exact DRFH answer of that moment." if thin else ""


def _colour(number: int) -> str:
    return PALETTE[number % len(PALETTE)]


def _dash(number: int) -> Sequence[int]:
    return DASHES[number % len(DASHES)]
