"""How the explorer looks, light and dark, wide and narrow."""

from drfh.report.style import DARK, FONT, LIGHT

__all__ = ["EXPLORER_SCRIPT", "EXPLORER_STYLE"]

EXPLORER_STYLE = (
    f"""
body {{ {LIGHT} --card: #f6f8fb; --mark: #fdecea; }}
body.body--dark {{ {DARK} --card: #1b212b; --mark: #47201e; }}
body {{ font-family: {FONT}; }}
"""
    """
body { --q-primary: var(--yes) !important; --q-dark: var(--card) !important;
       --q-dark-page: var(--paper) !important; --q-negative: #b3261e !important;
       --q-positive: #1b7f3b !important; color: var(--ink); background: var(--paper) !important;
       font-size: 15px; line-height: 1.45; }
.nicegui-content { padding: 0; gap: 0; align-items: stretch; display: block; }
.q-btn.bare { color: var(--ink); }
.body--dark .q-btn.bg-primary .q-btn__content { color: var(--paper); }
.q-tooltip { font-size: .8125rem; }
.q-notification.text-dark { --q-dark: #1b212b; }
.explorer { box-sizing: border-box; width: 100%; max-width: 100rem; margin: 0 auto; min-width: 0;
            padding: 0 clamp(.75rem, 2.5vw, 2rem) 4rem; }
.explorer h1 { font-size: 1.4rem; font-weight: 700; line-height: 1.2; margin: .9rem 0 .1rem;
               overflow-wrap: anywhere; }
.explorer h2, .q-dialog h2 { font-size: 1.05rem; font-weight: 700; line-height: 1.3; margin: 0; }
.explorer p { margin: .2rem 0; }
.explorer .soft { color: var(--soft); font-size: .875rem; }
.explorer .about { max-width: 60rem; color: var(--soft); font-size: .9rem; white-space: pre-line;
                   overflow-wrap: anywhere; }
.top { position: sticky; top: 0; z-index: 2000; background: var(--paper);
       border-bottom: 1px solid var(--line); }
.top-inner { box-sizing: border-box; max-width: 100rem; margin: 0 auto; display: flex;
       flex-wrap: wrap; align-items: center; gap: .3rem .7rem;
       padding: .45rem clamp(.75rem, 2.5vw, 2rem); }
.top .brand { font-weight: 750; font-size: 1.05rem; color: var(--ink); text-decoration: none;
       white-space: nowrap; }
.top .q-select { flex: 0 1 15rem; min-width: 8rem; }
.top .spring { flex: 1 1 0; }
.top .tools { display: flex; gap: .1rem; align-items: center; }
.solved { font-variant-numeric: tabular-nums; font-size: .875rem; white-space: nowrap; }
.solved.proven { color: var(--good); } .solved.stale { color: var(--bad); white-space: normal; }
.examples { display: flex; flex-wrap: wrap; gap: .3rem .4rem; align-items: center;
            margin-top: .7rem; }
.examples .q-btn { border: 1px solid var(--line); border-radius: 1rem; color: var(--ink);
            font-size: .8125rem; min-height: 0; padding: .1rem .75rem; }
.examples .q-btn.chosen { border-color: var(--yes); color: var(--yes); font-weight: 650; }
.trouble { border-left: 4px solid var(--bad); padding: .5rem .8rem; margin: .7rem 0 0;
           background: color-mix(in srgb, var(--bad) 10%, transparent); overflow-wrap: anywhere;
           display: flex; gap: .6rem; align-items: center; justify-content: space-between; }
.jobs { position: fixed; left: 1rem; bottom: 1rem; z-index: 2500; display: grid; gap: .4rem; }
.job { display: flex; gap: .6rem; align-items: center; padding: .35rem .8rem; max-width: 90vw;
       border: 1px solid var(--line); border-left: 4px solid var(--bar); border-radius: 4px;
       background: var(--card); box-shadow: 0 2px 8px rgb(0 0 0 / .18); }
.explorer .q-tabs { margin-top: .8rem; border-bottom: 1px solid var(--line); color: var(--soft); }
.explorer .q-tab { padding: 0 .9rem; min-height: 40px; }
.explorer .q-tab--active { color: var(--yes); }
.explorer .q-tab-panels { background: transparent; overflow: visible; }
.explorer .q-tab-panel { padding: 1rem 0 0; overflow: visible; display: block; }
.table-head { display: flex; flex-wrap: wrap; gap: .2rem .8rem; align-items: center;
              margin: .2rem 0 .4rem; }
.table-head .q-btn { font-size: .8125rem; }
.table-gap { height: 1.3rem; }
.grid-box { position: relative; width: 100%; min-width: 0; }
.grid-box .nicegui-aggrid { height: 100% !important; width: 100%;
  --ag-background-color: var(--paper); --ag-foreground-color: var(--ink);
  --ag-text-color: var(--ink);
  --ag-header-background-color: var(--card); --ag-header-text-color: var(--soft);
  --ag-border-color: var(--line); --ag-accent-color: var(--yes); --ag-font-family: inherit;
  --ag-data-font-size: .9rem; --ag-font-size: .875rem; --ag-cell-horizontal-padding: .6rem;
  --ag-header-height: 36px; --ag-row-height: 34px; }
.grid-box .ag-cell { font-variant-numeric: tabular-nums; }
.grid-box .ag-cell.can-edit { cursor: text; }
.grid-box .ag-cell.result { background: color-mix(in srgb, var(--card) 100%, transparent); }
.grid-box .ag-cell.right, .grid-box .ag-header-cell.right .ag-header-cell-label {
  text-align: right; justify-content: flex-end; }
.grid-box .ag-cell.part { background: linear-gradient(to right,
  color-mix(in srgb, var(--bar) 32%, var(--card)) var(--part, 0%), var(--card) var(--part, 0%)); }
.grid-box .ag-cell .empty { color: var(--soft); opacity: .75; }
.grid-box .ag-cell.bad { background: var(--mark); box-shadow: inset 0 0 0 2px var(--bad); }
.grid-box .ag-cell.bad span::after { content: " ⚠"; color: var(--bad); }
.grid-box .ag-cell.lies::after { content: " lies"; color: var(--bad); font-size: .75rem;
  font-weight: 650; }
.grid-box .ag-cell.up { color: var(--good); } .grid-box .ag-cell.down { color: var(--bad); }
.refused { color: var(--bad); margin: .4rem 0 0; overflow-wrap: anywhere; }
.refused:empty { display: none; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 6px;
        padding: .8rem 1rem; min-width: 0; box-sizing: border-box; }
.card .soft { margin: .6rem 0 .25rem; } .card h2 { margin-bottom: .5rem; }
.after-head { margin-top: 1.1rem; }
.two { display: grid; gap: 1.2rem 2rem; align-items: start;
       grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
.two > * { min-width: 0; }
ol.steps { margin: .4rem 0; padding: 0; list-style: none; max-height: 22rem; overflow-y: auto; }
ol.steps li { display: flex; gap: .6rem; align-items: center; justify-content: space-between;
       border-bottom: 1px solid var(--line); padding: .15rem 0; overflow-wrap: anywhere; }
ol.steps .q-btn { flex: none; }
ol.steps li.undone { color: var(--soft); text-decoration: line-through; }
.row-of { display: flex; flex-wrap: wrap; gap: .5rem .7rem; align-items: center; }
.row-of .q-field { min-width: 6.5rem; flex: 0 1 9rem; }
.forms { display: grid; gap: 1rem; }
.forms .card { display: grid; gap: .45rem; align-content: start; }
.after-head { margin-top: 1.2rem; }
.w-full { width: 100%; } .text-sm { font-size: .875rem; }
.away { position: absolute !important; visibility: hidden; width: 1px; height: 1px;
        overflow: hidden; clip-path: inset(50%); }
.q-dialog .link-box { width: min(40rem, 80vw); }
@media (max-width: 44rem) {
  .top { position: static; }
  .top .q-select { flex: 1 1 9rem; }
  .top .spring { display: none; }
  .solved { flex: 1 1 auto; }
  .examples { flex-wrap: nowrap; overflow-x: auto; padding-bottom: .3rem; }
  .examples .q-btn { flex: none; }
}
@media (prefers-reduced-motion: reduce) { * { transition: none !important; } }
"""
)

# Undo and redo by keyboard, where no text is being typed; and the choice of light or dark, kept.
EXPLORER_SCRIPT = """
document.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.altKey) return;
  if (event.target.closest("input, textarea, [contenteditable=true]")) return;
  const key = event.key.toLowerCase();
  const name = key === "y" || (key === "z" && event.shiftKey) ? "redo" : key === "z" ? "undo" : "";
  if (!name) return;
  event.preventDefault();
  emitEvent("drfh-" + name);
});
"""
