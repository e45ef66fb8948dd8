// A chart: its curves drawn by uPlot, the newest values as a legend, and the same figures as a table.

/**
 * @typedef {{path: string, label: string}} Curve
 * @typedef {{title: string, curves: Curve[], unit?: string, spread?: [string, string]}} ChartSpec
 *   spread: paths of a mean and of its standard deviation, drawn as a band.
 */

const kDashes = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5]];
const kTableRows = 100;
const kMinute = 60, kHour = 3600, kDay = 86400;
/** Seconds between two labels of an axis of time. */
const kTimeSteps = [
  ...[1, 2, 5, 10, 15, 30], ...[1, 2, 5, 10, 15, 30].map((n) => n * kMinute), ...[1, 2, 3, 6, 12].map((n) => n * kHour),
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((n) => n * kDay),
];

/** @param {string} axis */
const axisName = (axis) => /** @type {Record<string, string>} */ ({ env_steps: words.steps, updates: "updates", elapsed_seconds: "time" })[axis];

/** The limits of the y axis: a constant is drawn in the middle, not on an axis from 0. @param {any} _ @param {number|null} min @param {number|null} max */
function yRange(_, min, max) {
  if (min === null || max === null) return [0, 1];
  const pad = min === max ? 0.1 * Math.abs(min) || 1 : 0.08 * (max - min);
  return [min >= 0 && min < pad ? 0 : min - pad, max + pad];
}

/** Room for the longest label. @param {any} _ @param {string[] | null} labels */
const labelWidth = (_, labels) => Math.max(44, 18 + 7 * Math.max(0, ...(labels || []).map((label) => label.length)));

class Chart {
  /** @param {ChartSpec} spec @param {Store} store @param {Map<string, any>} meanings */
  constructor(spec, store, meanings) {
    this.spec = spec;
    this.store = store;
    this.legend = element("div", { class: "legend" });
    this.plotted = element("div", { role: "img" });
    this.table = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": (words.titles[spec.title] || spec.title) + ", table" });
    this.details = element("details", {}, element("summary", {}, "Table"), this.table);
    this.details.addEventListener("toggle", () => this.fillTable());
    this.title = words.titles[spec.title] || spec.title;
    const heading = element("h3", {}, this.title);
    const known = spec.curves.map((curve) => meanings.get(curve.path)).find((metric) => metric);
    if (known) heading.setAttribute("title", known.help);
    // Hidden until it has a curve.
    this.card = element("section", { class: "card", hidden: "", "aria-label": this.title }, heading, this.legend, this.plotted, this.details);
    this.plot = null;
    this.drawn = "";
    /** @type {number | null} */
    this.pointed = null;
  }

  /** Draws the newest points. @param {string} axis @param {() => void} zoomed */
  draw(axis, zoomed) {
    const present = this.spec.curves.filter((curve) => this.store.has(curve.path));
    this.card.hidden = present.length === 0;
    if (this.card.hidden) return;
    this.present = present;
    this.fillLegend();
    const width = Math.floor(this.plotted.clientWidth);
    if (width === 0) return;
    const now = [axis, width, document.documentElement.dataset.theme, present.map((curve) => curve.path)].join();
    if (now !== this.drawn) this.make(axis, width, zoomed);
    this.drawn = now;
    const full = this.plot.scales.x.full !== false;
    this.plot.setData(this.data(axis), full);
    if (this.details.hasAttribute("open")) this.fillTable();
    const newest = present.map((curve) => curve.label + " " + formatted(this.newest(curve.path), this.spec.unit));
    this.plotted.setAttribute("aria-label", this.title + ", newest values: " + newest.join(", "));
  }

  /** @param {string} path */
  newest(path) {
    const column = this.store.column(path);
    for (let i = column.length; i-- > 0; ) if (typeof column[i] === "number") return column[i];
    return null;
  }

  /** @param {string} axis */
  data(axis) {
    const columns = (this.present || []).map((curve) => this.store.column(curve.path));
    if (this.spec.spread) {
      const [mean, deviation] = this.spec.spread.map((path) => this.store.column(path));
      for (const sign of [1, -1])
        columns.push(mean.map((value, i) => {
          const width = deviation[i];
          return typeof value === "number" && typeof width === "number" ? value + sign * width : value === undefined ? undefined : null;
        }));
    }
    return [this.store.column(axis), ...columns];
  }

  /** @param {string} axis @param {number} width @param {() => void} zoomed */
  make(axis, width, zoomed) {
    if (this.plot) this.plot.destroy();
    const present = this.present || [];
    const series = present.map((curve, i) => ({
      label: curve.label, stroke: color("c" + (i % 5 + 1)), width: 1.6, dash: kDashes[i % 5], spanGaps: isEvaluation(curve.path),
      points: { show: isEvaluation(curve.path), size: 5 },
    }));
    const bands = [];
    if (this.spec.spread) {
      series.push(...[1, -1].map(() => ({ label: "", stroke: "transparent", width: 0, dash: [], spanGaps: false, points: { show: false, size: 0 } })));
      bands.push({ series: [present.length + 1, present.length + 2], fill: color("c1") + "30" });
    }
    const look = () => ({ stroke: color("faint"), grid: { stroke: color("line"), width: 0.5 }, ticks: { stroke: color("line"), width: 0.5 }, font: "11px system-ui" });
    const time = axis === "elapsed_seconds";
    const percent = this.spec.unit === "0 to 1";
    this.plot = new uPlot({
      width, height: 190, legend: { show: false }, bands,
      scales: { x: { time: false }, y: { range: yRange } },
      cursor: { sync: { key: "x", setSeries: false }, drag: { x: true, y: false } },
      series: [{ label: axisName(axis) }, ...series],
      axes: [
        { ...look(), size: 30, ...(time ? { incrs: kTimeSteps, space: 60 } : {}), values: (/** @type {any} */ _, /** @type {number[]} */ all) => all.map(time ? duration : short) },
        { ...look(), size: labelWidth, values: (/** @type {any} */ _, /** @type {number[]} */ all) => all.map((v) => percent ? short(100 * v) + " %" : short(v)) },
      ],
      hooks: { draw: [(/** @type {any} */ plot) => this.markRestarts(plot, axis)], setSelect: [zoomed], setCursor: [(/** @type {any} */ plot) => this.point(plot.cursor.idx ?? null, axis)] },
    }, this.data(axis), this.plotted);
  }

  /** A dashed line where the run was started again. @param {any} plot @param {string} axis */
  markRestarts(plot, axis) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = color("faint");
    ctx.setLineDash([4, 4]);
    for (const value of this.store.restarts(axis)) {
      const x = Math.round(plot.valToPos(value, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  /** The row under the pointer, in this or another chart, whose values the legend then has. @param {number | null} row @param {string} axis */
  point(row, axis) {
    if (row === this.pointed) return;
    this.pointed = row;
    this.axis = axis;
    this.fillLegend();
  }

  /** A row that belongs to another curve has no value of this one: that of the row before it counts. @param {string} path @param {number} row */
  before(path, row) {
    const column = this.store.column(path);
    while (row > 0 && column[row] === undefined) --row;
    return column[row];
  }

  fillLegend() {
    const row = this.pointed !== null && this.pointed < this.store.rows ? this.pointed : null;
    const value = (/** @type {string} */ path) => row === null ? this.newest(path) : isEvaluation(path) ? this.store.column(path)[row] : this.before(path, row);
    const where = [];
    if (row !== null && this.axis) {
      const x = this.store.column(this.axis)[row];
      where.push(element("span", { class: "where" }, `at ${this.axis === "elapsed_seconds" ? duration(Number(x)) : formatted(x) + " " + axisName(this.axis)}`));
    }
    if (this.store.restarts("updates").length > 0) where.push(element("span", { class: "where" }, "\u2506 started again"));
    this.legend.replaceChildren(...(this.present || []).map((curve, i) => {
      const key = element("span", { class: "key", style: `border-color: var(--c${i % 5 + 1}); border-top-style: ${["solid", "dashed", "dotted", "dashed", "dotted"][i % 5]}` });
      return element("span", {}, key, curve.label + " ", element("b", {}, formatted(value(curve.path), this.spec.unit)));
    }), ...where);
  }

  fillTable() {
    if (!this.details.hasAttribute("open")) return;
    const present = this.present || [];
    const head = element("tr", {}, element("th", { class: "number", scope: "col" }, words.steps), element("th", { class: "number", scope: "col" }, "updates"),
                         ...present.map((curve) => element("th", { class: "number", scope: "col" }, curve.label)));
    const rows = [];
    for (let i = this.store.rows - 1; i >= 0 && rows.length < kTableRows; --i) {
      const values = present.map((curve) => this.store.column(curve.path)[i]);
      if (values.every((value) => typeof value !== "number")) continue;
      rows.push(element("tr", {}, ...[this.store.column("env_steps")[i], this.store.column("updates")[i]].map((v) => element("td", { class: "number" }, formatted(v))),
                        ...values.map((value) => element("td", { class: "number" }, formatted(value, this.spec.unit)))));
    }
    const shown = element("p", { class: "faint" }, `${rows.length} of ${this.store.rows} points, newest first`);
    this.table.replaceChildren(shown, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
  }
}
