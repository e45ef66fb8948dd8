// The curves of the warm-up of a token run, over its steps: it has no environment steps and no updates.

const kWarmupAxis = "warmup.step";
const kWarmupPaths = ["warmup.loss", "warmup.pass_at_1"];

class WarmupCurves {
  constructor() {
    this.store = new JoinedCurves();
    this.grid = element("div", { class: "charts" });
    this.panel = element("div", { hidden: "" }, element("h2", {}, "Warm-up"), this.grid);
    /** @type {Chart[]} */
    this.charts = [];
    this.clear();
  }

  clear() {
    /** The values of kWarmupPaths by the step. @type {Map<number, (number|null)[]>} */
    this.steps = new Map();
    this.isNew = true;
  }

  begin() {
    for (const chart of this.charts) if (chart.plot) chart.plot.destroy();
    const title = (/** @type {string} */ path) => labelOf(path)[0].toUpperCase() + labelOf(path).slice(1);
    this.charts = kWarmupPaths.map((path) => new Chart({ title: title(path), unit: unitOf(path), curves: [{ path, label: labelOf(path) }] }, /** @type {any} */ (this.store)));
    this.grid.replaceChildren(...this.charts.map((chart) => chart.card));
    this.isNew = true;
  }

  /** A point, unless it has no step. A run that is started again makes steps again. @param {(path: string) => any} value */
  add(value) {
    const step = value(kWarmupAxis);
    if (typeof step !== "number") return;
    this.steps.set(step, kWarmupPaths.map((path) => known(value(path))));
    this.isNew = true;
  }

  show() {
    this.panel.hidden = this.steps.size === 0;
    if (this.panel.hidden) return;
    if (this.isNew) {
      const x = [...this.steps.keys()].sort((a, b) => a - b), values = x.map((step) => this.steps.get(step) || []);
      // What was not measured at a step is no gap.
      this.store.set(kWarmupAxis, kWarmupPaths.map((key, i) => {
        const rows = [...x.keys()].filter((row) => values[row][i] !== null);
        return { key, label: labelOf(key), x: rows.map((row) => x[row]), y: rows.map((row) => values[row][i]) };
      }));
    }
    this.isNew = false;
    for (const chart of this.charts) {
      chart.card.hidden = false;
      chart.draw(kWarmupAxis, () => {}, null);
    }
  }
}
