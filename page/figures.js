// The table of the figures of a run, as GET /figures.json has it: labels, units and meanings by the path of a figure.

/** @typedef {{path: string, type: string, unit: string, label: string, token_label: string, better: string, meaning: string}} Figure */

/** @type {Map<string, Figure>} */
const figures = new Map();
/** Is resolved when the table is there; also without one, where labels are the words of the paths. */
const tableLoaded = fetch("figures.json").then((reply) => reply.ok ? reply.json() : [], () => []).then((rows) => {
  for (const row of rows) figures.set(row.path, row);
});

/** What a figure is called in this kind of run. @param {string} path */
function labelOf(path) {
  const figure = figures.get(path);
  if (figure) return words === kTokenWords ? figure.token_label : figure.label;
  return path.replace(/^learner\./, "").replace(/[._]/g, " ");
}

/** @param {string} path */
const unitOf = (path) => figures.get(path)?.unit;

/** The value of a figure with its unit. @param {any} s a snapshot @param {string} path */
const valueText = (s, path) => formatted(at(s, path), unitOf(path));

/** A row of a table: label and value. @param {any} s a snapshot @param {string} path @returns {[string, string]} */
const figureRow = (s, path) => [labelOf(path), valueText(s, path)];
