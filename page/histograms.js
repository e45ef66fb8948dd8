// The histograms of the run, each as bars with a table: all values since the run was started.

const kHistograms = [
  "histograms.inference_seconds", "histograms.answer_seconds", "histograms.step_seconds", "histograms.batch_rows", "histograms.lag", "histograms.update_seconds",
];

// As `inference.p50_ms` has it, in one unit.
const kInMilliseconds = ["histograms.inference_seconds"];

/** A bound of a bucket. @param {number} value @param {string=} unit */
const bucketText = (value, unit) => unit === "ms" ? formatted(1000 * value, unit) : unit === "s" ? formatted(value, unit) : unit ? counted(value, unit) : number(value);

/**
 * Where the buckets are on a logarithmic axis: the right edge of each, and its width. Buckets without values are not in
 * the data: a bucket reaches down to the one before it, but is no wider than the narrowest distance of two bounds, or
 * than one whole number. The first may have all up to 0, the last one all above the other bounds.
 * @param {(number|null)[]} bounds ascending; null: infinite @returns {{end: number, width: number}[]}
 */
function bucketPlaces(bounds) {
  const positive = bounds.flatMap((bound) => bound !== null && bound > 0 ? [bound] : []), places = positive.map(Math.log2);
  const isWhole = bounds.every((bound) => bound === null || Number.isInteger(bound));
  const narrowest = Math.min(1, ...places.slice(1).map((place, i) => place - places[i]));
  const widest = (/** @type {number|null} */ bound) => isWhole && bound !== null && bound > 0 ? Math.max(narrowest, Math.min(1, Math.log2(bound / (bound - 1)))) : narrowest;
  const below = (places[0] ?? 0) - widest(positive[0] ?? null), above = (places[places.length - 1] ?? 0) + narrowest;
  const ends = bounds.map((bound) => bound === null ? above : bound > 0 ? Math.log2(bound) : below);
  return ends.map((end, i) => ({ end, width: i === 0 ? widest(bounds[0]) : Math.min(widest(bounds[i]), end - ends[i - 1]) }));
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
    const now = JSON.stringify([histogram, figures.size, words.steps]);
    if (!has || now === this.drawn) return;
    this.drawn = now;
    this.unit = kInMilliseconds.includes(this.path) ? "ms" : unitOf(this.path);
    const label = labelOf(this.path), title = label[0].toUpperCase() + label.slice(1), meaning = figures.get(this.path)?.meaning || title;
    this.heading.textContent = title;
    this.heading.title = meaning;
    this.card.setAttribute("aria-label", title);
    this.table.setAttribute("aria-label", title + ", table");
    const sum = histogram.count.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b, 0);
    const terms = [["median", bucketText(histogram.p50, this.unit)], ["99th percentile", bucketText(histogram.p99, this.unit)], ["values", number(sum)]];
    this.legend.replaceChildren(...terms.map(([name, text]) => element("span", {}, name + " ", element("b", {}, text))));
    this.bars.setAttribute("aria-label", `${meaning}: ${terms.map((term) => term.join(" ")).join(", ")}`);
    this.fill(histogram.le, histogram.count);
  }

  /** @param {(number|null)[]} bounds null: infinite @param {number[]} counts */
  fill(bounds, counts) {
    const places = bucketPlaces(bounds), from = places[0].end - places[0].width, most = Math.max(...counts);
    const range = places[places.length - 1].end - from;
    const name = (/** @type {number|null} */ bound) => bound === null ? "more" : "up to " + bucketText(bound, this.unit);
    this.bars.replaceChildren(...counts.map((count, i) => element("i", {
      style: `left: ${100 * (places[i].end - places[i].width - from) / range}%; width: ${100 * places[i].width / range}%; height: ${100 * count / most}%`, title: `${name(bounds[i])}: ${counted(count, "values")}`,
    })));
    this.ends.replaceChildren(...[...new Set([bounds[0], bounds[bounds.length - 1]])].map((bound) => element("span", {}, name(bound))));
    const shares = sharesOf(counts), rows = counts.map((count, i) => [name(bounds[i]), number(count), shares[i]]);
    this.table.replaceChildren(table(["value", "number of values", "share"], rows, 1));
  }
}

class Histograms {
  constructor() {
    this.charts = kHistograms.map((path) => new HistogramChart(path));
    this.panel = element("div", {}, element("h2", {}, "Distributions"), element("p", { class: "faint" }, "Of all values since this start of the run."), element("div", { class: "charts" }, ...this.charts.map((chart) => chart.card)));
  }

  /** @param {any} s */
  show(s) {
    for (const chart of this.charts) chart.show(at(s, chart.path));
    this.panel.hidden = this.charts.every((chart) => chart.card.hidden);
  }
}
