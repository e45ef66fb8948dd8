// The table of the figures of a run, as GET /figures.json has it: labels, units and meanings by the path of a figure.

/** @typedef {{path: string, type: string, unit: string, label: string, token_label: string, better: string, reported: string, meaning: string}} Figure */

/** @type {Map<string, Figure>} */
const figures = new Map();
/** Is resolved when the table is there; also without one, where labels are the words of the paths. */
const tableLoaded = fetch("figures.json").then((reply) => reply.ok ? reply.json() : [], () => []).then((rows) => {
  for (const row of rows) figures.set(row.path, row);
});

/** What a figure is called in this kind of run. @param {string} path */
function labelOf(path) {
  const figure = figures.get(path);
  const lag = /_lag_(\d+)$/.exec(path);
  if (lag) return "lag " + lag[1];
  if (figure) return words === kTokenWords ? figure.token_label : figure.label;
  return path.replace(/^learner\./, "").replace(/[._]/g, " ");
}

/** The unit in this kind of run, of each entry where the figure is a map. @param {string} path */
function unitOf(path) {
  const [unit, ofAnswers] = (figures.get(path)?.unit || "").split("; ");
  const own = (words === kTokenWords && ofAnswers ? ofAnswers.replace(/ in token runs$/, "") : unit).replace(/, by .*/, "");
  // Without environments, the rows of a batch are the tokens that a step of generation reads.
  return words === kTokenWords && own === "rows" ? "tokens" : own || undefined;
}

/** Whether the run that is shown is deterministic: figures that depend on the clock have no values then. */
let isDeterministic = false;

/** Why a figure has no value, from the words of the table about when it has one. @param {string} path */
function whyUnknown(path) {
  const parts = (figures.get(path)?.reported || "").split(/[;,] /), ofTokens = words === kTokenWords;
  const other = ofTokens ? "not in token runs" : "token runs", never = "not in deterministic runs";
  if (isDeterministic && parts.includes(never)) return never;
  if (parts.includes(other)) return ofTokens ? other : "only in token runs";
  return parts.filter((part) => ![never, "token runs", "not in token runs", "always"].includes(part)).join(", ") || "none so far";
}

/** The value of a figure with its unit. @param {any} s a snapshot @param {string} path */
const valueText = (s, path) => formatted(at(s, path), unitOf(path));

/** The value, or a dash and why there is none. @param {any} s a snapshot @param {string} path @returns {string|Node} */
const valueOrWhy = (s, path) => at(s, path) === null ? element("span", {}, kUnknown + " ", element("small", { class: "faint" }, whyUnknown(path))) : valueText(s, path);

/** A label and a value. @param {any} s a snapshot @param {string} path @returns {[string, string]} */
const figureTerm = (s, path) => [labelOf(path), valueText(s, path)];

/** A row of a table: label and value, or when there is a value. @param {any} s a snapshot @param {string} path @returns {[string, string|Node]} */
const figureRow = (s, path) => [labelOf(path), valueOrWhy(s, path)];
