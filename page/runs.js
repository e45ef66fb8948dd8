// The view of all runs in the folders that `troupe dash` serves.

/** Curves that are drawn in one chart at most. */
const kMostChosen = 20;
/** Of so many runs, all are chosen at first. */
const kMostAtFirst = 12;
const kListPollMs = 2000;

/** What the runs can be sorted by: the value of a run; numbers with the largest first. */
const kSorts = /** @type {[string, string, (run: any) => any][]} */ ([
  ["run", "name", (run) => run.run], ["changed", "newest first", (run) => run.changed], ["score", "score", (run) => at(run, "score.return_mean")],
  ["steps", "steps", (run) => run.env_steps], ["speed", "speed", (run) => run.mean_env_steps_per_second], ["state", "state", (run) => run.state],
  ["alarms", "alarms", (run) => 100 * run.alarms.errors + run.alarms.warnings],
]);

/** Settings and their values, as in a command. @param {any} run @returns {string[]} */
const differences = (run) => Object.entries(run.differs).map(([path, value]) => path + "=" + (typeof value === "string" ? value : JSON.stringify(value)));

/** The alarms that a run had and their levels: those of its newest record first, errors before warnings. @param {any} alarms @returns {{name: string, level: string, isOver: boolean}[]} */
function raisedIn({ raised, standing }) {
  const all = Object.entries(raised).map(([name, level]) => ({ name, level, isOver: !(name in standing) }));
  const rank = (/** @type {{level: string, isOver: boolean}} */ { level, isOver }) => (isOver ? 2 : 0) + (level === "error" ? 0 : 1);
  return all.sort((a, b) => rank(a) - rank(b));
}

/** @param {any} of */
const scoreText = (of) => of ? formatted(of.return_mean) + (of.of === "training" ? " (training)" : "") : kUnknown;

/**
 * A column of the list. It is left out where `has` is true of no run.
 * @typedef {{name: string, cell: (run: any) => string|Node, kind?: "number"|"long", has?: (run: any) => boolean}} RunColumn
 */

/** What the list has of each run beside its name, the most urgent first. @param {{steps: string, meanSpeed: string}} told @returns {RunColumn[]} */
const kRunColumns = (told) => [
  { name: "state", cell: (run) => run.deleted ? "deleted" : run.state },
  { name: "alarms", cell: (run) => alarmList(run), has: (run) => Object.keys(run.alarms.raised).length > 0 },
  { name: told.steps, cell: (run) => formatted(run.env_steps), kind: "number" },
  { name: "score", cell: (run) => scoreText(run.score), kind: "number" },
  { name: "best score", cell: (run) => scoreText(run.best), kind: "number" },
  { name: told.meanSpeed, cell: (run) => formatted(run.mean_env_steps_per_second === null ? null : Math.round(run.mean_env_steps_per_second)), kind: "number" },
  { name: "differs in", cell: (run) => element("span", {}, ...differences(run).map((text) => element("span", { class: "setting" }, text))), kind: "long" },
  { name: "bottleneck", cell: (run) => run.bottleneck, has: (run) => Boolean(run.bottleneck) },
  { name: "tags", cell: (run) => run.tags.join(", "), has: (run) => run.tags.length > 0 },
  { name: "config", cell: (run) => run.config },
  { name: "reason", cell: (run) => run.reason, has: (run) => Boolean(run.reason) },
];

/** @param {any} run */
const alarmList = (run) => element("span", {}, ...raisedIn(run.alarms).map(({ name, level, isOver }) => element("span", { class: isOver ? "alarm over" : `alarm ${level}` }, `${name} (${level}${isOver ? ", over" : ""})`)));

/** The folders that all of them are in, with a "/" at its end; empty without any. @param {string[]} folders */
function commonFolder(folders) {
  let common = folders[0] || "";
  for (const folder of folders) while (!folder.startsWith(common) || common === folder) common = common.slice(0, Math.max(0, common.lastIndexOf("/", common.length - 2) + 1));
  return common;
}

class RunsView {
  /** @param {(folder: string) => void} open shows one run @param {() => void} changed */
  constructor(open, changed) {
    this.title = "Runs";
    this.open = open;
    this.changed = changed;
    /** @type {any[]} */
    this.runs = [];
    /** What the folders of all runs begin with. */
    this.common = "";
    /** @type {Set<string>} */
    this.chosen = new Set(place.all("run").filter(Boolean));
    /** Whether somebody has chosen; "run=" in the address says that none is. */
    this.isChosen = place.all("run").length > 0;
    this.received = "";
    this.filter = /** @type {HTMLInputElement} */ (element("input", { type: "search", id: "runs-filter", autocomplete: "off" }));
    this.filter.value = place.get("filter") || "";
    this.filter.addEventListener("input", () => { place.set("filter", ...(this.filter.value ? [this.filter.value] : [])); this.fill(); });
    this.sort = /** @type {HTMLSelectElement} */ (element("select", { id: "runs-sort", autocomplete: "off" }, ...kSorts.map(([name, label]) => element("option", { value: name }, label))));
    this.sort.value = kSorts.some(([name]) => name === place.get("sort")) ? String(place.get("sort")) : "run";
    this.sort.addEventListener("change", () => { place.set("sort", this.sort.value); this.fill(); });
    const all = element("button", { type: "button" }, `Choose the first ${kMostChosen}`), none = element("button", { type: "button" }, "Choose none");
    all.addEventListener("click", () => this.choose(this.shown().slice(0, kMostChosen).map((run) => run.run)));
    none.addEventListener("click", () => this.choose([]));
    this.count = element("p", { class: "faint", role: "status" });
    this.problems = element("ul", { class: "problems", "aria-label": "Problems" });
    this.table = element("div", { class: "wide runs", tabindex: "0", role: "region", "aria-label": "Runs" });
    this.panel = element("section", {}, element("div", { class: "controls" }, element("label", { for: "runs-filter" }, "Runs that contain"), this.filter,
                         element("label", { for: "runs-sort" }, "sorted by"), this.sort, all, none), this.count, this.problems, this.table);
    this.poll();
  }

  async poll() {
    if (!document.hidden || this.received === "") await this.read();
    setTimeout(() => this.poll(), kListPollMs);
  }

  async read() {
    try {
      const reply = await fetched("/data/runs"), text = JSON.stringify(reply);
      if (text === this.received) return;
      this.received = text;
      this.runs = reply.runs;
      this.common = commonFolder(this.runs.map(({ run }) => run));
      if (this.isChosen) this.dropUnknown();
      if (!this.isChosen) this.chosen = new Set(this.runs.length > kMostAtFirst ? [] : this.runs.map(({ run }) => run));
      this.tell(reply.problems);
      this.fill();
      this.changed();
    } catch (error) {
      this.tell(["troupe dash does not answer: " + /** @type {Error} */ (error).message]);
      this.received = "none";
    }
  }

  /** Forgets chosen runs that are not in the list, as an old address may name them. */
  dropUnknown() {
    const there = [...this.chosen].filter((folder) => this.runs.some(({ run }) => run === folder)).slice(0, kMostChosen);
    if (there.length === this.chosen.size) return;
    this.chosen = new Set(there);
    this.isChosen = there.length > 0;
    place.set("run", ...there);
  }

  /** @param {string[]} problems */
  tell(problems) { this.problems.replaceChildren(...problems.map((text) => element("li", {}, text))); }

  /** The runs that were chosen, in the order of the list. */
  get compared() { return this.runs.filter((run) => this.chosen.has(run.run)); }

  /** @param {string[]} folders */
  choose(folders) {
    this.chosen = new Set(folders.slice(0, kMostChosen));
    this.isChosen = true;
    place.set("run", ...(folders.length > 0 ? this.chosen : [""]));
    this.fill();
    this.changed();
  }

  /** The runs that the filter lets through, sorted. */
  shown() {
    const [, , value] = kSorts.find(([name]) => name === this.sort.value) || kSorts[0];
    const wanted = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (/** @type {any} */ run) => [run.run, run.name, ...run.tags, run.note, run.config, run.task, run.state, run.reason, run.bottleneck, ...Object.keys(run.alarms.raised), ...differences(run)].join(" ").toLowerCase();
    const runs = this.runs.filter((run) => wanted.every((word) => text(run).includes(word)));
    return runs.map((run) => ({ run, key: value(run) })).sort((a, b) => {
      if (typeof a.key === "string") return a.key < b.key ? -1 : a.key > b.key ? 1 : 0;
      return (b.key ?? -Infinity) - (a.key ?? -Infinity) || 0;
    }).map(({ run }) => run);
  }

  /** The folder of a run without what those of all runs begin with. @param {string} folder */
  shortName(folder) { return folder.slice(this.common.length); }

  /** The box that chooses a run. @param {any} run */
  boxOf(run) {
    const box = /** @type {HTMLInputElement} */ (element("input", { type: "checkbox", "aria-label": "compare " + run.run, "data-key": "box " + run.run }));
    box.checked = this.chosen.has(run.run);
    box.disabled = !box.checked && this.chosen.size >= kMostChosen;
    box.addEventListener("change", () => this.choose(box.checked ? [...this.chosen, run.run] : [...this.chosen].filter((each) => each !== run.run)));
    return box;
  }

  /** Its folder, which opens it, and what its user calls it. @param {any} run */
  nameOf(run) {
    const open = element("button", { type: "button", class: "link", "data-key": "open " + run.run, title: run.run }, this.shortName(run.run));
    open.addEventListener("click", () => this.open(run.run));
    return element("span", {}, open, ...(run.name ? [element("small", {}, run.name)] : []));
  }

  fill() {
    const shown = this.shown();
    const running = this.runs.filter((run) => run.state === "running" && !run.deleted).length;
    const where = this.common ? `; their folders are in ${this.common}` : "";
    this.count.textContent = `${formatted(shown.length)} of ${counted(this.runs.length, "runs")} shown, ${formatted(running)} running, ${formatted(this.chosen.size)} chosen of at most ${kMostChosen}${where}`;
    const focused = document.activeElement && /** @type {HTMLElement} */ (document.activeElement).dataset.key;
    const told = wordsOf(this.runs);
    /** @type {RunColumn[]} */
    const all = [
      { name: "compare", cell: (run) => this.boxOf(run) }, { name: "run", cell: (run) => this.nameOf(run), kind: "long" }, ...kRunColumns(told),
    ];
    const columns = all.filter(({ has }) => !has || this.runs.some(has));
    const attributes = (/** @type {RunColumn} */ { kind }) => kind ? { class: kind } : {};
    const head = columns.map((column) => element("th", { scope: "col", ...attributes(column) }, column.name));
    const rows = shown.map((run) => element("tr", {}, ...columns.map((column) => element("td", attributes(column), column.cell(run)))));
    this.table.replaceChildren(element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)));
    if (focused) /** @type {HTMLElement|null} */ (this.table.querySelector(`[data-key="${CSS.escape(focused)}"]`))?.focus();
  }

  show() {}
}

/** The settings in which the chosen runs differ, or all runs if none is chosen. */
class DifferencesView {
  /** @param {RunsView} list */
  constructor(list) {
    this.title = "Differences";
    this.list = list;
    this.panel = element("section", {});
  }

  show() {
    const runs = this.list.compared.length > 0 ? this.list.compared : this.list.runs.slice(0, kMostChosen);
    const paths = [...new Set(runs.flatMap((run) => Object.keys(run.differs)))];
    const value = (/** @type {any} */ run, /** @type {string} */ path) => path in run.differs ? formatted(run.differs[path]?.constructor === Object ? JSON.stringify(run.differs[path]) : run.differs[path]) : "";
    const differing = paths.filter((path) => new Set(runs.map((run) => value(run, path))).size > 1);
    const which = this.list.compared.length > 0 ? "the chosen runs" : `the first ${runs.length} of ${this.list.runs.length} runs`;
    const note = element("p", { class: "faint" }, `Settings in which ${which} differ from runs of the same name.`);
    if (differing.length === 0) return this.panel.replaceChildren(note, element("p", {}, "None."));
    const region = element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Differences" }, table(["run", ...differing], runs.map((run) => [this.list.shortName(run.run), ...differing.map((path) => value(run, path))]), runs.length + 2));
    this.panel.replaceChildren(note, region);
  }
}
