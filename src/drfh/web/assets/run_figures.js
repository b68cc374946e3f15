// Markup of the offline pages, and the figures in it: drawn when they come into sight.
const INK = {
  light: { ink: "#1c2330", grid: "#d9dee7" },
  dark: { ink: "#e6e9ef", grid: "#3a4352" },
};
const LARGER = 1.6;  // of a figure that is shown alone
const TIME = "zoom_time";  // what Vega-Lite calls the part of the time that is shown
const ALL = [0, 1];
const AROUND = 60;  // pixels of axes and their titles

const isDark = () => document.body.classList.contains("body--dark");

function theme() {
  const { ink, grid } = INK[isDark() ? "dark" : "light"];
  const labels = { labelColor: ink, titleColor: ink, labelFontSize: 12 };
  return {
    background: "transparent", font: getComputedStyle(document.body).fontFamily,
    title: { color: ink },
    axis: { ...labels, gridColor: grid, domainColor: grid, tickColor: grid,
            titleFontWeight: "normal", titleFontSize: 12 },
    legend: labels, header: labels,
    text: { color: ink, fontSize: 12 }, rule: { color: ink }, view: { stroke: null },
  };
}

const escaped = (value) => String(value).replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

// Vega's own would take a user called "image" for a picture to fetch.
function said(value) {
  if (typeof value !== "object" || value === null) return escaped(value);
  const rows = Object.entries(value).map(([name, one]) =>
    `<tr><td class="key">${escaped(name)}</td><td class="value">${escaped(one)}</td></tr>`);
  return `<table><tbody>${rows.join("")}</tbody></table>`;
}

const unitsOf = (spec) => [spec, ...(spec.layer ?? [])];

function keyOf(unit) {  // what its marks are distinguished by
  const channels = unit.encoding ?? {};
  return [channels.color, channels.shape, channels.strokeDash].find((one) => one?.field);
}

function without(spec, hidden) {  // leave names out, and what is said of them
  if (!hidden.size) return;
  for (const unit of unitsOf(spec)) {
    const key = keyOf(unit);
    if (key) {
      const kept = { filter: { not: { field: key.field, oneOf: [...hidden] } } };
      unit.transform = [kept, ...(unit.transform ?? [])];
    } else if (Array.isArray(unit.encoding?.tooltip)) {
      // Backslashes are doubled in titles.
      unit.encoding.tooltip = unit.encoding.tooltip.filter(
        (hint) => !hidden.has(String(hint.title).replaceAll("\\\\", "\\")));
    }
  }
}

function zoomable(spec) {  // over time: with the wheel and a key, as a page must still scroll
  const unit = unitsOf(spec).find((one) => one.mark && one.encoding?.x?.field === "time"
    && one.encoding.x.type === "quantitative" && one.name !== "reader");
  if (!unit?.encoding.x.scale?.domain) return 0;
  const drag = "[pointerdown[event.pointerType === 'mouse'], window:pointerup]"
    + " > window:pointermove!";
  const zoom = { type: "interval", encodings: ["x"], zoom: "wheel![event.shiftKey]",
                 translate: drag };
  unit.params = [...(unit.params ?? []), { name: "zoom", select: zoom, bind: "scales" }];
  return unit.encoding.x.scale.domain[1];
}

export default {
  // What is inside is ours: of the outer element Vue keeps the classes.
  template: `<div><div class="run-page" ref="page" data-testid="runs-figures"></div></div>`,
  props: { library: String },
  created() { this.version = 0; this.places = []; this.span = ALL; },
  mounted() {
    this.classes = new MutationObserver(() => {
      if (this.dark !== isDark()) this.places.forEach((place) => place.drawn && this.draw(place));
      this.dark = isDark();
    });
    this.classes.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.dark = isDark();
    this.sight = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) {
        const place = this.places.find((one) => one.box === target);
        if (isIntersecting && place && !place.drawn) this.draw(place);
      }
    }, { rootMargin: "400px" });
    this.sizes = new ResizeObserver(() => requestAnimationFrame(() => this.hints()));
    this.$refs.page.addEventListener("click", (event) => this.clicked(event));
    this.$refs.page.addEventListener("keydown", (event) => {
      if (!event.target.matches("span[role=button]") || !" Enter".includes(event.key)) return;
      event.preventDefault();
      event.target.click();
    });
    this.$emit("ready", this.version);
  },
  unmounted() {
    [this.classes, this.sight, this.sizes].forEach((one) => one?.disconnect());
    this.clear();
  },
  methods: {
    clear() {
      this.sight?.disconnect();
      this.sizes?.disconnect();
      this.places.forEach((place) => place.view?.finalize());
      (this.links ?? []).forEach((link) => URL.revokeObjectURL(link));
      this.places = [];
      this.links = [];
    },
    set(text, only, span, number) {
      const { markup, specs, together } = JSON.parse(text);
      this.clear();
      this.span = span;
      this.together = together;
      this.version = number;
      this.$refs.page.innerHTML = markup;  // escaped where it was made
      for (const [name, spec] of Object.entries(specs)) {
        const box = this.$refs.page.querySelector(`#${name}`);
        box.style.minHeight = `${(typeof spec.height === "number" ? spec.height : 160) + AROUND}px`;
        this.places.push({ box, spec, plot: box.closest("figure.plot"), turn: 0 });
      }
      this.$refs.page.querySelectorAll("figure.plot").forEach((plot) => this.wire(plot));
      this.boxes = [...this.$refs.page.querySelectorAll(".table, .scroll")];
      for (const box of this.boxes) {
        this.sizes.observe(box);
        box.addEventListener("scroll", () => this.hint(box), { passive: true });
      }
      this.only(only);
      this.places.forEach((place) => this.sight.observe(place.box));
    },
    wire(plot) {  // its legend hides and shows, its data can be saved
      const own = this.places.filter((place) => place.plot === plot);
      plot.hidden_names = new Set();
      const known = new Set(own.flatMap(({ spec }) => unitsOf(spec)).flatMap(
        (unit) => keyOf(unit)?.scale?.domain ?? []));
      const keys = [...plot.querySelectorAll("p.keys span")];
      for (const key of keys.length > 1 ? keys : []) {
        if (!known.has(key.textContent)) continue;
        key.tabIndex = 0;
        key.title = "click: hide or show";
        key.setAttribute("role", "button");
        key.setAttribute("aria-pressed", "true");
      }
      const link = plot.querySelector("a.data");
      if (!link) return;
      const rows = JSON.parse(this.$refs.page.querySelector(`#${CSS.escape(link.dataset.source)}`)
        .textContent);
      link.href = URL.createObjectURL(new Blob([rows], { type: "text/csv;charset=utf-8" }));
      this.links.push(link.href);
    },
    clicked(event) {
      const key = event.target.closest("span[role=button]");
      const link = event.target.closest("a[href^='#']");
      if (key) {
        const plot = key.closest("figure.plot"), name = key.textContent;
        const hide = !plot.hidden_names.delete(name);
        if (hide) plot.hidden_names.add(name);
        key.setAttribute("aria-pressed", String(!hide));
        this.places.forEach((place) => place.plot === plot && place.drawn && this.draw(place));
      } else if (link) {
        event.preventDefault();  // the address is the page's
        const target = this.$refs.page.querySelector(`#${CSS.escape(link.hash.slice(1))}`);
        if (target && !target.offsetParent) {
          this.only("");
          this.$emit("everything");
        }
        target?.scrollIntoView({ block: "start" });
      }
    },
    only(name) {
      const plots = [...this.$refs.page.querySelectorAll("figure.plot")];
      const chosen = plots.find((plot) => plot.id === name);
      this.$refs.page.classList.toggle("only", Boolean(chosen));
      for (const plot of plots) {
        const was = plot.classList.contains("chosen");
        plot.classList.toggle("chosen", plot === chosen);
        if (was !== (plot === chosen))
          this.places.forEach((one) => one.plot === plot && one.drawn && this.draw(one));
      }
    },
    async draw(place) {
      const turn = ++place.turn;
      place.drawn = true;
      await import(this.library);
      const spec = structuredClone(place.spec);
      without(spec, place.plot?.hidden_names ?? new Set());
      const zooms = zoomable(spec);
      if (place.plot?.classList.contains("chosen") && typeof spec.height === "number")
        spec.height *= LARGER;
      if (turn !== place.turn || !place.box.isConnected) return;
      const actions = { export: true, source: false, compiled: false, editor: false };
      const made = await window.vegaEmbed(place.box, spec, {
        config: theme(), renderer: "svg", actions,
        tooltip: { theme: isDark() ? "dark" : "light", formatTooltip: said },
      });
      if (turn !== place.turn) return made.finalize();
      place.view?.finalize();
      place.view = made;
      place.box.style.minHeight = "";
      if (zooms) {
        place.end = zooms;
        if (String(this.spanOf(place)) !== String(ALL)) this.move(place);
        made.view.addSignalListener(TIME, (_, range) => this.moved(place, range));
      }
      this.hints();
    },
    // Figures over time show the same part of it, from 0 to 1: all figures of runs, and of a
    // reproduction, which has several experiments, those that stand together.
    spanOf(place) { return (this.together ? this.span : place.plot?.span) ?? ALL; },
    setSpan(place, span) {
      if (this.together) this.span = span;
      else if (place.plot) place.plot.span = span;
    },
    move(place) {
      if (!place.end || !place.view) return;
      const [from, to] = this.spanOf(place);
      const range = from > 0 || to < 1 ? [from * place.end, to * place.end] : null;
      this.moving = true;  // not somebody's hand
      place.view.view.signal(TIME, range).run();
      this.moving = false;
    },
    moved(place, range) {
      if (this.moving) return;
      const within = (time) => Math.min(Math.max(time / place.end, 0), 1);
      this.setSpan(place, range ? range.map(within) : ALL);
      this.places.forEach((one) => {
        if (one !== place && (this.together || one.plot === place.plot)) this.move(one);
      });
      clearTimeout(this.later);
      if (this.together) this.later = setTimeout(() => this.$emit("span", this.span), 200);
    },
    showSpan(from, to) {
      this.span = [from, to];
      this.places.forEach((one) => this.move(one));
    },
    hint(box) {  // what is wider than the screen says so, until its end is reached
      const beyond = box.scrollWidth - box.clientWidth;
      box.classList.toggle("wide", beyond > 1);
      box.classList.toggle("more", beyond - box.scrollLeft > 1);
    },
    hints() { this.boxes?.forEach((box) => this.hint(box)); },
  },
};
