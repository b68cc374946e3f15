"""How pages look, light and dark, and the script that draws their charts."""

__all__ = ["DARK", "DASHES", "FONT", "LIGHT", "PALETTE", "SCRIPT", "STYLE"]

FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"

#: Eight colours that stay apart in every common kind of colour vision, on white and on black: the
#: two nearest are 17 apart in CIELAB for whoever lacks one kind of cone (a test measures it).
PALETTE = (
    "#2d7dc4", "#e07b00", "#5f7d4a", "#b23cf5", "#a65b83", "#a6a15b", "#bf3300", "#00add9",
)  # fmt: skip

#: Lines differ in their dashes too, so that no line is known by its colour alone.
DASHES = ((1, 0), (7, 3), (2, 2), (10, 3, 2, 3), (5, 5), (1, 3), (12, 4), (3, 2, 8, 2))

#: Colours of text, paper and lines by name, for pages that are light and for those that are dark.
LIGHT = """--ink: #1c2330; --soft: #5a6475; --paper: #ffffff; --line: #d9dee7; --bar: #4c78a8;
        --bad: #b3261e; --good: #1b7f3b; --yes: #1766a8; --partly: #8a5a00;"""
DARK = """--ink: #e6e9ef; --soft: #9aa4b5; --paper: #14181f; --line: #2c3440; --bar: #72a6d8;
          --bad: #ff8f86; --good: #7bd88f; --yes: #7db8ee; --partly: #f0b44c;"""

STYLE = (
    f"""
:root {{ color-scheme: light dark; {LIGHT} }}
@media (prefers-color-scheme: dark) {{
  :root {{ {DARK} }} }}
"""
    """body { font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; color: var(--ink);
       background: var(--paper); max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin-bottom: .2rem; }
h2 { font-size: 1.1rem; margin-top: 2.2rem; }
p.summary { color: var(--soft); margin-top: 0; }
.scroll { overflow-x: auto; }
.figure.stretch.vega-embed { display: block; max-width: 54rem; }
.vega-embed summary { opacity: .3; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.table { overflow-x: auto; margin: .6rem 0; }
.wide::before { content: "scroll →"; display: block; position: sticky; left: 0; text-align: right;
                padding-right: 2.5rem; color: var(--soft); font-size: .875rem; }
.more { mask-image: linear-gradient(to right, #000 calc(100% - 2.5rem), transparent); }
th, td { padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); text-align: left;
         white-space: nowrap; }
th { color: var(--soft); font-weight: 600; }
td.number, th.number { text-align: right; padding-left: .3rem; }
td.part { background: linear-gradient(to right, color-mix(in srgb, var(--bar) 30%, transparent)
          var(--part), transparent var(--part)) no-repeat; text-align: right; min-width: 6rem; }
a { color: inherit; }
p.headline { font-size: 1.3rem; line-height: 1.35; margin: .8rem 0; }
p.note, .soft { color: var(--soft); font-size: .875rem; }
p.note { max-width: 54rem; }
.soft { display: block; }
td.mark, .mark { font-weight: 600; }
.fails { color: var(--bad); }
.holds { color: var(--good); }
.searched, .nothing { color: var(--soft); }
td.wrap, table.cards td { white-space: normal; overflow-wrap: anywhere; vertical-align: top; }
table.cards td.mark, table.cards td.part { white-space: nowrap; background-size: 100% 2rem; }
table.cards td.name { min-width: 11.5rem; }
@media (max-width: 44rem) {
  table.cards tr:first-child { display: none; }
  table.cards, table.cards tbody { display: block; }
  table.cards tr { display: block; border-bottom: 1px solid var(--line); padding: .6rem 0; }
  table.cards td { display: block; border: 0; padding: .1rem 0; text-align: left; }
  table.cards td:empty { display: none; } }
body > details { border-bottom: 1px solid var(--line); padding: .45rem 0; }
body > details > summary { cursor: pointer; overflow-wrap: anywhere; }
pre { background: color-mix(in srgb, var(--ink) 7%, transparent); padding: .7rem .9rem;
      overflow: auto; max-height: 24rem; font: .8125rem/1.45 ui-monospace, "DejaVu Sans Mono",
      monospace; border-radius: 4px; }
button.copy { font: inherit; font-size: .8125rem; cursor: pointer; }
h3 { font-size: 1rem; line-height: 1.3; margin: 0 0 .3rem; }
figure.plot { margin: 1.6rem 0 2.2rem; scroll-margin-top: 1rem; }
figure.plot:target { outline: 2px solid var(--bar); outline-offset: .6rem; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr));
          gap: .8rem 1.6rem; }
.panels.small { grid-template-columns: repeat(auto-fit, minmax(min(100%, 16rem), 1fr)); }
.panels.small .vega-embed.has-actions { padding-right: 0; }
.panels.small .vega-embed details { display: none; }
.panels.square { max-width: 36rem; }
.panels > div, .panels .scroll { min-width: 0; }
.panels p.head { margin: 0 0 .2rem; font-size: .875rem; font-weight: 600; }
.panels .figure.stretch.vega-embed { max-width: none; width: 100%; }
p.keys { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; margin: .1rem 0 .5rem;
         font-size: .875rem; }
p.keys span { display: inline-flex; align-items: center; gap: .4rem; overflow-wrap: anywhere; }
p.keys svg { flex: none; }
figcaption { color: var(--soft); font-size: .9rem; max-width: 54rem; margin-top: .4rem; }
figcaption a.data { white-space: nowrap; }
p.source { margin: .3rem 0 .8rem; padding: .5rem .8rem; border-left: 4px solid var(--bar);
           background: color-mix(in srgb, var(--bar) 9%, transparent); font-weight: 600; }
nav { font-size: .9rem; margin: 1rem 0; display: flex; flex-wrap: wrap; gap: .2rem 1rem; }
.verdict { white-space: nowrap; font-weight: 600; }
.verdict b { display: inline-block; min-width: 1.3em; text-align: center; margin-right: .35em;
             border-radius: 4px; border: 1px solid currentColor; font-size: .9em; }
.yes { color: var(--yes); } .partly { color: var(--partly); } .no { color: var(--bad); }
.untested { color: var(--soft); }
.yes b { background: var(--yes); color: var(--paper); }
.no b { background: var(--bad); color: var(--paper); }
.tally { display: flex; gap: 2px; margin: .6rem 0 .2rem; height: 1.9rem; }
.tally span { flex: var(--n) 1 0; min-width: 2.2rem; display: grid; place-items: center;
              font-weight: 600; font-size: .85rem; border-radius: 3px; color: var(--paper); }
.tally .yes { background: var(--yes); } .tally .no { background: var(--bad); }
.tally .partly { color: var(--partly); border: 2px solid var(--partly); }
.tally .untested { color: var(--soft); border: 1px dashed var(--soft); }
td.best { font-weight: 700; }
table.scorecard td:nth-child(2) { min-width: 19rem; }
table.scorecard td:nth-child(1) { width: 11rem; min-width: 9.5rem; }
table.scorecard td:nth-child(3) { min-width: 6rem; }
table.scorecard td:nth-child(4) { min-width: 11.5rem; }
table.scorecard summary { color: var(--soft); font-size: .8125rem; cursor: pointer; }
table.scorecard td:nth-child(5) { white-space: nowrap; }
@media (max-width: 44rem) {
  table.scorecard td:nth-child(n) { min-width: 0; width: auto; }
  table.scorecard td:nth-child(-n+2)::before { content: none !important; }
  td.part { min-width: 4.2rem; }
  table.labelled td[data-label]:not(:empty)::before { content: attr(data-label) ": ";
    color: var(--soft); font-weight: 400; } }
@media print {
  :root { color-scheme: light; --ink: #000; --soft: #444; --paper: #fff; --line: #bbb;
          --bar: #4c78a8; --bad: #b3261e; --good: #1b7f3b; --yes: #1766a8; --partly: #8a5a00; }
  body { max-width: none; margin: 0; font-size: 10.5pt; }
  figure.plot, tr, .tally { break-inside: avoid; }
  details::details-content { content-visibility: visible; height: auto; }
  h2, h3 { break-after: avoid; }
  table.scorecard td:nth-child(n) { min-width: 0; }
  nav, .vega-embed summary, table.scorecard summary, a.data, button.copy {
    display: none !important; }
  .scroll, .table { overflow: visible; }
  .figure { min-width: 0 !important; }
  .figure svg { max-width: 100%; height: auto; }
  /* Charts that were drawn for the dark. */
  .figure svg [fill="#e6e9ef"] { fill: #1c2330; }
  .figure svg [stroke="#e6e9ef"] { stroke: #1c2330; }
  .figure svg [stroke="#3a4352"] { stroke: #d9dee7; }
  th, td { white-space: normal; }
  .wide::before { display: none; } .more { mask-image: none; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""
)

SCRIPT = """
const dark = matchMedia("(prefers-color-scheme: dark)");
function theme() {
  const ink = dark.matches ? "#e6e9ef" : "#1c2330", soft = dark.matches ? "#3a4352" : "#d9dee7";
  return { background: "transparent", font: FONT, title: { color: ink },
    axis: { labelColor: ink, titleColor: ink, gridColor: soft, domainColor: soft, tickColor: soft,
            titleFontWeight: "normal", labelFontSize: 12, titleFontSize: 12 },
    legend: { labelColor: ink, titleColor: ink, labelFontSize: 12 },
    header: { labelColor: ink, titleColor: ink, labelFontSize: 12 },
    text: { color: ink, fontSize: 12 }, rule: { color: ink }, view: { stroke: null } };
}
function draw() {
  for (const [id, spec] of Object.entries(FIGURES))
    vegaEmbed("#" + id, spec, { config: theme(), actions: { export: true, source: false,
      compiled: false, editor: false }, renderer: "svg" });
}
draw();
dark.addEventListener("change", draw);
// What is wider than the screen says so, and its edge fades until its end is reached.
function hint(box) {
  const hidden = box.scrollWidth - box.clientWidth;
  box.classList.toggle("wide", hidden > 1);
  box.classList.toggle("more", hidden - box.scrollLeft > 1);
}
const boxes = document.querySelectorAll(".table, .scroll");
const hints = () => boxes.forEach(hint);  // all of them: one that grows may move another
const resized = new ResizeObserver(() => requestAnimationFrame(hints));
addEventListener("load", hints);
for (const box of boxes) {
  resized.observe(box);
  resized.observe(box.firstElementChild);
  box.addEventListener("scroll", () => hint(box), { passive: true });
}
for (const button of document.querySelectorAll("button.copy"))
  button.addEventListener("click", () => {
    const source = document.getElementById(button.dataset.source);
    getSelection().selectAllChildren(source);  // still there if copying is not allowed
    navigator.clipboard?.writeText(source.textContent).then(() => {
      button.textContent = "copied"; }, () => {});
  });
// The table behind a figure, one click away.
for (const link of document.querySelectorAll("a.data")) {
  const rows = JSON.parse(document.getElementById(link.dataset.source).textContent);
  link.href = URL.createObjectURL(new Blob([rows], { type: "text/csv;charset=utf-8" }));
}
"""
