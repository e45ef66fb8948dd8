// The view that draws the chosen runs over each other.

/** The figures that are drawn, one chart for each, with whether its title tells which; those that no run has are left out. */
const kCompared = kCharts.flatMap(({ title, paths, isEachCompared }) => paths.filter((path, i) => i === 0 || isEachCompared || isEvaluation(path)).map((path) => ({ title, path, isAlone: paths.filter((other) => isEvaluation(other) === isEvaluation(path)).length === 1 && !isEvaluation(path) })));

/** Curves with x axes of their own, with what a chart asks of a Store. */
class JoinedCurves {
  constructor() { this.clear(); }

  clear() {
    /** @type {Map<string, Values>} */
    this.columns = new Map();
    /** @type {Map<string, string>} */
    this.labels = new Map();
    this.axis = "env_steps";
  }

  /** @param {string} axis @param {{key: string, label: string, x: Values, y: Values, low?: Values, high?: Values}[]} curves */
  set(axis, curves) {
    this.clear();
    this.axis = axis;
    const tables = curves.map(({ x, y, low, high }) => {
      const rows = [...x.keys()].filter((row) => typeof x[row] === "number");
      // Of records at the same place the last one counts, as in `troupe plot`.
      const last = rows.filter((row, i) => i + 1 === rows.length || x[rows[i + 1]] !== x[row]);
      return [x, y, ...(low && high ? [low, high] : [])].map((values) => last.map((row) => values[row]));
    });
    if (tables.length === 0) return;
    const [joined, ...columns] = uPlot.join(tables);
    this.columns.set(axis, joined);
    let next = 0;
    curves.forEach(({ key, label }, i) => {
      this.labels.set(key, label);
      this.columns.set(key, columns[next++]);
      if (tables[i].length < 4) return;
      this.columns.set(key + " low", columns[next++]);
      this.columns.set(key + " high", columns[next++]);
    });
  }

  get rows() { return this.column(this.axis).length; }
  get tableAxes() { return [this.axis]; }
  get csvAxes() { return [this.axis]; }
  /** @param {Curve} curve */
  csvName(curve) { return curve.label; }
  /** @param {string} path */
  column(path) { return this.columns.get(path) || []; }
  /** @param {string} path */
  has(path) { return this.column(path).some((value) => typeof value === "number"); }
  /** @param {string} path */
  edges(path) { return this.columns.has(path + " low") ? { low: this.column(path + " low"), high: this.column(path + " high") } : null; }
  restarts() { return []; }
}

class CompareView extends LearningView {
  /** @param {RunsView} list @param {() => void} changed draws this view */
  constructor(list, changed) {
    super(/** @type {any} */ (null));
    this.title = "Compare";
    this.list = list;
    this.changed = changed;
    /** @type {Map<string, RunCurves>} */
    this.curves = new Map();
    /** The groups of each figure, and what they were made from. @type {Map<string, {of: string, groups: any[], notes: string[]}>} */
    this.groups = new Map();
    this.problem = "";
    this.by = /** @type {HTMLSelectElement} */ (element("select", { id: "group", autocomplete: "off" }));
    this.by.addEventListener("change", () => { place.set("group", this.by.value); changed(); });
    this.notes = element("ul", { class: "faint", "aria-label": "Notes" });
    this.panel.prepend(element("div", { class: "controls" }, element("label", { for: "group" }, "one curve for"), this.by));
    this.panel.append(element("div", { role: "status" }, this.notes));
    this.stores = kCompared.map(() => new JoinedCurves());
    /** What each chart has drawn. @type {string[]} */
    this.drawnOf = kCompared.map(() => "");
    this.onScreen = new IntersectionObserver((entries) => { if (entries.some((entry) => entry.isIntersecting)) this.changed(); }, { rootMargin: "200px" });
    this.poll();
  }

  begin() {
    for (const chart of this.charts) if (chart.plot) chart.plot.destroy();
    this.charts = kCompared.map(({ title, path, isAlone }, i) => new Chart({ title: (words.titles[title] || title) + (isAlone ? "" : ": " + labelOf(path)), unit: unitOf(path), curves: [{ path, label: labelOf(path) }] }, this.stores[i]));
    this.grid.replaceChildren(...this.charts.map((chart) => chart.card));
    for (const chart of this.charts) this.onScreen.observe(chart.card);
    this.drawnOf.fill("");
  }

  async poll() {
    let again = kPollMs;
    if (!this.panel.hidden && !document.hidden) {
      const changed = await Promise.all(this.wanted().map((curves) => curves.read()));
      if (changed.some(Boolean)) this.changed();
      if (this.wanted().some((curves) => curves.unfinished || curves.newest === null && !curves.problem)) again = 0;
    }
    setTimeout(() => this.poll(), again);
  }

  /** The curves of the chosen runs. Those of runs that are chosen no more are forgotten. @returns {RunCurves[]} */
  wanted() {
    const chosen = this.list.compared.map((run) => run.run);
    for (const folder of this.curves.keys()) if (!chosen.includes(folder)) this.curves.delete(folder);
    for (const folder of chosen) if (!this.curves.has(folder)) this.curves.set(folder, new RunCurves(folder, kCompared.map(({ path }) => path)));
    return chosen.map((folder) => /** @type {RunCurves} */ (this.curves.get(folder)));
  }

  /** Whether some of the chosen runs differ in nothing but the seed. */
  haveSeveralSeeds() {
    const settings = this.list.compared.map(({ config, task, differs }) => {
      const { seed, ...rest } = differs;
      return JSON.stringify([config, task, Object.entries(rest).sort()]);
    });
    return new Set(settings).size < settings.length;
  }

  /** What the runs can be joined by. */
  fillGroups() {
    const settings = [...new Set(this.list.compared.flatMap((run) => Object.keys(run.differs)))];
    const options = [["none", "each run"], ["config", "each config, seeds joined"], ...settings.map((path) => ["=" + path, "each value of " + path])];
    const wanted = place.get("group") || (this.haveSeveralSeeds() ? "config" : "none");
    if (wanted.startsWith("=") && !settings.includes(wanted.slice(1))) options.push([wanted, "each value of " + wanted.slice(1)]);
    const now = JSON.stringify([options, wanted]);
    if (this.by.dataset.options === now) return;
    this.by.dataset.options = now;
    this.by.replaceChildren(...options.map(([value, label]) => element("option", { value }, label)));
    this.by.value = options.some(([value]) => value === wanted) ? wanted : "none";
  }

  /** @param {string} path @param {string} of what the groups are made from */
  async readGroups(path, of) {
    const known = this.groups.get(path);
    if (known && known.of === of) return;
    this.groups.set(path, { of, groups: known ? known.groups : [], notes: [] });
    try {
      /** @type {[string, string][]} */
      const query = [["x", this.axis], ["y", path], ["group", this.by.value.startsWith("=") ? this.by.value.slice(1) : ""], ...this.list.compared.map((run) => /** @type {[string, string]} */ (["run", run.run]))];
      const reply = await fetched("/data/group", query);
      if (this.groups.get(path)?.of === of) this.groups.set(path, { of, groups: reply.groups, notes: reply.notes });
    } catch (error) {
      if (this.groups.get(path)?.of === of) this.groups.set(path, { of, groups: [], notes: [/** @type {Error} */ (error).message] });
    }
    this.drawnOf[kCompared.findIndex((figure) => figure.path === path)] = "";
    this.changed();
  }

  /** The curves of one figure. @param {string} path @param {string} of */
  curvesOf(path, of) {
    if (this.by.value === "none")
      return this.wanted().flatMap(({ folder, newest }) => {
        const y = newest && newest.y && newest.y[path];
        if (!y) return [];
        const x = newest.x[this.axis], kept = (/** @type {Values} */ values) => isEvaluation(path) ? values.filter((_, i) => y.mean[i] !== null) : values;
        return [{ key: folder, label: this.list.shortName(folder), x: kept(x), y: kept(y.mean), ...(y.low ? { low: kept(y.low), high: kept(y.high) } : {}) }];
      });
    this.readGroups(path, of);
    return this.groups.get(path)?.groups.map(({ label, runs, x, mean, low, high }) => ({ key: label, label: `${label} (${counted(runs, "runs")})`, x, y: mean, low, high })) || [];
  }

  /** @param {Chart} chart */
  isOnScreen(chart) {
    const box = chart.card.getBoundingClientRect();
    return box.bottom > -200 && box.top < innerHeight + 200;
  }

  show() {
    if (this.panel.hidden) return;
    this.fillGroups();
    const all = this.wanted();
    const has = (/** @type {string} */ path) => all.some(({ newest }) => newest && newest.y && path in newest.y);
    this.charts.forEach((chart, i) => { chart.card.hidden = !has(kCompared[i].path); });
    this.charts.forEach((chart, i) => { if (!chart.card.hidden && this.isOnScreen(chart)) this.drawChart(chart, i, all); });
    this.waiting.textContent = all.length === 0 ? "Choose runs in the view Runs." : "Curves appear when the runs have figures.";
    this.waiting.hidden = this.charts.some((chart) => !chart.card.hidden);
    const notes = [...all.flatMap((curves) => curves.notes), ...(this.by.value === "none" ? [] : [...this.groups.values()].flatMap((figure) => figure.notes))];
    if (this.by.value !== "none") notes.unshift("A curve is the interquartile mean of its runs; the band is its 95 % bootstrap interval.");
    const told = [...new Set(notes)];
    if (this.notes.dataset.told === JSON.stringify(told)) return;
    this.notes.dataset.told = JSON.stringify(told);
    this.notes.replaceChildren(...told.map((text) => element("li", {}, text)));
  }

  /** @param {Chart} chart @param {number} i @param {RunCurves[]} all */
  drawChart(chart, i, all) {
    const path = kCompared[i].path, of = JSON.stringify([this.axis, this.by.value, all.map(({ folder, newest }) => [folder, newest && newest.version])]);
    const curves = this.curvesOf(path, of);
    if (this.drawnOf[i] !== of) {
      this.drawnOf[i] = of;
      this.stores[i].set(this.axis, curves);
      chart.spec.curves = curves.map(({ key, label }) => ({ path: key, label, dots: this.by.value === "none" && isEvaluation(path) }));
    }
    if (curves.length === 0) return;
    chart.draw(this.axis, () => this.selected(chart), this.range);
  }
}
