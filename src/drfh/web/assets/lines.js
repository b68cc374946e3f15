// Lines over time that grow at their right end: all points go over once, then only the new ones.
import { echarts } from "nicegui-echart";

const INK = {
  light: { ink: "#1c2330", soft: "#5a6475", grid: "#e3e7ee", paper: "#ffffff" },
  dark: { ink: "#e6e9ef", soft: "#9aa4b5", grid: "#2c3440", paper: "#1b212b" },
};
const LEAST_SPAN = 60e3;  // milliseconds: a history of two seconds is no line

function clock(at, long) {
  const two = (n) => String(n).padStart(2, "0"), when = new Date(at);
  const time = `${two(when.getHours())}:${two(when.getMinutes())}`;
  return long ? `${time}:${two(when.getSeconds())}` : time;
}

export default {
  template: `<div role="img" :aria-label="text" :style="{ width: '100%', height: height + 'px' }">
    </div>`,
  props: { first: Object, number: Number, height: Number, unit: String, ends: Boolean },
  data() { return { text: "" }; },
  created() {
    this.version = -1;
    this.series = [];
    this.times = [];
    this.rows = [];
    this.span = LEAST_SPAN;
  },
  async mounted() {
    await new Promise((resolve) => setTimeout(resolve, 0));  // until the box has its width
    if (!this.$el.isConnected) return;
    this.theme();
    this.chart = echarts.init(this.$el, null, { renderer: "canvas" });
    this.sizes = new ResizeObserver(() => { this.chart.resize(); this.show(); });
    this.sizes.observe(this.$el);
    this.classes = new MutationObserver(() => { this.theme(); this.show(); });
    this.classes.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    if (this.first && this.version < 0) this.set(this.first, this.number);
    else this.show();
    this.$emit("ready", this.version);
  },
  beforeUnmount() { this.chart?.dispose(); },
  unmounted() { this.sizes?.disconnect(); this.classes?.disconnect(); },
  methods: {
    set(data, number) {
      this.series = data.series;
      this.times = data.times;
      this.rows = data.rows;
      this.span = data.span * 1000;
      this.text = data.text;
      this.version = number;
      this.fresh = true;
      this.show();
    },
    add(more, before, number) {
      if (this.version !== before) {  // something was missed
        this.$emit("ready", this.version);
        return;
      }
      this.times.push(...more.times);
      this.rows.forEach((row, i) => row.push(...more.rows[i]));
      const oldest = this.times.at(-1) - this.span / 1000;
      let old = 0;
      while (this.times[old] < oldest) old++;
      if (old) {
        this.times.splice(0, old);
        this.rows.forEach((row) => row.splice(0, old));
      }
      this.text = more.text;
      this.version = number;
      this.show();
    },
    theme() {
      this.look = INK[document.body.classList.contains("body--dark") ? "dark" : "light"];
    },
    written(value) {
      if (value === null || value === undefined || Number.isNaN(value)) return "–";
      if (this.unit !== "percent") return value.toLocaleString("en");
      return `${+(100 * value).toFixed(value < 0.1 ? 2 : 1)} %`;
    },
    whole() {  // all of it is the scale, where it suits the numbers
      let most = 0;
      for (const row of this.rows) for (const value of row) if (value > most) most = value;
      return this.unit === "percent" && (most === 0 || (most > 0.75 && most <= 1));
    },
    show() {
      if (!this.chart || !this.$el.clientWidth) return;
      const { look } = this, wide = this.$el.clientWidth >= 560, whole = this.whole();
      const last = 1000 * (this.times.at(-1) ?? 0);
      const first = Math.max(1000 * (this.times[0] ?? 0), last - this.span);
      const room = this.ends && this.series.length ? (wide ? 122 : 88) : 14;
      this.$el.dataset.points = this.times.length;
      this.$el.dataset.last = JSON.stringify(this.rows.map((row) => row.at(-1) ?? null));
      this.chart.setOption({
        animation: false,
        textStyle: { fontFamily: getComputedStyle(this.$el).fontFamily },
        grid: { left: 52, right: room, top: 12, bottom: 26 },
        xAxis: {
          type: "time", min: Math.min(first, last - LEAST_SPAN), max: last,
          axisLabel: { color: look.soft, hideOverlap: true, showMaxLabel: false,
            formatter: (at) => clock(at, last - first < 600e3) },
          axisLine: { lineStyle: { color: look.soft } }, splitLine: { show: false },
          splitNumber: wide ? 6 : 3,
        },
        yAxis: {
          type: "value", min: 0, minInterval: this.unit === "percent" ? 0 : 1,
          max: whole ? 1 : null, interval: whole ? 0.25 : null,
          axisLabel: { color: look.soft, formatter: (value) => this.written(value) },
          splitLine: { lineStyle: { color: look.grid } }, splitNumber: 4,
        },
        tooltip: {
          trigger: "axis", confine: true, transitionDuration: 0,
          backgroundColor: look.paper, borderColor: look.soft,
          textStyle: { color: look.ink, fontSize: 13 },
          axisPointer: { lineStyle: { color: look.soft } },
          formatter: (points) => this.tooltip(points),
        },
        series: this.series.map((line, i) => this.drawn(line, i, wide)),
      }, { notMerge: this.fresh });
      this.fresh = false;
    },
    drawn(line, i, wide) {
      const row = this.rows[i], { look } = this;
      return {
        type: "line", name: line.name, showSymbol: false, step: "end", silent: true,
        data: this.times.map((time, j) => [1000 * time, row[j]]),
        color: line.colour, z: line.dashed ? 2 : 3, connectNulls: false,
        lineStyle: { width: line.dashed ? 1.5 : 2.5, type: line.dashed ? [6, 4] : "solid",
          color: line.colour, opacity: line.dashed ? 0.9 : 1 },
        areaStyle: line.filled ? { color: line.colour, opacity: 0.18 } : undefined,
        endLabel: this.ends && !line.dashed
          ? { show: true, formatter: () => `{spot|■} ${line.name}`, color: look.ink, fontSize: 12,
              distance: 6, width: wide ? 108 : 74, overflow: "truncate", lineHeight: 16,
              minMargin: 2, rich: { spot: { color: line.colour, fontSize: 10 } } }
          : { show: false },
        labelLayout: { moveOverlap: "shiftY" },
      };
    },
    tooltip(points) {  // as an element: names are text, never markup
      const box = document.createElement("div");
      const at = points[0]?.axisValue, j = points[0]?.dataIndex ?? -1;
      const head = document.createElement("b");
      head.textContent = clock(at, true);
      box.append(head);
      this.series.forEach((line, i) => {
        if (line.dashed) return;
        const value = this.rows[i][j];
        if (value === null || value === undefined) return;
        const fair = this.series.findIndex((other) => other.dashed && other.name === line.name);
        const row = document.createElement("div");
        const spot = document.createElement("span");
        Object.assign(spot.style, { display: "inline-block", width: ".7em", height: ".7em",
          background: line.colour, marginRight: ".4em" });
        const beside = fair < 0 ? "" : ` (fair ${this.written(this.rows[fair][j])})`;
        row.append(spot, `${line.name} ${this.written(value)}${beside}`);
        box.append(row);
      });
      return box;
    },
  },
};
