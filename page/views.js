// The views of machines and settings.

/** @param {string[]} head @param {(string|Node)[][]} rows @param {number} numbers columns from this one on are numbers */
function table(head, rows, numbers) {
  const cell = (/** @type {string} */ tag, /** @type {string|Node} */ content, /** @type {number} */ i, /** @type {object} */ more) =>
    element(tag, { ...(i >= numbers ? { class: "number" } : {}), ...more }, content);
  return element("table", {}, element("thead", {}, element("tr", {}, ...head.map((name, i) => cell("th", name, i, { scope: "col" })))),
                 element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((content, i) => cell("td", content, i, {}))))));
}

/**
 * Rows of maps that have the same keys, like actors or tasks: the key, and its value in each map.
 * @param {any} s a snapshot @param {string[]} paths
 */
function mapRows(s, paths) {
  const maps = paths.map((path) => at(s, path) || {});
  const keys = [...new Set(maps.flatMap((map) => Object.keys(map)))].sort();
  return keys.map((key) => [key, ...paths.map((path, i) => formatted(maps[i][key], unitOf(path)))]);
}

class MachinesView {
  constructor() {
    this.title = "Machines";
    this.panel = element("section", {});
  }

  /** @param {any} s */
  show(s) {
    const served = at(s, "rows_served") || {}, behind = at(s, "weights_behind") || {};
    const names = [...new Set([...Object.keys(served), ...Object.keys(behind)])].sort();
    const rows = (/** @type {string[]} */ paths) => table(["figure", "value"], paths.map((path) => figureRow(s, path)), 1);
    const actorPaths = ["actors.busy", "actors.blocked", "actors.waiting", "actors.oldest_seconds"];
    const joinedPaths = ["joined_actors.busy", "joined_actors.blocked", "joined_actors.waiting", "joined_actors.oldest_seconds"];
    const failures = Object.entries(at(s, "env_failures") || {}).map(([id, count]) => [id, formatted(count)]);
    this.panel.replaceChildren(
      element("h2", {}, "Processes"),
      rows(["busy.machine", "busy.run", "busy.waiting", "workers.up", "workers.total", "inference.up", ...(at(s, "ranks.total") > 1 ? ["ranks.up", "ranks.total"] : []), "request_retries", "rss_bytes", "worker_bytes", "environment_bytes", "verifier_bytes"]),
      ...(at(s, "actors") ? [element("h2", {}, "Actors of the trainer's process"),
                             table(["actor", ...actorPaths.map(labelOf)], mapRows(s, actorPaths), 1)] : []),
      ...(at(s, "joined_actors") ? [element("h2", {}, "Actors of processes that have joined"),
                                    table(["actor", ...joinedPaths.map(labelOf)], mapRows(s, joinedPaths), 1)] : []),
      element("h2", {}, "Inference actors"),
      names.length > 0 ? table(["actor", labelOf("rows_served"), "weights: " + labelOf("weights_behind")], names.map((name) => [name, formatted(served[name]), formatted(behind[name])]), 1)
                       : element("p", { class: "faint" }, "None has served a row yet."),
      ...(at(s, "verifier") ? [element("h2", {}, "Verifiers"),
                               rows(["verifier.calls", "verifier.failed_calls", "verifier.restarts", "verifier.scored", "verifier.replied", "verifier.failed_replies", "verifier.seconds", "verifier.wait_seconds"])] : []),
      element("h2", {}, "Failures of environments"),
      failures.length > 0 ? table(["environment", "failures"], failures, 1) : element("p", { class: "faint" }, "None."));
  }
}

/** The settings as dotted paths. @param {any} value @param {string} path @param {[string, string][]} into */
function flatten(value, path, into) {
  if (value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length > 0) {
    for (const [key, entry] of Object.entries(value)) flatten(entry, path ? path + "." + key : key, into);
  } else {
    into.push([path, JSON.stringify(value)]);
  }
  return into;
}

class ConfigView {
  constructor() {
    this.title = "Config";
    this.filter = /** @type {HTMLInputElement} */ (element("input", { type: "search", id: "filter" }));
    this.only = /** @type {HTMLInputElement} */ (element("input", { type: "checkbox", id: "only" }));
    this.table = element("div", {});
    this.panel = element("section", {}, element("p", {}, element("label", { for: "filter" }, "Settings that contain "), this.filter, " ",
                         this.only, element("label", { for: "only" }, " only those that differ from their default")), this.table);
    for (const input of [this.filter, this.only]) input.addEventListener("input", () => this.fill());
    /** @type {[string, string][]} */
    this.settings = [];
    /** @type {Map<string, string>} */
    this.defaults = new Map();
  }

  /** @param {any} config @param {any} defaults */
  begin(config, defaults) {
    // A run on answers has no environment, whatever the defaults of its settings say.
    this.settings = flatten(config, "", []).filter(([path]) => !isTokenRun(config) || !path.startsWith("env."));
    this.defaults = new Map(defaults ? flatten(defaults, "", []) : []);
    this.only.disabled = this.defaults.size === 0;
    this.fill();
  }

  fill() {
    const rows = [];
    for (const [path, value] of this.settings) {
      const normal = this.defaults.get(path);
      const changed = this.defaults.size > 0 && normal !== value;
      if (!path.includes(this.filter.value) || (this.only.checked && !changed)) continue;
      rows.push(element("tr", changed ? { class: "changed" } : {}, element("td", {}, path), element("td", {}, value),
                        element("td", {}, changed ? (normal === undefined ? "no default" : "default " + normal) : "")));
    }
    const head = ["setting", "value", "differs from"].map((name) => element("th", { scope: "col" }, name));
    this.table.replaceChildren(element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)));
  }

  show() {}
}
