"""One HTML page that works with no network, light and dark; and figures as bytes."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import vl_convert

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["figure_bytes", "offline_page"]

_MOST_ROWS = 1_000

_FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #5a6475; --paper: #ffffff;
        --line: #d9dee7; --bar: #4c78a8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --soft: #9aa4b5; --paper: #14181f; --line: #2c3440; --bar: #72a6d8; } }
body { font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; color: var(--ink);
       background: var(--paper); max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin-bottom: .2rem; }
h2 { font-size: 1.1rem; margin-top: 2.2rem; }
p.summary { color: var(--soft); margin-top: 0; }
.figure { overflow-x: auto; }
.vega-embed summary { opacity: .3; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.table { overflow-x: auto; }
th, td { padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); text-align: left;
         white-space: nowrap; }
th { color: var(--soft); font-weight: 600; }
td.number, th.number { text-align: right; }
td.part { background: linear-gradient(to right, color-mix(in srgb, var(--bar) 30%, transparent)
          var(--part), transparent var(--part)) no-repeat; text-align: right; min-width: 7rem; }
"""

_SCRIPT = """
const dark = matchMedia("(prefers-color-scheme: dark)");
function theme() {
  const ink = dark.matches ? "#e6e9ef" : "#1c2330", soft = dark.matches ? "#3a4352" : "#d9dee7";
  return { background: "transparent", font: FONT, title: { color: ink },
    axis: { labelColor: ink, titleColor: ink, gridColor: soft, domainColor: soft, tickColor: soft,
            titleFontWeight: "normal", labelFontSize: 12, titleFontSize: 12 },
    legend: { labelColor: ink, titleColor: ink, labelFontSize: 12 },
    header: { labelColor: ink, titleColor: ink, labelFontSize: 12 }, view: { stroke: null } };
}
function draw() {
  for (const [id, spec] of Object.entries(FIGURES))
    vegaEmbed("#" + id, spec, { config: theme(), actions: { export: true, source: false,
      compiled: false, editor: false }, renderer: "svg" });
}
draw();
dark.addEventListener("change", draw);
"""


def figure_bytes(chart: altair.TopLevelMixin, suffix: str) -> bytes:
    """Return a chart as the content of an .svg, .png or .pdf file."""
    spec = json.dumps(_for_paper(chart.to_dict()))
    if suffix == ".svg":
        return str(vl_convert.vegalite_to_svg(spec)).encode()
    if suffix == ".png":
        return bytes(vl_convert.vegalite_to_png(spec, scale=2.0))
    return bytes(vl_convert.vegalite_to_pdf(spec))


def _for_paper(spec: dict[str, Any]) -> dict[str, Any]:
    config = {
        **spec.get("config", {}),
        "background": "white",
        "view": {"stroke": None},
        "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"},
        "legend": {"labelFontSize": 12},
        "header": {"labelFontSize": 12},
    }
    return {**spec, "config": config, "padding": 12}


def offline_page(
    title: str,
    summary: str,
    figures: Sequence[tuple[str, altair.TopLevelMixin]],
    tables: Sequence[tuple[str, polars.DataFrame]] = (),
) -> str:
    """Return an HTML page with everything inside it.

    Parameters
    ----------
    title, summary
        Head of the page.
    figures
        Heading and chart of each figure.
    tables
        Heading and content of each table; a column called ``share`` is drawn as bars.
    """
    specs: dict[str, Any] = {}
    body = [f"<h1>{html.escape(title)}</h1>", f'<p class="summary">{html.escape(summary)}</p>']
    for number, (heading, chart) in enumerate(figures, start=1):
        name = f"figure-{number}"
        specs[name] = chart.to_dict()
        specs[name].pop("config", None)  # the page has its own, light and dark
        body.append(f'<h2>{html.escape(heading)}</h2>\n<div class="figure" id="{name}"></div>')
    for heading, frame in tables:
        body.append(f"<h2>{html.escape(heading)}</h2>\n{_table(frame)}")
    # "</" inside a script would end it.
    data = json.dumps(specs).replace("</", "<\\/")
    library = vl_convert.javascript_bundle().replace("</script", "<\\/script")
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{html.escape(title)}</title>",
            f"<style>{_STYLE}</style></head><body>",
            *body,
            f'<script type="module">{library}',
            f"const FONT = {json.dumps(_FONT)};",
            f"const FIGURES = {data};",
            _SCRIPT,
            "</script></body></html>",
            "",
        )
    )


def _table(frame: polars.DataFrame) -> str:
    numeric = [frame[name].dtype.is_numeric() for name in frame.columns]
    head = "".join(
        f'<th class="number">{html.escape(name)}</th>'
        if number
        else f"<th>{html.escape(name)}</th>"
        for name, number in zip(frame.columns, numeric, strict=True)
    )
    rows = []
    for row in frame.head(_MOST_ROWS).iter_rows(named=True):
        cells = []
        for name, value in row.items():
            if name == "share":
                cells.append(
                    f'<td class="part" style="--part: {100 * value:.2f}%">{100 * value:.2f} %</td>'
                )
            elif isinstance(value, (int, float)):
                cells.append(f'<td class="number">{value:,.6g}</td>')
            else:
                cells.append(f"<td>{'' if value is None else html.escape(str(value))}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    more = len(frame) - len(rows)
    note = f"<p>… and {more:,} more rows</p>" if more else ""
    body = "\n".join(rows)
    return f'<div class="table"><table><tr>{head}</tr>\n{body}</table></div>{note}'
