// A heat map of servers on a canvas: one cell a server, in blocks that wrap to the width.
// Only what is in view is drawn, once a frame at most; the page scrolls a box as high as all cells.

const STYLE = `
.drfh-heat { --heat-ink: #1c2330; --heat-soft: #5a6475; --heat-paper: #ffffff; --heat-line: #c5ccd8;
  --heat-mark: #b23cf5; position: relative; width: 100%; color: var(--heat-ink); min-width: 0; }
body.body--dark .drfh-heat { --heat-ink: #e6e9ef; --heat-soft: #9aa4b5; --heat-paper: #14181f;
  --heat-line: #3a4352; --heat-mark: #ffd24a; }
.drfh-heat .tools { display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: center;
  margin-bottom: .4rem; font-size: .875rem; }
.drfh-heat .tools label { display: inline-flex; gap: .4rem; align-items: center; }
.drfh-heat select, .drfh-heat button { font: inherit; color: inherit; background: var(--heat-paper);
  border: 1px solid var(--heat-line); border-radius: 4px; padding: .15rem .5rem; cursor: pointer;
  min-height: 1.9rem; }
.drfh-heat .zoom { display: inline-flex; gap: .2rem; } .drfh-heat .zoom button { min-width: 2rem; }
.drfh-heat button:focus-visible, .drfh-heat select:focus-visible, .drfh-heat .view:focus-visible {
  outline: 2px solid var(--heat-mark); outline-offset: 1px; }
.drfh-heat .view { overflow-x: hidden; overflow-y: auto; border: 1px solid var(--heat-line);
  border-radius: 4px; cursor: crosshair; overscroll-behavior: auto; }
.drfh-heat .stage { position: relative; width: 100%; }
.drfh-heat .stage canvas { position: sticky; top: 0; display: block; }
.drfh-heat .spot { position: absolute; pointer-events: none; display: none; box-sizing: border-box;
  border: 2px solid var(--heat-mark); border-radius: 2px; z-index: 1;
  box-shadow: 0 0 0 1px var(--heat-paper); }
.drfh-heat .keys { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin-top: .4rem;
  font-size: .8125rem; color: var(--heat-soft); }
.drfh-heat .keys span { display: inline-flex; align-items: center; gap: .4rem; }
.drfh-heat .visually-hidden { position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%); white-space: nowrap; }
.drfh-heat .tip { position: fixed; z-index: 3000; display: none; pointer-events: none;
  max-width: min(24rem, calc(100vw - 16px)); padding: .5rem .7rem; font-size: .8125rem;
  line-height: 1.4; background: var(--heat-paper); color: var(--heat-ink);
  border: 1px solid var(--heat-line); border-radius: 6px; box-shadow: 0 4px 16px #0004;
  overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.drfh-heat .tip b { display: block; font-size: .875rem; }
.drfh-heat .tip .tasks { color: var(--heat-soft); margin-top: .2rem; white-space: pre-line; }
`;

const RAMPS = {  // from almost empty to full: the fuller, the further from the paper
  light: ["#d5e3f1", "#a3c7e6", "#5a9fd4", "#2467ab", "#0b2f5e"],
  dark: ["#1d3a58", "#1f5a92", "#2d7dc4", "#6fb6ee", "#dff1ff"],
};
const EMPTY = { light: "#edf0f4", dark: "#222a35" };
const GONE = { light: "#ffffff", dark: "#14181f" };
const STEPS = 33;  // shades; the last is for what is full
const LEAST = 4, MOST = 96, LABEL = 20, GAP = 10, PAD = 8, BARS_FROM = 13;
const FULL = 255, CLOSING = 1, DOWN = 2;
const ASK_AFTER = 70;  // milliseconds that one stays on a cell

function parts(colour) { return [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16)); }

function dot(colour) {  // as four bytes in memory: red, green, blue, opaque
  return new Uint32Array(new Uint8Array([...parts(colour), 255]).buffer)[0];
}

function ramp(colours) {
  const stops = colours.map(parts);
  const shades = [];
  for (let i = 0; i < STEPS; i++) {
    // What is not full stops short of the last shade.
    const at = (i === STEPS - 1 ? 1 : (0.93 * i) / (STEPS - 2)) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2), rest = at - low;
    const mixed = stops[low].map((a, j) => Math.round(a + (stops[low + 1][j] - a) * rest));
    shades.push(`#${mixed.map((a) => a.toString(16).padStart(2, "0")).join("")}`);
  }
  return shades;
}

function bytes(text) {
  const raw = atob(text), result = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) result[i] = raw.charCodeAt(i);
  return result;
}

function addStyle() {
  if (document.getElementById("drfh-heat-style")) return;
  const style = document.createElement("style");
  style.id = "drfh-heat-style";
  style.textContent = STYLE;
  document.head.append(style);
}

export default {
  template: `
    <div class="drfh-heat">
      <div class="tools">
        <label>Show
          <select v-model="shown" @change="repaint()" data-testid="heat-shown">
            <option value="all">all resources</option>
            <option value="fullest">the fullest resource</option>
            <option v-for="(name, i) in names" :key="i" :value="'r' + i">{{ name }}</option>
          </select>
        </label>
        <span class="zoom" role="group" aria-label="Size of cells">
          <button type="button" @click="zoom(1 / 1.3)" aria-label="smaller cells"
            data-testid="heat-smaller">−</button>
          <button type="button" @click="fit()" aria-label="fit all cells in view"
            data-testid="heat-fit">fit</button>
          <button type="button" @click="zoom(1.3)" aria-label="larger cells"
            data-testid="heat-larger">+</button>
        </span>
      </div>
      <div class="view" ref="view" tabindex="0" role="application" aria-roledescription="heat map"
        :aria-label="summary" :aria-describedby="help" data-testid="heat-view"
        @scroll.passive="scrolled" @pointermove="pointed" @pointerdown="pointed"
        @pointerleave="left" @wheel="wheel" @keydown="keyed" @focus="entered" @blur="hide"
        @click="picked">
        <div class="stage" ref="stage">
          <canvas ref="canvas" aria-hidden="true"></canvas>
          <div class="spot" ref="spot"></div>
        </div>
      </div>
      <div class="keys" aria-hidden="true">
        <span v-if="bars" v-for="(name, i) in names" :key="i">
          <i :style="{ display: 'inline-block', width: '.8rem', height: '.8rem',
             background: colours[i % colours.length] }"></i>{{ name }}</span>
        <span v-else>{{ shaded() }}: empty
          <canvas ref="scale" width="120" height="12"></canvas> full</span>
        <span v-if="!bars && shown === 'all' && names.length > 1">larger cells show all</span>
        <span><canvas ref="closing" width="14" height="14"></canvas>takes nothing new</span>
        <span><canvas ref="down" width="14" height="14"></canvas>down</span>
      </div>
      <span class="visually-hidden" :id="help">Arrow keys move from cell to cell, Home and End to the first
        and the last, plus and minus change the size of cells, 0 fits all of them.</span>
      <div class="visually-hidden" aria-live="polite" ref="said" data-testid="heat-said"></div>
      <div class="tip" ref="tip" role="tooltip" data-testid="heat-tip"></div>
    </div>`,
  props: { first: Object, number: Number, height: Number, colours: Array },
  data() {
    return { shown: "all", names: [], summary: "", bars: false, help: `heat-help-${this.$.uid}` };
  },
  created() {  // not data(): what is large must not be watched
    this.cells = null;
    this.blocks = [];
    this.size = null;  // of a cell with its gap; null: fit
    this.at = -1;
    this.by = "";  // who points: the pointer or the keys
    this.known = new Map();
    this.version = -1;
  },
  mounted() {
    addStyle();
    this.theme();
    this.sizes = new ResizeObserver(() => this.relayout());
    this.sizes.observe(this.$refs.view);
    this.classes = new MutationObserver(() => { this.theme(); this.repaint(); });
    this.classes.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    if (this.first) this.set(this.first, this.number);
    this.$emit("ready", this.version);
  },
  unmounted() {
    this.sizes.disconnect();
    this.classes.disconnect();
    clearTimeout(this.asking);
    cancelAnimationFrame(this.frame);
  },
  updated() { this.legend(); },
  methods: {
    // What the server sends

    set(data, number) {
      const before = JSON.stringify(this.cells?.groups);
      const same = before === JSON.stringify(data.groups);
      this.cells = {
        groups: data.groups,
        levels: data.levels.map(bytes),
        states: bytes(data.states),
        thing: data.thing,
      };
      [this.version, this.names, this.summary] = [number, data.resources, data.summary];
      if (this.shown[0] === "r" && +this.shown.slice(1) >= this.names.length) this.shown = "all";
      this.known.clear();
      if (!same) { this.at = -1; this.hide(); }
      this.relayout();
      this.again();
    },
    patch(change, before, number) {
      if (!this.cells || this.version !== before) {  // something was missed
        this.$emit("ready", this.version);
        return;
      }
      const where = bytes(change.at), at = new Uint32Array(where.buffer);
      change.levels.forEach((text, r) => {
        const levels = bytes(text), mine = this.cells.levels[r];
        at.forEach((cell, i) => { mine[cell] = levels[i]; });
      });
      const states = bytes(change.states);
      at.forEach((cell, i) => { this.cells.states[cell] = states[i]; });
      [this.version, this.summary] = [number, change.summary];
      this.known.clear();
      this.repaint();
      this.again();
    },
    describe(cell, text) {
      this.known.set(cell, text);
      if (cell === this.at) { this.tip(text); this.say(text); }
    },

    // Where cells are

    place(size, width) {
      const pencil = this.$refs.canvas.getContext("2d");
      pencil.font = this.font();
      const columns = Math.max(Math.floor(width / size), 1);
      const blocks = [];
      let x = 0, y = 0, high = 0, first = 0;
      for (const [name, count] of this.cells.groups) {
        const title = `${name} (${count.toLocaleString("en")})`;
        const across = Math.min(count, columns) || 1;
        const wide = Math.min(Math.max(across * size, pencil.measureText(title).width), width);
        if (x > 0 && x + wide > width) { x = 0; y += high + GAP; high = 0; }
        const rows = Math.ceil(count / across);
        blocks.push({ title, count, first, across, rows, wide, x: x + PAD, y: y + PAD + LABEL });
        high = Math.max(high, LABEL + rows * size);
        first += count;
        x += wide + 2 * GAP;
      }
      return { blocks, tall: y + high + 2 * PAD };
    },
    room() { return Math.max(this.$refs.view.clientWidth - 2 * PAD, 20); },
    relayout() {
      if (!this.cells || !this.$refs.view) return;
      const view = this.$refs.view, most = this.height || 420, width = this.room();
      if (!width || !view.clientWidth) return;
      let size = this.size;
      if (size === null) {
        let low = LEAST, high = 56;
        while (low < high) {
          const middle = (low + high + 1) >> 1;
          if (this.place(middle, width).tall <= most) low = middle; else high = middle - 1;
        }
        size = low;
      }
      const found = this.place(size, width);
      this.cell = size;
      [this.blocks, this.tall] = [found.blocks, found.tall];
      view.style.height = `${Math.min(found.tall, most) + 2}px`;
      this.$refs.stage.style.height = `${found.tall}px`;
      this.bars = this.shown === "all" && this.names.length > 1 && size >= BARS_FROM;
      this.mark();
      this.redraw();
    },
    gap() { return this.cell >= 24 ? 3 : this.cell >= 9 ? 2 : 1; },
    blockOf(cell) {
      let low = 0, high = this.blocks.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (this.blocks[middle].first <= cell) low = middle; else high = middle - 1;
      }
      return this.blocks[low];
    },
    spot(cell) {
      const block = this.blockOf(cell), i = cell - block.first;
      return [block.x + (i % block.across) * this.cell,
        block.y + Math.floor(i / block.across) * this.cell];
    },
    cellAt(x, y, near) {  // the cell there, or near: the nearest one of that row; -1 if none is
      const size = this.cell;
      let best = -1, distance = near ? Infinity : 1;
      for (const block of this.blocks) {
        const row = Math.floor((y - block.y) / size);
        if (row < 0 || row >= block.rows) continue;
        const last = Math.min(block.across, block.count - row * block.across) - 1;
        const column = Math.min(Math.max(Math.floor((x - block.x) / size), 0), last);
        const left = block.x + column * size;
        const away = x < left ? left - x + 1 : x >= left + size ? x - left - size + 1 : 0;
        if (away < distance) { best = block.first + row * block.across + column; distance = away; }
      }
      return best;
    },
    zoom(factor, pivot) {
      if (!this.cells?.states.length) return;
      const view = this.$refs.view;
      const y = pivot ?? view.clientHeight / 2;
      let held = this.cellAt(PAD + 1, view.scrollTop + y, true);
      if (held < 0) held = this.at >= 0 ? this.at : 0;
      const before = this.spot(held)[1] - view.scrollTop;
      const next = factor > 1 ? Math.ceil(this.cell * factor) : Math.floor(this.cell * factor);
      this.size = Math.min(Math.max(next, LEAST), MOST);
      this.relayout();
      view.scrollTop = this.spot(held)[1] - before;
    },
    fit() { this.size = null; this.relayout(); this.$refs.view.scrollTop = 0; },

    // Drawing

    theme() {
      this.scheme = document.body.classList.contains("body--dark") ? "dark" : "light";
      this.shades = ramp(RAMPS[this.scheme]);
      const dots = this.shades.map(dot);
      this.dots = { levels: new Uint32Array(FULL + 1), gone: dot(GONE[this.scheme]) };
      for (let level = 1; level < FULL; level++)
        this.dots.levels[level] = dots[Math.floor(((level - 1) * (STEPS - 1)) / (FULL - 1))];
      this.dots.levels[0] = dot(EMPTY[this.scheme]);
      this.dots.levels[FULL] = dots[STEPS - 1];
    },
    shaded() {  // what the shades are of; bars need room
      return this.shown[0] === "r" ? this.names[+this.shown.slice(1)] : "fullest resource";
    },
    font() { return `600 12px ${getComputedStyle(this.$el).fontFamily}`; },
    repaint() {
      const bars = this.shown === "all" && this.names.length > 1 && this.cell >= BARS_FROM;
      if (bars === this.bars) this.legend();
      this.bars = bars;
      this.redraw();
    },
    redraw() {
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); });
    },
    draw() {
      const { view, canvas } = this.$refs;
      if (!this.cells || !view) return;
      const began = performance.now();
      const dots = window.devicePixelRatio || 1;
      const width = view.clientWidth, height = view.clientHeight;
      if (!width || !height) return;  // on a tab that is not shown
      const wide = Math.round(width * dots), tall = Math.round(height * dots);
      if (canvas.width !== wide || canvas.height !== tall) {
        [canvas.width, canvas.height] = [wide, tall];
        canvas.style.width = `${width}px`;
        canvas.style.height = `${height}px`;
      }
      const pencil = canvas.getContext("2d");
      pencil.setTransform(dots, 0, 0, dots, 0, 0);
      pencil.clearRect(0, 0, width, height);
      const top = view.scrollTop;
      const found = this.inView(top, top + height);
      this.drawCells(pencil, found, dots);
      this.titles(pencil, top, height);
      this.drawStates(pencil, found);
      view.dataset.cells = this.cells.states.length;
      view.dataset.drawn = found.count;
      view.dataset.size = this.cell;
      view.dataset.milliseconds = (performance.now() - began).toFixed(2);
    },
    inView(from, to) {
      const most = this.cells.states.length;
      const cells = new Uint32Array(most), xs = new Int16Array(most), ys = new Int16Array(most);
      const size = this.cell;
      let count = 0;
      for (const block of this.blocks) {
        if (block.y + block.rows * size < from || block.y > to) continue;
        const first = Math.max(Math.floor((from - block.y) / size), 0);
        const last = Math.min(Math.ceil((to - block.y) / size), block.rows);
        for (let row = first; row < last; row++) {
          const start = row * block.across, end = Math.min(start + block.across, block.count);
          for (let i = start; i < end; i++) {
            cells[count] = block.first + i;
            xs[count] = block.x + (i - start) * size;
            ys[count++] = block.y + row * size - from;
          }
        }
      }
      return { cells, xs, ys, count };
    },
    titles(pencil, top, height) {
      pencil.font = this.font();
      pencil.textBaseline = "alphabetic";
      pencil.fillStyle = getComputedStyle(this.$el).color;
      for (const block of this.blocks) {
        const y = block.y - top - 6;
        if (y < -LABEL || y > height + LABEL) continue;
        pencil.save();
        pencil.beginPath();
        pencil.rect(block.x, y - LABEL, block.wide + GAP, 2 * LABEL);
        pencil.clip();
        pencil.fillText(block.title, block.x, y);
        pencil.restore();
      }
    },
    shownLevels() {  // of each cell, of what is shown
      const { levels, states } = this.cells;
      if (this.shown[0] === "r") return levels[+this.shown.slice(1)];
      const most = new Uint8Array(states.length);
      for (const row of levels)
        for (let i = 0; i < most.length; i++) if (row[i] > most[i]) most[i] = row[i];
      return most;
    },
    drawCells(pencil, { cells, xs, ys, count }, dots) {
      // Dots by hand: thousands of small rectangles take ten times as long. And what is used for
      // each cell is taken from `this` once: every look there goes through Vue.
      const { canvas } = this.$refs, wide = canvas.width, tall = canvas.height;
      const image = pencil.createImageData(wide, tall), ink = new Uint32Array(image.data.buffer);
      const { levels, states } = this.cells, side = this.cell - this.gap(), shades = this.dots;
      const shown = this.bars ? null : this.shownLevels();
      const colours = this.colours.map(dot), each = side / levels.length;
      const fill = (x, y, width, height, shade) => {
        const left = Math.round(x * dots), right = Math.round((x + width) * dots);
        const end = Math.min(Math.round((y + height) * dots), tall);
        for (let row = Math.max(Math.round(y * dots), 0); row < end; row++)
          for (let at = row * wide + left, to = row * wide + right; at < to; at++) ink[at] = shade;
      };
      for (let i = 0; i < count; i++) {
        const cell = cells[i], down = states[cell] === DOWN;
        fill(xs[i], ys[i], side, side, down ? shades.gone : shades.levels[shown ? shown[cell] : 0]);
        if (shown || down) continue;
        for (let r = 0; r < levels.length; r++) {
          const level = levels[r][cell];
          if (!level) continue;
          const from = Math.round(r * each), to = Math.max(Math.round((r + 1) * each), from + 1);
          // At least a pixel for a little, at least a pixel missing where it is not full.
          const high = level === FULL ? side
            : Math.min(Math.max(Math.round((level / FULL) * side), 1), side - 1);
          fill(xs[i] + from, ys[i] + side - high, to - from, high, colours[r % colours.length]);
        }
      }
      pencil.putImageData(image, 0, 0);
    },
    drawStates(pencil, { cells, xs, ys, count }) {
      const side = this.cell - this.gap(), { states } = this.cells;
      const style = getComputedStyle(this.$el);
      for (const state of [CLOSING, DOWN]) {
        pencil.beginPath();
        for (let i = 0; i < count; i++)
          if (states[cells[i]] === state) this.pattern(pencil, xs[i], ys[i], side, state);
        this.ink(pencil, state, side, style);
      }
    },
    pattern(pencil, x, y, side, state) {
      if (state === DOWN) {  // a cross in a frame
        pencil.rect(x + 0.5, y + 0.5, side - 1, side - 1);
        pencil.moveTo(x + 0.5, y + 0.5);
        pencil.lineTo(x + side - 0.5, y + side - 0.5);
        pencil.moveTo(x + side - 0.5, y + 0.5);
        pencil.lineTo(x + 0.5, y + side - 0.5);
        return;
      }
      const step = Math.max(Math.round(side / 3), 4);  // stripes
      for (let from = step - side; from < side; from += step) {
        const low = Math.max(from, 0), high = Math.min(from + side, side);
        pencil.moveTo(x + low, y + side - (low - from));
        pencil.lineTo(x + high, y + side - (high - from));
      }
    },
    ink(pencil, state, side, style) {
      // Seen on any shade: a pale stripe below a dark one.
      if (state === CLOSING && side >= 8) {
        pencil.lineWidth = 3;
        pencil.strokeStyle = style.getPropertyValue("--heat-paper");
        pencil.stroke();
      }
      pencil.lineWidth = side >= 20 ? 1.5 : 1;
      pencil.strokeStyle = style.getPropertyValue(state === DOWN ? "--heat-soft" : "--heat-ink");
      pencil.stroke();
    },
    legend() {
      const style = getComputedStyle(this.$el), { scale } = this.$refs;  // not there with bars
      if (scale) {
        const pencil = scale.getContext("2d"), wide = scale.width / (STEPS + 1);
        pencil.clearRect(0, 0, scale.width, scale.height);
        for (let i = -1; i < STEPS; i++) {
          pencil.fillStyle = i < 0 ? EMPTY[this.scheme] : this.shades[i];
          pencil.fillRect((i + 1) * wide, 0, Math.ceil(wide), scale.height);
        }
      }
      for (const [name, state] of [["closing", CLOSING], ["down", DOWN]]) {
        const pencil = this.$refs[name].getContext("2d");
        pencil.clearRect(0, 0, 14, 14);
        pencil.fillStyle = state === DOWN ? GONE[this.scheme] : this.shades[12];
        pencil.fillRect(0, 0, 14, 14);
        pencil.beginPath();
        this.pattern(pencil, 0, 0, 14, state);
        this.ink(pencil, state, 14, style);
      }
    },

    // Pointing

    scrolled() { if (this.by === "pointer") this.hide(); this.redraw(); },
    pointed(event) {
      const box = this.$refs.stage.getBoundingClientRect();
      const cell = this.cellAt(event.clientX - box.left, event.clientY - box.top, false);
      if (cell < 0) this.left();
      else if (cell !== this.at || this.by !== "pointer") this.go(cell, "pointer");
    },
    left() { if (this.by === "pointer") this.hide(); },
    picked() { if (this.at >= 0) this.$emit("pick", this.at); },
    wheel(event) {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const y = event.clientY - this.$refs.view.getBoundingClientRect().top;
      this.zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15, y);
    },
    entered() {
      if (!this.$refs.view.matches(":focus-visible") || !this.cells?.states.length) return;
      this.go(this.at >= 0 ? this.at : Math.max(this.cellAt(PAD + 1,
        this.$refs.view.scrollTop + PAD + LABEL + 1, true), 0), "keys");
    },
    keyed(event) {
      const most = this.cells ? this.cells.states.length - 1 : -1;
      if (most < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
      const now = Math.min(Math.max(this.at, 0), most);
      const moves = {
        ArrowLeft: () => now - 1, ArrowRight: () => now + 1,
        ArrowUp: () => this.beside(now, -1), ArrowDown: () => this.beside(now, 1),
        PageUp: () => this.beside(now, -10), PageDown: () => this.beside(now, 10),
        Home: () => 0, End: () => most,
      };
      const others = {
        "+": () => this.zoom(1.3), "=": () => this.zoom(1.3), "-": () => this.zoom(1 / 1.3),
        0: () => this.fit(), Escape: () => this.hide(),
        Enter: () => this.$emit("pick", now),
      };
      if (moves[event.key]) {
        event.preventDefault();
        const started = this.at < 0 && event.key.startsWith("Arrow");
        this.go(started ? now : Math.min(Math.max(moves[event.key](), 0), most), "keys");
      } else if (others[event.key]) {
        if (event.key !== "Escape") event.preventDefault();
        others[event.key]();
      }
    },
    beside(cell, rows) {  // rows down, or up if negative, in this block and then in the next
      const [x, y] = this.spot(cell), step = Math.sign(rows) * this.cell / 2;
      let best = cell, left = Math.abs(rows), from = y + this.cell / 2, lastRow = y;
      for (let at = from + step; at > 0 && at < this.tall && left > 0; at += step) {
        const found = this.cellAt(x + this.cell / 2, at, true);
        if (found < 0) continue;
        const row = this.spot(found)[1];
        if (row === lastRow) continue;
        lastRow = row;
        best = found;
        left--;
      }
      return best;
    },
    go(cell, by) {
      [this.at, this.by] = [cell, by];
      if (by === "keys") {
        const view = this.$refs.view, y = this.spot(cell)[1];
        if (y - LABEL < view.scrollTop) view.scrollTop = Math.max(y - LABEL - PAD, 0);
        else if (y + this.cell > view.scrollTop + view.clientHeight)
          view.scrollTop = y + this.cell + PAD - view.clientHeight;
      }
      this.mark();
      this.again();
    },
    again() {  // the text of the cell that is pointed at, afresh
      if (this.at < 0 || !this.cells || this.at >= this.cells.states.length) return;
      const known = this.known.get(this.at);
      this.tip(known ?? this.brief());
      if (known) { this.say(known); return; }
      clearTimeout(this.asking);
      const cell = this.at;
      this.asking = setTimeout(() => { if (cell === this.at) this.$emit("ask", cell); }, ASK_AFTER);
    },
    brief() {  // what is known here, until the server has told more
      const parts = this.cells.levels.map((row) => row[this.at] / FULL);
      return {
        title: `${this.cells.thing} ${(this.at + 1).toLocaleString("en")}`,
        lines: this.names.map((name, r) => `${name} ${Math.round(100 * parts[r])} %`),
        tasks: [],
      };
    },
    say(text) {
      if (this.by !== "keys") return;
      this.$refs.said.textContent = [text.title, ...text.lines, ...text.tasks].join(". ");
    },
    mark() {
      const spot = this.$refs.spot;
      spot.style.display = "none";
      if (this.at < 0 || !this.cells || this.at >= this.cells.states.length) return;
      const [x, y] = this.spot(this.at), side = this.cell - this.gap();
      Object.assign(spot.style, { display: "block", left: `${x - 2}px`, top: `${y - 2}px`,
        width: `${side + 4}px`, height: `${side + 4}px` });
    },
    tip(text) {
      const tip = this.$refs.tip, box = this.$refs.stage.getBoundingClientRect();
      const make = (name, text, kind) => {
        const made = document.createElement(name);
        made.textContent = text;
        if (kind) made.className = kind;
        return made;
      };
      tip.replaceChildren(make("b", text.title), ...text.lines.map((line) => make("div", line)));
      if (text.tasks.length) tip.append(make("div", text.tasks.join("\n"), "tasks"));
      tip.style.display = "block";
      const [x, y] = this.spot(this.at), wide = tip.offsetWidth, high = tip.offsetHeight;
      let left = box.left + x + this.cell + 6, top = box.top + y + this.cell + 6;
      if (left + wide > innerWidth - 8) left = box.left + x - wide - 6;
      if (top + high > innerHeight - 8) top = box.top + y - high - 6;
      tip.style.left = `${Math.max(Math.min(left, innerWidth - wide - 8), 8)}px`;
      tip.style.top = `${Math.max(Math.min(top, innerHeight - high - 8), 8)}px`;
    },
    hide() {
      clearTimeout(this.asking);
      this.at = -1;
      this.$refs.tip.style.display = "none";
      this.mark();
    },
  },
};
