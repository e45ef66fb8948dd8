// A chart: its curves drawn by uPlot, the newest values as a legend, and the same figures as a table, a CSV file and a picture.

/**
 * @typedef {{path: string, label: string, dots?: boolean}} Curve dots: few points, each is drawn
 * @typedef {{title: string, curves: Curve[], unit?: string, spread?: [string, string]}} ChartSpec
 *   spread: paths of a mean and of its standard deviation, drawn as a band.
 */

const kColors = 5;
const kDashes = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5]];
const kBorders = ["solid", "dashed", "dotted", "dashed", "dotted"];
/** The dashes of a curve: two of one colour have others. @param {number} i */
const dashOf = (i) => (i + Math.floor(i / kColors)) % kDashes.length;
/** @param {number} i */
const colorName = (i) => "c" + (i % kColors + 1);
const kTableRows = 100;
const kMinute = 60, kHour = 3600, kDay = 86400;
/** Seconds between two labels of an axis of time. */
const kTimeSteps = [
  ...[1, 2, 5, 10, 15, 30], ...[1, 2, 5, 10, 15, 30].map((n) => n * kMinute), ...[1, 2, 3, 6, 12].map((n) => n * kHour),
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((n) => n * kDay),
];

/** @param {string} axis */
const axisName = (axis) => /** @type {Record<string, string>} */ ({ env_steps: words.steps, updates: "updates", elapsed_seconds: "time, minutes:seconds" })[axis] || labelOf(axis);
/** A place on an x axis. @param {string} axis @param {any} value */
const whereText = (axis, value) => "at " + (axis === "elapsed_seconds" ? duration(Number(value)) : counted(value, axisName(axis)));
/** Units that titles of charts do not tell by themselves. */
const kToldUnits = ["nats", "updates", "env steps"];

/** The limits of the y axis: a constant is drawn in the middle, not on an axis from 0. @param {any} _ @param {number|null} min @param {number|null} max */
function yRange(_, min, max) {
  if (min === null || max === null) return [0, 1];
  const pad = min === max ? 0.1 * Math.abs(min) || 1 : 0.08 * (max - min);
  return [min >= 0 && min < pad ? 0 : min - pad, max + pad];
}

/** Room for the longest label. @param {any} _ @param {string[] | null} labels */
const labelWidth = (_, labels) => Math.max(44, 18 + 7 * Math.max(0, ...(labels || []).map((label) => label.length)));

const kLabelPixels = 28;
/** The labels of a y axis. @param {any} plot @param {number} _ @param {number} min @param {number} max */
function ySplits(plot, _, min, max) {
  const most = Math.max(2, Math.floor(plot.bbox.height / (window.devicePixelRatio || 1) / kLabelPixels));
  return (plot.scales.y.distr === 3 ? logSplits : linearSplits)(min, max, most);
}

class Chart {
  /** @param {ChartSpec} spec @param {Store} store */
  constructor(spec, store) {
    this.spec = spec;
    this.store = store;
    this.legend = element("div", { class: "legend" });
    this.table = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": (words.titles[spec.title] || spec.title) + ", table" });
    this.details = element("details", {}, element("summary", {}, "Table"), this.table);
    this.note = element("p", { class: "faint" });
    this.details.addEventListener("toggle", () => this.fillTable());
    this.title = words.titles[spec.title] || spec.title;
    this.plotted = element("div", { role: "img", "aria-label": this.title });
    const heading = element("h3", {}, this.title + (kToldUnits.includes(spec.unit || "") ? ", " + spec.unit : ""));
    const known = spec.curves.map((curve) => figures.get(curve.path)).find((figure) => figure);
    if (known) heading.setAttribute("title", known.meaning);
    // Hidden until it has a curve.
    this.card = element("section", { class: "card", hidden: "", "aria-label": this.title }, heading, this.legend, this.plotted, this.note,
                        element("div", { class: "files" }, this.button("CSV", () => this.saveTable()), this.button("Picture", () => this.savePicture())), this.details);
    this.plot = null;
    this.drawn = "";
    /** @type {number | null} */
    this.pointed = null;
  }

  /** @param {string} name @param {() => void} action */
  button(name, action) {
    const button = element("button", { type: "button", "aria-label": `${name} of ${this.title}` }, name);
    button.addEventListener("click", action);
    return button;
  }

  /** Draws the newest points. @param {string} axis @param {() => void} zoomed @param {[number, number] | null} range of the x axis; null: all */
  draw(axis, zoomed, range) {
    const present = this.spec.curves.filter((curve) => this.store.has(curve.path));
    this.card.hidden = present.length === 0;
    if (this.card.hidden) return;
    this.present = present;
    this.fillLegend();
    const width = Math.floor(this.plotted.clientWidth);
    if (width === 0) return;
    const bands = this.bands().map(({ curve }) => curve);
    const now = JSON.stringify([axis, width, document.documentElement.dataset.theme, drawing.log, drawing.smoothing > 0, present, bands]);
    const data = this.data(axis);
    if (now !== this.drawn) this.make(axis, width, zoomed, data);
    this.drawn = now;
    this.plot.setData(data, range === null);
    if (range !== null) this.plot.setScale("x", { min: range[0], max: range[1] });
    if (this.details.hasAttribute("open")) this.fillTable();
    const newest = present.map((curve) => [curve.label, ...this.newestTexts(curve)].join(" "));
    this.plotted.setAttribute("aria-label", this.title + ", newest values: " + newest.join(", "));
  }

  /** The newest value, and where it is if newer points have none. @param {string} path @returns {{value: number|null, where: string}} */
  newest(path) {
    const column = this.store.column(path), axis = this.store.tableAxes.slice(-1)[0], places = this.store.column(axis);
    let newer = null;
    for (let row = column.length; row-- > 0; ) {
      const value = column[row];
      if (typeof value === "number") return { value, where: newer !== null && newer !== places[row] ? whereText(axis, places[row]) : "" };
      if (value === null) newer ??= places[row];
    }
    return { value: null, where: "" };
  }

  /** The newest value as a text, and where it is if that is not the end of the curve. @param {Curve} curve */
  newestTexts(curve) {
    const { value, where } = this.newest(curve.path);
    return [formatted(value, this.spec.unit), where].filter(Boolean);
  }

  /** @param {Curve} curve */
  isSparse(curve) { return curve.dots ?? isEvaluation(curve.path); }

  /** The areas around curves: which curve, and their edges. @returns {{curve: number, high: Values, low: Values}[]} */
  bands() {
    if (this.spec.spread) {
      const [mean, deviation] = this.spec.spread.map((path) => this.store.column(path));
      const [high, low] = [1, -1].map((sign) => mean.map((value, i) => {
        const width = deviation[i];
        return typeof value === "number" && typeof width === "number" ? value + sign * width : value === undefined ? undefined : null;
      }));
      return [{ curve: 0, high, low }];
    }
    return (this.present || []).flatMap((curve, i) => {
      const edges = this.store.edges(curve.path);
      return edges ? [{ curve: i, ...edges }] : [];
    });
  }

  /** What uPlot draws: the axis, with smoothing the curves as they are, the curves, the edges of the bands. @param {string} axis */
  data(axis) {
    const present = this.present || [], smooth = drawing.smoothing > 0;
    const shown = (/** @type {Values} */ values) => drawing.log ? positive(values) : values;
    const curves = present.map((curve) => this.store.column(curve.path));
    const left = drawing.log ? curves.flat().filter((value) => typeof value === "number" && value <= 0).length : 0;
    this.note.textContent = left > 0 ? `The logarithmic axis leaves out ${counted(left, "values")} of 0 or less.` : "";
    return [this.store.column(axis), ...(smooth ? curves.map(shown) : []),
            ...curves.map((values, i) => shown(smooth && !this.isSparse(present[i]) ? smoothed(values, drawing.smoothing) : values)),
            ...this.bands().flatMap(({ high, low }) => [shown(high), shown(low)])];
  }

  /** The lines of uPlot, in the order of data(). */
  series() {
    const present = this.present || [], smooth = drawing.smoothing > 0;
    const line = (/** @type {Curve} */ curve, /** @type {number} */ i, /** @type {string} */ opacity) => ({
      label: curve.label, stroke: color(colorName(i)) + opacity, width: 1.6, dash: opacity ? [] : kDashes[dashOf(i)], spanGaps: this.isSparse(curve),
      // A value between two gaps is no line.
      points: { show: this.isSparse(curve), size: 5, filter: (/** @type {any} */ plot, /** @type {number} */ series, /** @type {boolean} */ all) => all ? null : alone(plot.data[series]) },
    });
    const edge = { label: "", stroke: "transparent", width: 0, dash: [], spanGaps: false, points: { show: false } };
    return [...(smooth ? present.map((curve, i) => line(curve, i, "45")) : []), ...present.map((curve, i) => line(curve, i, "")),
            ...this.bands().flatMap(() => [edge, edge])];
  }

  /** @param {string} axis @param {number} width @param {() => void} zoomed @param {any[]} data */
  make(axis, width, zoomed, data) {
    if (this.plot) this.plot.destroy();
    const first = 1 + (this.present || []).length * (drawing.smoothing > 0 ? 2 : 1);
    const bands = this.bands().map(({ curve }, i) => ({ series: [first + 2 * i, first + 2 * i + 1], fill: color(colorName(curve)) + "30" }));
    const look = () => ({ stroke: color("faint"), grid: { stroke: color("line"), width: 0.5 }, ticks: { stroke: color("line"), width: 0.5 }, font: "11px system-ui" });
    const time = axis === "elapsed_seconds";
    const percent = isShare(this.spec.unit);
    this.plot = new uPlot({
      width, height: 206, legend: { show: false }, bands,
      scales: { x: { time: false }, y: drawing.log ? { distr: 3, range: logRange } : { range: yRange } },
      cursor: { sync: { key: axis, setSeries: false }, drag: { x: true, y: false } },
      series: [{ label: axisName(axis) }, ...this.series()],
      axes: [
        { ...look(), size: 30, label: axisName(axis), labelSize: 16, labelFont: "11px system-ui", ...(time ? { incrs: kTimeSteps, space: 60 } : {}), values: (/** @type {any} */ _, /** @type {number[]} */ all) => all.map(time ? duration : short) },
        // uPlot itself has no labels for numbers below 1e-16. It takes its own increments only to see that there is room.
        { ...look(), size: labelWidth, splits: ySplits, incrs: [kLargestLog], filter: (/** @type {any} */ _, /** @type {number[]} */ all) => all, values: (/** @type {any} */ _, /** @type {number[]} */ all) => all.map((v) => v === null ? "" : percent ? short(100 * v) + " %" : short(v)) },
      ],
      hooks: { draw: [(/** @type {any} */ plot) => this.markRestarts(plot, axis)], setSelect: [zoomed], setCursor: [(/** @type {any} */ plot) => this.point(plot.cursor.idx ?? null, axis)] },
    }, data, this.plotted);
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
    const value = (/** @type {Curve} */ curve, /** @type {number} */ at) => this.isSparse(curve) ? this.store.column(curve.path)[at] : this.before(curve.path, at);
    const where = [];
    if (row !== null && this.axis) {
      const x = this.store.column(this.axis)[row];
      where.push(element("span", { class: "where" }, whereText(this.axis, x)));
    }
    if (this.store.restarts("updates").length > 0) where.push(element("span", { class: "where" }, "\u2506 started again"));
    this.legend.replaceChildren(...(this.present || []).map((curve, i) => {
      const key = element("span", { class: "key", style: `border-color: var(--${colorName(i)}); border-top-style: ${kBorders[dashOf(i)]}` });
      const [text, when = ""] = row === null ? this.newestTexts(curve) : [formatted(value(curve, row), this.spec.unit)];
      return element("span", {}, key, curve.label + " ", element("b", {}, text), when && " " + when);
    }), ...where);
  }

  fillTable() {
    if (!this.details.hasAttribute("open")) return;
    const present = this.present || [], axes = this.store.tableAxes;
    const head = element("tr", {}, ...axes.map((axis) => element("th", { class: "number", scope: "col" }, axisName(axis))),
                         ...present.map((curve) => element("th", { class: "number", scope: "col" }, curve.label)));
    const rows = [];
    for (let i = this.store.rows - 1; i >= 0 && rows.length < kTableRows; --i) {
      const values = present.map((curve) => this.store.column(curve.path)[i]);
      if (values.every((value) => typeof value !== "number")) continue;
      rows.push(element("tr", {}, ...axes.map((axis) => element("td", { class: "number" }, formatted(this.store.column(axis)[i], axis === "elapsed_seconds" ? "s" : undefined))),
                        ...values.map((value) => element("td", { class: "number" }, formatted(value, this.spec.unit)))));
    }
    const shown = element("p", { class: "faint" }, `${rows.length} of ${this.store.rows} points, newest first`);
    this.table.replaceChildren(shown, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
  }

  /** All points, as they are, for other programs. */
  csv() {
    const axes = this.store.csvAxes, present = this.present || [];
    const bands = this.spec.spread ? [] : this.bands();
    return csvOf([...axes, ...present.map((curve) => this.store.csvName(curve)),
                  ...bands.flatMap(({ curve }) => [present[curve].label + " low", present[curve].label + " high"])],
                 [...axes.map((axis) => this.store.column(axis)), ...present.map((curve) => this.store.column(curve.path)), ...bands.flatMap(({ low, high }) => [low, high])], axes.length);
  }

  saveTable() { save(new Blob([this.csv()], { type: "text/csv" }), `${document.title.split(" \u00b7 ")[0]} ${this.title}.csv`); }

  /** What is drawn, with its title and the names of its curves and its axis; null before it is drawn. */
  picture() {
    if (!this.plot) return null;
    const keys = (this.present || []).map((curve, i) => ({ label: curve.label, color: color(colorName(i)), dash: kDashes[dashOf(i)] }));
    const smoothing = drawing.smoothing > 0 ? `, smoothed ${drawing.smoothing}` : "";
    return pictureOf(this.title + smoothing, this.plot.ctx.canvas, keys);
  }

  savePicture() {
    const canvas = this.picture();
    if (canvas) canvas.toBlob((content) => { if (content) save(content, `${document.title.split(" \u00b7 ")[0]} ${this.title}.png`); });
  }
}
