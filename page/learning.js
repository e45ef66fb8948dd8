// The view of the curves.

/** @type {ChartSpec[]} */
const kCharts = [
  { title: "Return", curves: [{ path: "episodes.return_mean", label: "training" }, { path: "eval.return_mean", label: "evaluation" }],
    spread: ["episodes.return_mean", "episodes.return_std"] },
  { title: "Success rate", unit: "0 to 1", curves: [{ path: "episodes.success_rate", label: "training" }, { path: "eval.success_rate", label: "evaluation" }] },
  { title: "Episode length", curves: [{ path: "episodes.length_mean", label: "training" }, { path: "eval.length_mean", label: "evaluation" }] },
  { title: "Tokens of an answer, by its end", curves: [{ path: "answers.produced_length", label: "all" }, { path: "answers.trained_length", label: "trained" }, { path: "answers.dropped_length", label: "dropped as stale" }] },
  { title: "Tokens of an answer, percentiles", curves: [{ path: "answers.length_p50", label: "median" }, { path: "answers.length_p95", label: "95th percentile" }, { path: "answers.length_max", label: "longest" }, { path: "answers.length_min", label: "shortest" }] },
  { title: "Turns of an answer", curves: [{ path: "answers.turns_mean", label: "mean" }, { path: "answers.turns_max", label: "most" }] },
  { title: "Groups with equal rewards", unit: "0 to 1", curves: [{ path: "answers.groups_alike", label: "of the newest groups" }] },
  { title: "Speed, env steps per second", curves: [{ path: "env_steps_per_second", label: "last 10 s" }, { path: "env_steps_per_second_60s", label: "last 60 s" }] },
  { title: "Policy lag, updates", curves: [{ path: "lag.p50", label: "median" }, { path: "lag.p95", label: "95th percentile" }, { path: "lag.max", label: "maximum" }, { path: "lag.cap", label: "cap" }] },
  { title: "KL divergence, nats", curves: [{ path: "learner.kl", label: "of an update" }, { path: "learner.rollout_kl", label: "of the rollouts" }, { path: "learner.kl_penalty", label: "penalty" }] },
  { title: "Clipped and dead samples", unit: "0 to 1", curves: [{ path: "learner.clip_fraction", label: "clipped" }, { path: "learner.dead_gradient_fraction", label: "no gradient" }, { path: "learner.outside_fraction", label: "outside the clip range" }] },
  { title: "Entropy, nats", curves: [{ path: "learner.entropy", label: "policy" }] },
  { title: "Effective sample size", unit: "0 to 1", curves: [{ path: "learner.ess", label: "importance ratios" }, { path: "learner.rollout_ess", label: "rollout weights" }] },
  { title: "Policy loss", curves: [{ path: "learner.policy_loss", label: "policy" }] },
  { title: "Value loss", curves: [{ path: "learner.value_loss", label: "value" }] },
  { title: "Explained variance", curves: [{ path: "learner.explained_variance", label: "values" }] },
  { title: "Busy shares of time", unit: "0 to 1", curves: [{ path: "busy.workers", label: "workers" }, { path: "busy.inference", label: "inference" }, { path: "busy.trainer", label: "trainer" }, { path: "busy.machine", label: "processors" }] },
  { title: "Gradient norm", curves: [{ path: "learner.grad_norm", label: "before the clip" }] },
  { title: "Learning rates", curves: [{ path: "learner.policy_lr", label: "policy" }, { path: "learner.value_lr", label: "value" }] },
];

class LearningView {
  /** @param {Store} store */
  constructor(store) {
    this.title = "Learning";
    this.store = store;
    this.grid = element("div", { class: "charts" });
    this.waiting = element("p", { class: "faint" });
    this.reset = element("button", { type: "button", hidden: "" }, "Show all points");
    this.reset.addEventListener("click", () => this.zoom(null));
    this.panel = element("section", {}, element("h2", { class: "unseen" }, "Curves"), this.reset, this.waiting, this.grid);
    /** @type {Chart[]} */
    this.charts = [];
    this.axis = "env_steps";
    /** The part of the x axis that is shown; null: all. @type {[number, number] | null} */
    this.range = chosenZoom();
    this.reset.hidden = this.range === null;
  }

  /** @param {Map<string, any>} meanings */
  begin(meanings) {
    for (const chart of this.charts) if (chart.plot) chart.plot.destroy();
    this.charts = kCharts.map((spec) => new Chart(spec, this.store, meanings));
    this.grid.replaceChildren(...this.charts.map((chart) => chart.card));
  }

  /** @param {any} s */
  show(s) {
    if (this.panel.hidden) return;
    this.waiting.textContent = warmingUp(s) ? "Curves appear when the warm-up has ended." : "Curves appear with the first figures.";
    for (const chart of this.charts) {
      chart.card.hidden = false;
      chart.draw(this.axis, () => this.selected(chart), this.range);
    }
    this.waiting.hidden = this.charts.some((chart) => !chart.card.hidden);
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
