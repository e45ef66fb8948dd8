// The histograms of the run, each as bars with a table: all values since the run was started.

const kHistograms = [
  "histograms.inference_seconds", "histograms.answer_seconds", "histograms.step_seconds", "histograms.batch_rows", "histograms.lag", "histograms.update_seconds",
];
/** Bounds of buckets are powers of this. */
const kBucketGrowth = 2 ** 0.25;

/** A value of a histogram: times from microseconds to hours. @param {number} value @param {string=} unit */
function bucketText(value, unit) {
  if (unit !== "s" || value === 0) return number(value) + (unit ? " " + unit : "");
  if (value < 1e-3) return number(1e6 * value) + " \u00b5s";
  if (value < 1) return number(1e3 * value) + " ms";
  return value < 120 ? number(value) + " s" : duration(value);
}

class HistogramChart {
  /** @param {string} path */
  constructor(path) {
    this.path = path;
    this.heading = element("h3", {});
    this.legend = element("div", { class: "legend" });
    this.bars = element("div", { class: "bars", role: "img" });
    this.ends = element("div", { class: "ends faint" });
    this.table = element("div", { class: "scroll", tabindex: "0", role: "region" });
    this.details = element("details", {}, element("summary", {}, "Table"), this.table);
    this.card = element("section", { class: "card", hidden: "" }, this.heading, this.legend, this.bars, this.ends, this.details);
    this.drawn = "";
  }

  /** @param {any} histogram null while it has no values */
  show(histogram) {
    const has = histogram !== null && Array.isArray(histogram.le) && histogram.le.length > 0;
    this.card.hidden = !has;
    const now = JSON.stringify([histogram, figures.size]);
    if (!has || now === this.drawn) return;
    this.drawn = now;
    this.unit = unitOf(this.path);
    const title = labelOf(this.path).replace(/^histograms /, ""), meaning = figures.get(this.path)?.meaning || title;
    this.heading.textContent = title;
    this.heading.title = meaning;
    this.card.setAttribute("aria-label", title);
    this.table.setAttribute("aria-label", title + ", table");
    const sum = histogram.count.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b, 0);
    const terms = [["median", bucketText(histogram.p50, this.unit)], ["p99", bucketText(histogram.p99, this.unit)], ["values", number(sum)]];
    this.legend.replaceChildren(...terms.map(([name, text]) => element("span", {}, name + " ", element("b", {}, text))));
    this.bars.setAttribute("aria-label", `${meaning}: ${terms.map((term) => term.join(" ")).join(", ")}`);
    this.fill(histogram.le, histogram.count, sum);
  }

  /** @param {(number|null)[]} bounds null: infinite @param {number[]} counts @param {number} sum */
  fill(bounds, counts, sum) {
    // A bucket is as wide as its place on a logarithmic axis; the first one has all from 0, the last one what is above all bounds.
    const finite = bounds.filter((bound) => bound !== null && bound > 0).map((bound) => Math.log(Number(bound)) / Math.log(kBucketGrowth));
    const first = Math.round(finite[0] ?? 0), last = Math.round(finite[finite.length - 1] ?? 0);
    const places = bounds.map((bound) => bound === null ? last + 1 : bound > 0 ? Math.round(Math.log(bound) / Math.log(kBucketGrowth)) : first - 1);
    const from = Math.min(...places), slots = Math.max(...places) - from + 1, most = Math.max(...counts);
    const name = (/** @type {number|null} */ bound) => bound === null ? "more" : "to " + bucketText(bound, this.unit);
    this.bars.replaceChildren(...counts.map((count, i) => element("i", {
      style: `left: ${100 * (places[i] - from) / slots}%; width: ${100 / slots}%; height: ${100 * count / most}%`, title: `${name(bounds[i])}: ${number(count)}`,
    })));
    this.ends.replaceChildren(...[bounds[0], bounds[bounds.length - 1]].map((bound) => element("span", {}, name(bound))));
    const rows = counts.map((count, i) => [name(bounds[i]), number(count), formatted(count / sum, "0 to 1")]);
    this.table.replaceChildren(table(["value", "count", "share"], rows, 1));
  }
}

class Histograms {
  constructor() {
    this.charts = kHistograms.map((path) => new HistogramChart(path));
    this.panel = element("div", {}, element("h2", {}, "Distributions"), element("div", { class: "charts" }, ...this.charts.map((chart) => chart.card)));
  }

  /** @param {any} s */
  show(s) {
    for (const chart of this.charts) chart.show(at(s, chart.path));
    this.panel.hidden = this.charts.every((chart) => chart.card.hidden);
  }
}
