"""How the panels look, light and dark: the colours of the offline pages."""

from __future__ import annotations

from drfh.report.style import DARK, FONT, LIGHT, PALETTE

__all__ = ["FREE", "OTHERS", "PANEL_STYLE", "colours_of", "ink_on"]

#: Colours of what is no single user: of all others, and of what is free.
OTHERS, FREE = "#8a8f98", "#8a8f98"


def colours_of(names: tuple[str, ...], before: dict[str, str]) -> dict[str, str]:
    """Return a colour for each name; who had one before keeps it.

    Parameters
    ----------
    names
        At most as many as the palette has colours.
    before
        What this returned the last time.

    Examples
    --------
    >>> first = colours_of(("ann", "bob"), {})
    >>> first == {"ann": PALETTE[0], "bob": PALETTE[1]}
    True
    >>> colours_of(("bob", "carl"), first) == {"bob": PALETTE[1], "carl": PALETTE[0]}
    True
    """
    kept = {name: before[name] for name in names if name in before}
    free = iter([colour for colour in PALETTE if colour not in kept.values()])
    return {name: kept.get(name) or next(free, OTHERS) for name in names}


def ink_on(colour: str) -> str:
    """Return the colour of text on a colour: black or white, whichever is easier to read.

    Examples
    --------
    >>> ink_on("#00add9"), ink_on("#bf3300")
    ('#000000', '#ffffff')
    """
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    # Contrast with black is (light + 0.05) / 0.05, with white 1.05 / (light + 0.05).
    return "#000000" if (light + 0.05) ** 2 > 0.05 * 1.05 else "#ffffff"


#: For everything inside an element of the class ``drfh-panel``, and for tooltips of charts.
PANEL_STYLE = (
    f".drfh-panel, .drfh-tip {{ {LIGHT} color: var(--ink); font-family: {FONT}; }}\n"
    f".body--dark .drfh-panel, .body--dark .drfh-tip {{ {DARK} }}\n"
    """
.drfh-panel { width: 100%; font-size: 1rem; line-height: 1.45; }
.drfh-panel .tools { display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: center; }
.drfh-panel .tools.end { justify-content: flex-end; margin-top: .6rem; }
.drfh-panel .progress { display: flex; gap: .8rem; align-items: center; margin: .4rem 0; }
.drfh-panel .progress .q-linear-progress { flex: 1 1 6rem; width: auto; }
.drfh-panel .chart { width: 100%; }
.drfh-panel h2 { font-size: 1.1rem; line-height: 1.3; font-weight: 600; margin: 1.4rem 0 .2rem; }
.drfh-panel p { margin: .2rem 0 .5rem; max-width: 54rem; overflow-wrap: anywhere; }
.drfh-panel p.headline { font-size: 1.2rem; line-height: 1.35; }
.drfh-panel p.note, .drfh-panel .soft { color: var(--soft); font-size: .875rem; }
.drfh-panel .soft { display: block; font-weight: 400; }
.drfh-panel p.keys { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; max-width: none; }
.drfh-panel p.keys span { display: inline-flex; align-items: center; gap: .4rem; }
.drfh-panel p.keys i { width: .9rem; height: .9rem; border-radius: 2px; flex: none; }
.drfh-panel p.keys i.free { border: 1px dashed var(--soft); }
.drfh-panel p.keys i.ideal { width: 3px; height: 1.1rem; background: var(--ink); }
.drfh-panel ul { list-style: disc; padding-left: 1.3rem; margin: 0 0 .5rem; }
.drfh-panel .table { display: block; overflow-x: auto; margin: .4rem 0; max-width: 100%; }
.drfh-panel table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.drfh-panel th, .drfh-panel td { padding: .25rem .8rem .25rem 0; text-align: left;
  border-bottom: 1px solid var(--line); vertical-align: top; white-space: nowrap; }
.drfh-panel th { color: var(--soft); font-weight: 600; }
.drfh-panel td.number, .drfh-panel th.number { text-align: right; padding-left: .3rem; }
.drfh-panel td.wrap, .drfh-panel table.cards td { white-space: normal; overflow-wrap: anywhere; }
.drfh-panel table.cards td.number { overflow-wrap: normal; white-space: nowrap; }
.drfh-panel table.cards td:first-child { min-width: 9rem; }
.drfh-panel td.part, .drfh-panel .bar { text-align: right; min-width: 5.5rem;
  background: linear-gradient(to right, color-mix(in srgb, var(--bar) 30%, transparent)
  var(--part), transparent var(--part)) no-repeat; background-size: 100% 2rem; }
.drfh-panel .mark { font-weight: 600; white-space: nowrap; }
.drfh-panel .fails { color: var(--bad); } .drfh-panel .holds { color: var(--good); }
.drfh-panel .searched, .drfh-panel .nothing { color: var(--soft); }
.drfh-panel .stale { opacity: .45; }
.drfh-panel details { margin: .3rem 0 .8rem; }
.drfh-panel summary { cursor: pointer; color: var(--soft); display: list-item;
  list-style: disclosure-closed inside; }
.drfh-panel details[open] > summary { list-style-type: disclosure-open; }
.drfh-panel table.side th:first-child, .drfh-panel table.side td:first-child {
  position: sticky; left: 0; z-index: 1; background: var(--paper); max-width: 10rem;
  white-space: normal; overflow-wrap: anywhere; }
.drfh-panel table.side th, .drfh-panel table.side td { padding: .25rem .4rem; min-width: 6.8rem; }
.drfh-panel table.side td.no-answer { white-space: normal; min-width: 11rem; }
.drfh-panel .diff { display: block; font-size: .75rem; font-weight: 600; }
.drfh-panel .diff.more { color: var(--yes); } .drfh-panel .diff.less { color: var(--bad); }
.drfh-panel .diff.same { color: var(--soft); font-weight: 400; }
.drfh-panel .diff b { display: inline-block; height: .5rem; min-width: 1px; margin-right: .3rem;
  background: currentColor; width: calc(1.6rem * var(--size)); }
.drfh-panel .finding { border-bottom: 1px solid var(--line); padding: .5rem 0; width: 100%;
  display: grid; gap: .1rem 1rem; align-items: start;
  grid-template: "sign name amount text act"
    / 8.5rem minmax(10rem, 14rem) 6rem minmax(0, 1fr) auto; }
.drfh-panel .finding > * { min-width: 0; overflow-wrap: anywhere; }
.drfh-panel .finding .sign { grid-area: sign; } .drfh-panel .finding .name { grid-area: name; }
.drfh-panel .finding .amount { grid-area: amount; } .drfh-panel .finding .act { grid-area: act; }
.drfh-panel .finding .text { grid-area: text; }
.drfh-panel pre { background: color-mix(in srgb, var(--ink) 7%, transparent); padding: .7rem .9rem;
  overflow: auto; max-height: 20rem; font: .8125rem/1.45 ui-monospace, "DejaVu Sans Mono",
  monospace; border-radius: 4px; }
.drfh-tip { background: var(--paper) !important; border-color: var(--line) !important;
  color: var(--ink) !important; white-space: normal !important; max-width: 20rem; }
@media (max-width: 44rem) {
  .drfh-panel table.cards tr:first-child { display: none; }
  .drfh-panel table.cards, .drfh-panel table.cards tbody { display: block; }
  .drfh-panel table.cards tr { display: block; border-bottom: 1px solid var(--line);
    padding: .5rem 0; }
  .drfh-panel table.cards td, .drfh-panel table.cards td.number { display: block; border: 0;
    padding: .1rem 0; text-align: left; white-space: normal; overflow-wrap: anywhere; }
  .drfh-panel table.cards td:empty { display: none; }
  .drfh-panel table.labelled td[data-label]:not(:empty)::before { content: attr(data-label) ": ";
    color: var(--soft); }
  .drfh-panel table.side th:first-child, .drfh-panel table.side td:first-child {
    white-space: normal; min-width: 6rem; max-width: 6.5rem; overflow-wrap: anywhere; }
  .drfh-panel .finding { grid-template: "sign amount" "name name" "text text" "act act"
    / minmax(0, 1fr) 6rem; }
  .drfh-panel .finding .act { justify-self: start; margin-top: .3rem; } }
"""
)
