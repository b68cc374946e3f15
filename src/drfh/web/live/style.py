"""How the live view looks, light and dark, wide and narrow."""

from drfh.report.style import DARK, FONT, LIGHT

__all__ = ["LIVE_STYLE"]

LIVE_STYLE = (
    f"""
:root {{ {LIGHT} --card: #f6f8fb; --focus: #b23cf5; }}
body.body--dark {{ {DARK} --card: #1b212b; --focus: #ffd24a; }}
"""
    """
body { font-family: FONT; color: var(--ink); background: var(--paper) !important; }
.nicegui-content { padding: 0; align-items: stretch; }
.live { box-sizing: border-box; width: 100%; max-width: 100rem; margin: 0 auto;
        padding: 1rem clamp(.75rem, 2.5vw, 2rem) 3rem; line-height: 1.45; min-width: 0; }
.live .nicegui-html, .live .nicegui-row, .live .nicegui-column { min-width: 0; }
.live h1 { font-size: 1.45rem; font-weight: 700; line-height: 1.2; margin: 0;
           overflow-wrap: anywhere; }
.live h2 { font-size: 1.1rem; font-weight: 700; line-height: 1.3; margin: 0 0 .4rem; }
.live .soft, .live p.note { color: var(--soft); font-size: .875rem; margin: .2rem 0; }
.live .top { display: flex; flex-wrap: wrap; gap: .6rem 1.5rem; align-items: flex-start;
             justify-content: space-between; }
.live .top > .names { flex: 1 1 18rem; min-width: 0; }
.live .tools { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; }
.live .trouble { border-left: 4px solid var(--bad); padding: .5rem .8rem; margin: .8rem 0 0;
                 background: color-mix(in srgb, var(--bad) 10%, transparent);
                 overflow-wrap: anywhere; }
.live .lost, #popup { display: none !important; }
body:has(#popup[aria-hidden="false"]) .live .lost { display: block !important; }
body:has(#popup[aria-hidden="false"]) .live :is(section, .facts) { opacity: .6; }
.live section { margin-top: 1.6rem; min-width: 0; }
.live :is(.events-box, .q-toggle):focus-visible { outline: 2px solid var(--focus);
                 outline-offset: 2px; }
.live .q-btn:focus-visible { box-shadow: 0 0 0 2px var(--paper), 0 0 0 4px var(--focus);
                 z-index: 1; }  /* Quasar's buttons have no outline */
.live .facts { display: grid; gap: .7rem; margin-top: 1rem;
               grid-template-columns: repeat(auto-fit, minmax(min(100%, 10rem), 1fr)); }
.live .fact { background: var(--card); border: 1px solid var(--line); border-radius: 6px;
              padding: .6rem .8rem; min-width: 0; }
.live .fact .label { color: var(--soft); font-size: .8125rem; }
.live .fact .value { font-size: 1.25rem; font-weight: 650; line-height: 1.3;
                     font-variant-numeric: tabular-nums; }
.live .fact .bar { height: 5px; border-radius: 3px; margin: .2rem 0;
                   background: linear-gradient(to right, var(--bar) var(--part), var(--line)
                   var(--part)); }
.live .fact.distance .bar { background: linear-gradient(to right, #e07b00 var(--part), var(--line)
                   var(--part)); }
.live .fact .remark { color: var(--soft); font-size: .8125rem; overflow-wrap: anywhere; }
.live .two { display: grid; gap: 0 2rem;
             grid-template-columns: repeat(auto-fit, minmax(min(100%, 28rem), 1fr)); }
.live .pick { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center; }
.live .pick .q-select { min-width: min(100%, 16rem); max-width: 100%; }
.live .table { overflow-x: auto; }
.live table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%;
              font-size: .9375rem; }
.live th, .live td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line);
              text-align: left; white-space: nowrap; }
.live th { color: var(--soft); font-weight: 600; font-size: .875rem; }
.live td.number, .live th.number { text-align: right; }
.live td.name { font-weight: 600; overflow-wrap: anywhere; white-space: normal;
              min-width: clamp(7rem, 18vw, 16rem); }
.live td.strip { width: 40%; min-width: 8rem; }
.live .meter { display: block; position: relative; height: .8rem; border-radius: 2px;
  background: linear-gradient(to right, var(--bar) var(--has), color-mix(in srgb, var(--ink) 8%,
  transparent) var(--has)); }
.live .meter::after { content: ""; position: absolute;
  left: clamp(0px, calc(var(--fair) - 1.5px), calc(100% - 3px)); top: -3px; bottom: -3px;
  width: 3px; background: var(--ink); }
.live .meter.idle::after { content: none; }
.live .waiting { display: grid; margin-top: .8rem; gap: .8rem 2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
.live .waits { border-top: 1px solid var(--line); padding-top: .4rem; min-width: 0; }
.live .waits p { margin: 0; overflow-wrap: anywhere; }
.live .waits ul { margin: .2rem 0 0; padding-left: 1.1rem; list-style: disc; font-size: .9rem; }
.live .waits li { margin: .1rem 0; overflow-wrap: anywhere; }
.live .events-box { max-height: 24rem; overflow-y: auto; }
.live ol.events { list-style: none; margin: 0; padding: 0; font-size: .875rem; }
.live ol.events li { display: flex; gap: .8rem; padding: .15rem 0;
  border-bottom: 1px solid var(--line); }
.live ol.events time { color: var(--soft); font-variant-numeric: tabular-nums; flex: none; }
.live ol.events .kind { flex: 0 0 5.2rem; font-weight: 600; }
.live ol.events .kind.back, .live ol.events .kind.failed, .live ol.events .kind.trouble {
  color: var(--bad); }
.live ol.events span { overflow-wrap: anywhere; min-width: 0; }
.live .answer { border-left: 4px solid var(--bar); padding: .4rem .8rem; margin-top: .5rem;
  overflow-wrap: anywhere; }
.live .lines-key { display: inline-block; width: 1.8rem; border-top: 2.5px solid currentColor;
  vertical-align: middle; margin-right: .3rem; }
.live .lines-key.dashed { border-top-style: dashed; border-top-width: 1.5px; }
@media (max-width: 44rem) {
  .live table.cards tr:first-child { display: none; }
  .live table.cards, .live table.cards tbody { display: block; }
  .live table.cards tr { display: grid; grid-template-columns: 1fr 1fr; gap: 0 1rem;
    border-bottom: 1px solid var(--line); padding: .5rem 0; }
  .live table.cards td { display: block; border: 0; padding: .05rem 0; text-align: left;
    min-width: 0; width: auto; }
  .live table.cards td.name, .live table.cards td.strip { grid-column: 1 / -1; }
  .live table.cards td.strip { padding: .3rem 0; }
  .live table.cards td:empty { display: none; }
  .live table.cards td[data-label]:not(:empty):not(.name)::before { content: attr(data-label) " ";
    color: var(--soft); }
  .live ol.events li { flex-wrap: wrap; gap: 0 .8rem; }
  .live ol.events li span:last-child { flex: 1 0 100%; }
}
@media (prefers-reduced-motion: reduce) { .live * { transition: none !important; } }
"""
).replace("FONT", FONT)
