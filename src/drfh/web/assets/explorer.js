// Undo and redo by keyboard, where no text is being typed.
document.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.altKey) return;
  if (event.target.closest("input, textarea, [contenteditable=true]")) return;
  const key = event.key.toLowerCase();
  const name = key === "y" || (key === "z" && event.shiftKey) ? "redo" : key === "z" ? "undo" : "";
  if (!name) return;
  event.preventDefault();
  emitEvent("drfh-" + name);
});
