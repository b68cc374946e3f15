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

// Back and forward: the panel is a part of the address.
addEventListener("popstate", () =>
  emitEvent("drfh-back", new URLSearchParams(location.search).get("panel") ?? ""));

const drfhPage = {
  // Mark the page as ready, and return whether it is dark.
  ready() {
    document.body.dataset.ready = "yes";
    return Quasar.Dark.isActive;
  },
  // Keep the other of light and dark for later visits, and return whether it is dark now.
  keepOther() {
    const dark = Quasar.Dark.isActive;
    document.cookie = `drfh_scheme=${dark ? "light" : "dark"}; path=/; max-age=31536000; samesite=lax`;
    return dark;
  },
  copyLink() {
    const field = document.querySelector("input[data-testid=link]");
    field.focus();
    field.select();
    // Where the clipboard is out of reach (no https), the old way is left.
    if (navigator.clipboard) navigator.clipboard.writeText(field.value).catch(() => {});
    else document.execCommand("copy");
  },
};
