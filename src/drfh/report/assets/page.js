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
