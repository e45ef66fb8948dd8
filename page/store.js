// The points of all curves: one row for each snapshot, at most kMostRows of them. When there are more, every second row
// of the older half is left out.

const kMostRows = 4000;
const kAxes = ["env_steps", "updates", "elapsed_seconds"];

class Store {
  /** @param {string[]} paths may name one several times */
  constructor(paths) {
    this.paths = [...new Set([...kAxes, ...paths])];
    this.clear();
  }

  clear() {
    /** @type {Map<string, (number|null)[]>} */
    this.columns = new Map(this.paths.map((path) => [path, []]));
    /** @type {number[]} */
    this.sequences = [];
    this.evaluated = -1;
  }

  get rows() { return this.sequences.length; }

  /** @param {number} sequence @param {(path: string) => any} value */
  add(sequence, value) {
    if (this.rows > 0 && sequence <= this.sequences[this.rows - 1]) return;
    const updates = value("eval.updates");
    const same = updates === this.evaluated;
    if (typeof updates === "number") this.evaluated = updates;
    this.sequences.push(sequence);
    for (const path of this.paths) {
      const now = value(path);
      // An evaluation is one point, not one for each snapshot until the next.
      const repeated = same && path.startsWith("eval.");
      /** @type {(number|null)[]} */ (this.columns.get(path)).push(typeof now === "number" && !repeated ? now : null);
    }
    if (this.rows > kMostRows) this.thin();
  }

  /** A row without values, where the run was not seen. */
  gap() {
    if (this.rows === 0) return;
    for (const [path, column] of this.columns) column.push(kAxes.includes(path) ? column[column.length - 1] : null);
    this.sequences.push(this.sequences[this.rows - 1]);
  }

  thin() {
    const half = Math.floor(this.rows / 2);
    const kept = (/** @type {any} */ _, /** @type {number} */ i) => i >= half || i % 2 === 0;
    this.sequences = this.sequences.filter(kept);
    for (const [path, column] of this.columns) this.columns.set(path, column.filter(kept));
  }

  /** @param {string} path */
  column(path) { return this.columns.get(path) || []; }

  /** @param {string} path */
  has(path) { return this.column(path).some((value) => value !== null); }
}
