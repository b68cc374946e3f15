// Functions of the tables: see components/grid.py.
const drfhGrid = {
  // Names of users and servers are set as text, never as markup. The rule that a cell breaks is
  // also its description for screen readers.
  cell(p) {
    const rule = p.data?.bad?.[p.colDef.field];
    if (rule) {
      p.eGridCell.setAttribute("aria-invalid", "true");
      p.eGridCell.setAttribute("aria-description", rule);
    } else {
      p.eGridCell.removeAttribute("aria-invalid");
      p.eGridCell.removeAttribute("aria-description");
    }
    const text = document.createElement("span");
    text.textContent = p.valueFormatted ?? p.value ?? "";
    if (text.textContent === "" && p.empty) {
      text.textContent = p.empty;
      text.className = "empty";
    }
    return text;
  },
  classes: {
    bad: (p) => !!p.data?.bad?.[p.colDef.field],
    lies: (p) => p.colDef.field === "name" && !!p.data?.lies,
    up: (p) => p.colDef.field === "change" && p.value > 0,
    down: (p) => p.colDef.field === "change" && p.value < 0,
  },
  tooltip: (p) => p.data?.bad?.[p.colDef.field] ??
    (typeof p.value === "string" && p.value.length > 14 ? p.value : null),
  number: (p) => p.value == null ? "" : p.value.toLocaleString("en-US",
    { maximumFractionDigits: Math.abs(p.value) < 1 ? 4 : 2 }),
  // Of many users everybody has little: that is not nothing.
  part: (p) => p.value == null ? "–" : (100 * p.value).toLocaleString("en-US",
    p.value > 1e-12 && p.value < 0.001 ? { maximumSignificantDigits: 2 }
      : { minimumFractionDigits: 1, maximumFractionDigits: 1 }) + " %",
  change: (p) => (p.value > 0 ? "+" : "") + drfhGrid.number(p),
  partStyle: (p) => ({ "--part": Math.min(100, Math.max(0, 100 * (p.value ?? 0))) + "%" }),
  // What is too long is refused, and must be short enough to be sent.
  typed: (p) => typeof p.newValue === "string" ? p.newValue.slice(0, 1001) : p.newValue,
  rowId: (p) => p.data.id,
  pin: (side, least) => innerWidth < least ? null : side,
  width: (narrow, wide) => innerWidth < 700 ? narrow : wide,
  ready: (label) => (p) => {
    p.api.setGridAriaProperty("label", label);
    drfhGrid.arrange(p);
  },
  // Where not everything is in sight, what everybody gets stands beside the names.
  arrange: (p) => innerWidth < 700 && p.api.moveColumns(["gets", "share"], 2),
  // Without the focus, Tab would go on from the cell that was edited before.
  edit(id, row, colKey) {
    const api = getElement(id)?.api, rowIndex = api?.getRowNode(row)?.rowIndex;
    if (rowIndex == null) return;
    api.ensureIndexVisible(rowIndex);
    api.setFocusedCell(rowIndex, colKey);
    api.startEditingCell({ rowIndex, colKey });
  },
  // Only what changed is sent, and only what is in sight is drawn again.
  patch(id, changes) {
    const api = getElement(id)?.api, rows = [];
    if (!api) return;
    for (const [row, change] of changes) {
      const node = api.getRowNode(row);
      if (node) rows.push(Object.assign(node, { data: Object.assign(node.data, change) }));
    }
    api.refreshCells({ rowNodes: rows, force: true });
    if (api.getColumnState().some((c) => c.sort)) api.refreshClientSideRowModel("sort");
  },
};
