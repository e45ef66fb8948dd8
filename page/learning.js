// The view of the curves.

/**
 * The charts by their titles. Labels and units are those of the table of figures (figures.js). Of several runs the first
 * figure is compared, and each of an evaluation, or all.
 * @type {{title: string, paths: string[], spread?: [string, string], isEachCompared?: boolean}[]}
 */
const kCharts = [
  { title: "Return", paths: ["episodes.return_mean", "eval.return_mean"], spread: ["episodes.return_mean", "episodes.return_std"] },
  { title: "Success rate", paths: ["episodes.success_rate", "eval.success_rate"] },
  { title: "Episode length", paths: ["episodes.length_mean", "eval.length_mean"] },
  { title: "Tokens of an answer, by its end", paths: ["answers.produced_length", "answers.trained_length", "answers.dropped_length"] },
  { title: "Tokens of an answer, percentiles", paths: ["answers.length_p50", "answers.length_p95", "answers.length_max", "answers.length_min"] },
  { title: "Answers cut off", paths: ["answers.cut_fraction", "eval.cut_fraction"] },
  { title: "Tokens of an update", paths: ["learner.answer_tokens", "learner.computed_tokens"] },
  { title: "Turns of an answer", paths: ["answers.turns_mean", "answers.turns_max"] },
  { title: "Groups with equal rewards", paths: ["answers.groups_alike"] },
  { title: "Speed, env steps per second", paths: ["env_steps_per_second", "env_steps_per_second_60s"] },
  { title: "Policy lag", paths: ["lag.p50", "lag.p95", "lag.max", "lag.cap"] },
  { title: "KL divergence", paths: ["learner.kl", "learner.rollout_kl", "learner.kl_penalty"] },
  { title: "Clipped and dead samples", paths: ["learner.clip_fraction", "learner.dead_gradient_fraction", "learner.outside_fraction"] },
  { title: "Samples without gradient, by policy lag", paths: ["learner.dead_gradient_fraction_lag_0", "learner.dead_gradient_fraction_lag_1", "learner.dead_gradient_fraction_lag_2", "learner.dead_gradient_fraction_lag_4", "learner.dead_gradient_fraction_lag_8"] },
  { title: "Entropy", paths: ["learner.entropy"] },
  { title: "Effective sample size", paths: ["learner.ess", "learner.rollout_ess"] },
  { title: "Policy loss", paths: ["learner.policy_loss"] },
  { title: "Value loss", paths: ["learner.value_loss"] },
  { title: "Explained variance", paths: ["learner.explained_variance"] },
  { title: "Busy shares of time", paths: ["busy.workers", "busy.inference", "busy.trainer", "busy.run", "busy.machine"], isEachCompared: true },
  { title: "Gradient norm", paths: ["learner.grad_norm"] },
  { title: "Learning rates", paths: ["learner.policy_lr", "learner.value_lr"] },
];

/** @param {{title: string, paths: string[], spread?: [string, string]}} chart @returns {ChartSpec} */
const specOf = ({ title, paths, spread }) => ({ title, spread, unit: unitOf(paths[0]), curves: paths.map((path) => ({ path, label: labelOf(path) })) });

class LearningView {
  /** @param {Store} store @param {WarmupCurves=} warmup */
  constructor(store, warmup) {
    this.warmup = warmup;
    this.title = "Learning";
    this.store = store;
    this.grid = element("div", { class: "charts" });
    this.waiting = element("p", { class: "faint" });
    this.reset = element("button", { type: "button", hidden: "" }, "Show all points");
    this.reset.addEventListener("click", () => this.zoom(null));
    this.tasks = element("div", {});
    this.panel = element("section", {}, element("h2", { class: "unseen" }, "Curves"), this.reset, this.waiting, ...(warmup ? [warmup.panel] : []), this.grid, this.tasks);
    /** @type {Chart[]} */
    this.charts = [];
    this.axis = "env_steps";
    /** The part of the x axis that is shown; null: all. @type {[number, number] | null} */
    this.range = chosenZoom();
    this.reset.hidden = this.range === null;
  }

  begin() {
    for (const chart of this.charts) if (chart.plot) chart.plot.destroy();
    this.warmup?.begin();
    this.charts = kCharts.map((chart) => new Chart(specOf(chart), this.store));
    this.grid.replaceChildren(...this.charts.map((chart) => chart.card));
  }

  /** @param {any} s */
  show(s) {
    if (this.panel.hidden) return;
    this.waiting.textContent = warmingUp(s) ? "Curves appear when the warm-up has ended." : "Curves appear with the first figures.";
    this.warmup?.show();
    for (const chart of this.charts) {
      chart.card.hidden = false;
      chart.draw(this.axis, () => this.selected(chart), this.range);
    }
    this.waiting.hidden = this.charts.some((chart) => !chart.card.hidden);
    const paths = ["tasks.return_mean", "tasks.success_rate", "tasks.length_mean"], rows = mapRows(s, paths);
    this.tasks.replaceChildren(...(rows.length > 0 ? [element("h2", {}, "Tasks"), table(["task", ...paths.map(labelOf)], rows, 1)] : []));
  }

  /** The user dragged over a chart: all charts show that range. @param {Chart} from */
  selected(from) {
    const { left, width } = from.plot.select;
    if (width < 2) return;
    this.zoom([from.plot.posToVal(left, "x"), from.plot.posToVal(left + width, "x")]);
  }

  /** @param {[number, number] | null} range */
  zoom(range) {
    this.range = range;
    this.reset.hidden = range === null;
    place.set("zoom", ...(range === null ? [] : [range.map((end) => Number(end.toPrecision(8))).join(",")]));
    for (const chart of this.charts) {
      if (!chart.plot) continue;
      const all = chart.plot.data[0].filter((/** @type {any} */ value) => value !== null);
      const [min, max] = range || [all[0], all[all.length - 1]];
      chart.plot.setScale("x", { min, max });
    }
  }
}
