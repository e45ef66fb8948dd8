// The points of all curves: one row for each snapshot, and one for each evaluation between two of them; at most
// kMostRows. When there are more, every second row of the older half is left out. In a column, null is a value that is
// not known, at which a curve breaks; undefined says that the row is none of this curve.

const kMostRows = 4000;
const kAxes = ["env_steps", "updates", "elapsed_seconds"];
const kEvaluatedAt = "eval.updates";
// The environment steps at that update.
const kEvaluatedSteps = "eval.env_steps";
// 1 in the row at which the run was started again; not a figure of the run.
const kRestart = "restart";
/** @typedef {Record<string, [number, number]>} Ranges */

/** @param {string} path */
const isEvaluation = (path) => path.startsWith("eval.");

class Store {
  /** @param {string[]} paths may name one several times */
  constructor(paths) {
    this.paths = [...new Set([...kAxes, kEvaluatedAt, kEvaluatedSteps, ...paths])];
    this.clear();
  }

  clear() {
    /** @type {Map<string, (number|null|undefined)[]>} */
    this.columns = new Map([...this.paths, kRestart].map((path) => [path, []]));
    /** The smallest and largest values by path, of each row that stands for several snapshots. @type {(Ranges|undefined)[]} */
    this.ranges = [];
    /** @type {number[]} */
    this.sequences = [];
    this.evaluated = -1;
  }

  get rows() { return this.sequences.length; }
  /** The axes in the tables of charts, and in their files. */
  get tableAxes() { return kAxes.slice(0, 2); }
  get csvAxes() { return kAxes; }
  /** @param {Curve} curve */
  csvName(curve) { return curve.path; }
  /** The edges of the area around a curve; null where each of its rows is one snapshot. @param {string} path @returns {{high: Values, low: Values} | null} */
  edges(path) {
    if (!this.ranges.some((ranges) => ranges?.[path])) return null;
    const edge = (/** @type {0|1} */ end) => this.column(path).map((value, row) => typeof value === "number" ? this.ranges[row]?.[path]?.[end] ?? value : value);
    return { low: edge(0), high: edge(1) };
  }

  /** @param {number} sequence @param {(path: string) => any} value @param {Ranges=} ranges */
  add(sequence, value, ranges) {
    if (this.rows > 0 && sequence <= this.sequences[this.rows - 1]) return;
    this.insert(this.rows, sequence, (path) => isEvaluation(path) ? undefined : known(value(path)));
    this.ranges[this.rows - 1] = ranges;
    const updates = value(kEvaluatedAt);
    if (typeof updates === "number" && updates !== this.evaluated) {
      this.evaluated = updates;
      this.addEvaluation(updates, value);
    }
    if (this.rows > kMostRows) this.thin();
  }

  /** One point, at the update that was evaluated: snapshots have the evaluation from its end until the next one.
   * @param {number} updates @param {(path: string) => any} value */
  addEvaluation(updates, value) {
    const steps = value(kEvaluatedSteps);
    /** @type {Record<string, number>} */
    const own = typeof steps === "number" ? { updates, env_steps: steps } : { updates };
    const axis = "env_steps" in own ? "env_steps" : "updates", at = this.column(axis);
    let row = this.rows - 1;
    while (row > 0 && Number(at[row - 1]) >= own[axis]) --row;
    // Of rows with the same steps, the one at that update.
    while (at[row] === own[axis] && at[row + 1] === own[axis] && Number(this.column("updates")[row]) < updates) ++row;
    if (at[row] !== own[axis]) {
      // Between two rows; before the first one the run was at 0.
      const before = row > 0 ? Number(at[row - 1]) : 0;
      const part = (own[axis] - before) / (Number(at[row]) - before);
      this.insert(row, this.sequences[Math.max(row - 1, 0)], (path) => {
        if (path in own) return own[path];
        if (!kAxes.includes(path)) return undefined;
        const column = this.column(path), from = row > 0 ? Number(column[row - 1]) : 0, to = column[row];
        return typeof to === "number" ? Math.round(1000 * (from + part * (to - from))) / 1000 : to;
      });
    }
    for (const path of this.paths) if (isEvaluation(path)) this.column(path)[row] = known(value(path)) ?? undefined;
  }

  /** @param {number} row @param {number} sequence @param {(path: string) => number|null|undefined} value */
  insert(row, sequence, value) {
    const values = this.paths.map(value);
    this.sequences.splice(row, 0, sequence);
    this.paths.forEach((path, i) => this.column(path).splice(row, 0, values[i]));
    this.column(kRestart).splice(row, 0, undefined);
    this.ranges.splice(row, 0, undefined);
  }

  /** A row without values, where the run was not seen. */
  gap() {
    if (this.rows === 0) return;
    const last = this.rows - 1;
    this.insert(this.rows, this.sequences[last], (path) => kAxes.includes(path) ? this.column(path)[last] : isEvaluation(path) ? undefined : null);
  }

  /** The run began again at an earlier point: what it had done after that is lost, and its snapshots are counted anew.
   * @param {number} envSteps in its first snapshot */
  restart(envSteps) {
    while (this.rows > 0 && Number(this.column("env_steps")[this.rows - 1]) >= envSteps) {
      this.sequences.pop();
      this.ranges.pop();
      for (const column of this.columns.values()) column.pop();
    }
    this.gap();
    if (this.rows > 0) this.column(kRestart)[this.rows - 1] = 1;
    this.sequences.fill(0);
    this.evaluated = -1;
  }

  thin() {
    const half = Math.floor(this.rows / 2), evaluations = this.column(kEvaluatedAt), restarts = this.column(kRestart);
    const kept = (/** @type {any} */ _, /** @type {number} */ i) => i >= half || i % 2 === 0 || evaluations[i] !== undefined || restarts[i] === 1;
    this.ranges.forEach((ranges, i) => { if (ranges && !kept(0, i)) this.ranges[i + 1] = joined(ranges, this.ranges[i + 1]); });
    this.ranges = this.ranges.filter(kept);
    this.sequences = this.sequences.filter(kept);
    for (const [path, column] of this.columns) this.columns.set(path, column.filter(kept));
  }

  /** @param {string} path */
  column(path) { return this.columns.get(path) || []; }

  /** The values of a column where the run was started again. @param {string} path */
  restarts(path) { return this.column(path).filter((_, i) => this.column(kRestart)[i] === 1); }

  /** @param {string} path */
  has(path) { return this.column(path).some((value) => typeof value === "number"); }
}

/** @param {any} value */
const known = (value) => typeof value === "number" ? value : null;

/** Ranges that cover both. @param {Ranges} a @param {Ranges=} b @returns {Ranges} */
function joined(a, b) {
  /** @type {Ranges} */
  const result = { ...b };
  for (const [path, [low, high]] of Object.entries(a)) {
    const other = result[path] || [low, high];
    result[path] = [Math.min(low, other[0]), Math.max(high, other[1])];
  }
  return result;
}

/** The ranges of a point of the history: those in which the figure has changed. @param {string[]} paths @param {any[]} values [smallest, value, largest] each @returns {Ranges | undefined} */
function rangesOf(paths, values) {
  /** @type {[string, [number, number]][]} */
  const wide = [];
  paths.forEach((path, i) => {
    const [low, , high] = values[i] || [];
    if (typeof low === "number" && low < high && !isEvaluation(path) && !kAxes.includes(path)) wide.push([path, [low, high]]);
  });
  return wide.length > 0 ? Object.fromEntries(wide) : undefined;
}
