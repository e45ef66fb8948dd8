// Runs that are read from their folders: requests to `troupe dash`, and one run in place of a connection to it.

const kPollMs = 1000;

/** The answer to a request; throws what is wrong in words. @param {string} path @param {[string, string][]=} query */
async function fetched(path, query) {
  const words = query && query.length > 0 ? "?" + new URLSearchParams(query) : "";
  const reply = await fetch(path + words);
  if (!reply.ok) throw new Error((await reply.text()).trim());
  return reply.json();
}

/** The curves of one run, read again as its file grows. */
class RunCurves {
  /** @param {string} folder @param {string[]} paths */
  constructor(folder, paths) {
    this.folder = folder;
    this.paths = paths;
    /** @type {any} */
    this.newest = null;
    /** What is wrong with it. */
    this.problem = "";
  }

  /** Asks for what is new. @returns whether there was anything */
  async read() {
    /** @type {[string, string][]} */
    const query = [["run", this.folder], ...this.paths.map((path) => /** @type {[string, string]} */ (["y", path]))];
    if (this.newest) query.push(["version", String(this.newest.version)]);
    const before = this.problem;
    try {
      const reply = await fetched("/data/curves", query);
      this.problem = reply.problem || "";
      const changed = reply.x !== undefined;
      this.newest = changed ? reply : { ...this.newest, ...reply };
      return changed || this.problem !== before;
    } catch (error) {
      this.problem = `${this.folder}: ${/** @type {Error} */ (error).message}`;
      return this.problem !== before;
    }
  }

  /** Whether more of its file is to be read at once. */
  get unfinished() { return Boolean(this.newest) && !this.problem && this.newest.records + this.newest.skipped > 0 && this.newest.bytes - this.newest.read_bytes > kMostTornBytes; }

  /** What a viewer has to know: what is not shown, and what is wrong. @returns {string[]} */
  get notes() {
    const notes = this.problem ? [this.problem] : [], data = this.newest;
    if (!data) return notes;
    const bytes = (/** @type {number} */ count) => formatted(count, "bytes");
    if (this.unfinished) notes.push(`${this.folder}: ${bytes(data.read_bytes)} of ${bytes(data.bytes)} read so far`);
    if (data.records > data.points)
      notes.push(`${this.folder}: ${formatted(data.points)} of ${formatted(data.records)} points; each is the mean of its records, with a band from the smallest to the largest`);
    if (data.skipped > 0) notes.push(`${this.folder}: ${counted(data.skipped, "lines")} of metrics.jsonl ${data.skipped === 1 ? "is no record and is" : "are no records and are"} left out`);
    return notes;
  }
}

// A last line that is not complete is no reason to ask again at once.
const kMostTornBytes = 33 << 20;

/** The run that was opened, with the messages of a connection (connection.js). */
class FolderConnection {
  /** @param {Listener} listener @param {string[]} paths figures of its curves */
  constructor(listener, paths) {
    this.listener = listener;
    this.paths = paths;
    this.told = "";
    /** @type {RunCurves | null} */
    this.curves = null;
  }

  /** @param {string} folder */
  open(folder) {
    const curves = this.curves = new RunCurves(folder, this.paths);
    this.told = "";
    const poll = async () => {
      if (this.curves !== curves) return;
      await this.read(curves);
      if (this.curves === curves) setTimeout(poll, curves.unfinished ? 0 : kPollMs);
    };
    poll();
  }

  /** @param {RunCurves} curves */
  async read(curves) {
    const run = await this.answer("/data/run", [["run", curves.folder]]);
    const metrics = run && this.told !== curves.folder ? await this.answer("/data/metrics", []) : null;
    if (this.curves !== curves || !run) return;
    if (metrics) {
      this.told = curves.folder;
      this.listener.on({ type: "hello", run: curves.folder, name: run.name, tags: run.tags, note: run.note, started: null, config: run.config || {}, defaults: run.defaults });
      this.listener.on(metrics);
    }
    this.listener.state(run.deleted ? "deleted" : run.state === "running" ? "live" : run.state);
    const changed = await curves.read();
    if (this.curves !== curves) return;
    if (changed && curves.newest) this.listener.on({ ...curves.newest, type: "points", notes: curves.notes });
    this.listener.on({ type: "record", stats: run.stats, log: run.log, reason: run.reason, alarms: run.alarms });
  }

  /** Null where there is no answer. @param {string} path @param {[string, string][]} query */
  async answer(path, query) {
    try {
      return await fetched(path, query);
    } catch {
      this.listener.state("lost");
      return null;
    }
  }

  /** Requests of the page, which this answers by itself. @param {any} request */
  send(request) {
    if (request.type === "history") this.listener.on({ type: "history", points: [], available: 0 });
  }
}
