// The view of the events: what has changed since the page was opened, and what the log tells of before.

/**
 * A line of the log about an alarm or the bottleneck.
 * @typedef {{date: string, time: string, kind: "raised" | "over" | "bottleneck", name: string, level: string, update: string, text: string}} Told
 */

const kLogLine = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)\.\d+ \w+ +\w+: (.*)$/;
const kRaised = /^alarm (\w+) \((\w+)\) at update (\d+): (.*)$/;
const kOver = /^alarm (\w+) is over at update (\d+)$/;
const kBottlenecks = /^bottleneck: (.*)$/;

/** What the log tells of alarms and of the bottleneck. @param {string[]} lines @returns {Told[]} */
function toldBy(lines) {
  return lines.flatMap((line) => {
    const [, date, time, words] = kLogLine.exec(line) || [];
    if (words === undefined) return [];
    const raised = kRaised.exec(words), over = kOver.exec(words), bottlenecks = kBottlenecks.exec(words);
    if (raised) return [{ date, time, kind: /** @type {const} */ ("raised"), name: raised[1], level: raised[2], update: raised[3], text: raised[4] }];
    if (over) return [{ date, time, kind: /** @type {const} */ ("over"), name: over[1], level: "", update: over[2], text: "" }];
    return bottlenecks ? [{ date, time, kind: /** @type {const} */ ("bottleneck"), name: "", level: "", update: "", text: bottlenecks[1] }] : [];
  });
}

/** @param {Told} told @param {any} firstSeen the first snapshot that the page has seen */
function textOf({ kind, name, level, update, text }, firstSeen) {
  const when = `at update ${update}` + (Number(update) > at(firstSeen, "updates") ? "" : ", before this page was opened");
  if (kind === "raised") return `Alarm ${name} (${level}), raised ${when}: ${text}`;
  return kind === "over" ? `Alarm ${name} was over ${when}.` : `Bottlenecks while the run trained: ${text}.`;
}

const kMostEvents = 500;

/** A bottleneck as in the header. @param {any} verdict */
const verdictText = ({ what, why }) => what + (why ? "; " + why : "");

class EventsView {
  constructor() {
    this.title = "Events";
    /** Called when the events are shown. */
    this.shown = () => {};
    this.list = element("ol", { class: "events", "aria-live": "polite" });
    this.none = element("p", { class: "faint" }, "Nothing has happened since this page was opened.");
    this.log = element("pre", { class: "log", tabindex: "0", role: "region", "aria-label": "End of log.txt" });
    this.logTitle = element("h2", { hidden: "" }, "End of log.txt");
    this.log.hidden = true;
    this.panel = element("section", {}, this.none, this.list, this.logTitle, this.log);
    this.forget();
  }

  /** Another run is to come. */
  forget() {
    /** What was before the page saw the run goes above this one. */
    this.end = this.list.firstElementChild;
    /** Grows with each run. */
    this.begun = (this.begun ?? 0) + 1;
    this.before = null;
    /** The last bottleneck that was told. @type {string | null} */
    this.verdict = null;
    /** The newest bottleneck of all snapshots, which those after the end of training have not. @type {any} */
    this.bottleneck = null;
    /** The bottlenecks of a run that has ended, as its log tells them. */
    this.bottlenecks = "";
    /** The first snapshot that this page has seen. @type {any} */
    this.firstSeen = null;
    /** What the log told when the events were first shown; null before. @type {Told[] | null} */
    this.logOfBefore = null;
    this.hasToldBefore = false;
    /** Alarms that were told when they were raised or over, while the log was not known. @type {Set<string>} */
    this.toldLive = new Set();
  }

  /** @param {string} text */
  add(text) {
    const now = new Date();
    this.put(element("time", { datetime: now.toISOString() }, now.toLocaleTimeString()), text);
  }

  /** @param {Node} time @param {string} text @param {boolean=} isPast goes below all others of its run */
  put(time, text, isPast) {
    this.none.hidden = true;
    const item = element("li", isPast ? { class: "past" } : {}, time, text);
    this.list.insertBefore(item, !isPast ? this.list.firstChild : this.end && this.end.isConnected ? this.end : null);
    while (this.list.children.length > kMostEvents) /** @type {Element} */ (this.list.lastElementChild).remove();
  }

  show() { this.shown(); }

  /** @param {string[]} lines the newest last */
  showLog(lines) {
    this.log.hidden = this.logTitle.hidden = lines.length === 0;
    const text = lines.join("\n");
    if (this.log.textContent === text) return;
    const atEnd = this.log.scrollTop + this.log.clientHeight >= this.log.scrollHeight - 4;
    this.log.textContent = text;
    if (atEnd) this.log.scrollTop = this.log.scrollHeight;
  }

  /** Another run is shown. */
  clear() {
    this.list.replaceChildren();
    this.none.hidden = false;
    this.forget();
    this.showLog([]);
  }

  /** What the log of the run has, when the events are first shown. Only the first time counts. @param {string[]} lines */
  past(lines) {
    if (this.logOfBefore) return;
    this.logOfBefore = toldBy(lines);
    this.bottlenecks = this.logOfBefore.filter(({ kind }) => kind === "bottleneck").pop()?.text || "";
    this.tellBefore();
  }

  /** What was before the page was opened, newest first, once both the log and a snapshot are there. */
  tellBefore() {
    const s = this.firstSeen, log = this.logOfBefore;
    if (!s || !log || this.hasToldBefore) return;
    this.hasToldBefore = true;
    const earlier = () => element("time", {}, "earlier");
    const logged = new Set(log.filter(({ kind }) => kind === "raised").map(({ name }) => name));
    for (const [name, level] of Object.entries(at(s, "alarms") || {}))
      if (!logged.has(name)) this.put(earlier(), `Alarm ${name} (${level === 2 ? "error" : "warning"}), raised before this page was opened: ${(at(s, "alarm_texts") || {})[name] || ""}`, true);
    if (at(s, "failed_evaluations.error")) this.put(earlier(), "Before this page was opened: " + failedEvaluation(s), true);
    if (at(s, "last_error")) this.put(earlier(), "Error, before this page was opened: " + at(s, "last_error"), true);
    for (const told of [...log].reverse())
      if (!this.toldLive.has(told.kind + " " + told.name + told.text)) this.put(element("time", { datetime: told.date + "T" + told.time }, told.date + " " + told.time), textOf(told, s), true);
  }

  /** Tells what differs from the snapshot before. @param {any} s */
  compare(s) {
    const before = this.before;
    this.before = s;
    if (at(s, "bottleneck.what")) this.bottleneck = s.bottleneck;
    if (!before) {
      this.verdict = at(s, "bottleneck.what");
      this.firstSeen = s;
      return this.tellBefore();
    }
    const changed = (/** @type {string} */ path) => JSON.stringify(at(before, path)) !== JSON.stringify(at(s, path));
    const text = (/** @type {string} */ path) => formatted(at(s, path));
    if (changed("workers.up")) this.add(`Workers up: ${formatted(at(before, "workers.up"))} \u2192 ${text("workers.up")}.`);
    if (changed("inference.up")) this.add(`Inference actors up: ${formatted(at(before, "inference.up"))} \u2192 ${text("inference.up")}.`);
    if (changed("ranks.up")) this.add(`Ranks up: ${formatted(at(before, "ranks.up"))} \u2192 ${text("ranks.up")}.`);
    if (changed("eval.updates") && at(s, "eval.updates") !== null)
      this.add(`Evaluation after ${counted(at(s, "eval.updates"), "updates")}: ${words.return} ${text("eval.return_mean")} over ${counted(at(s, "eval.episodes"), words.episodes)}${failedEpisodes(s)}.`);
    if ((changed("failed_evaluations.count") || changed("failed_evaluations.updates")) && at(s, "failed_evaluations.error")) this.add(failedEvaluation(s));
    if (changed("skipped_steps")) this.add(`Optimizer steps skipped because they were not finite: ${text("skipped_steps")}.`);
    if (changed("quarantined")) this.add(`Rows in quarantine after failures: ${text("quarantined")}.`);
    if (changed("last_error") && at(s, "last_error")) this.add("Error: " + at(s, "last_error"));
    const verdict = at(s, "bottleneck.what");
    if (verdict && verdict !== "unknown" && verdict !== this.verdict) {
      this.verdict = verdict;
      this.add(`Bottleneck: ${verdict}.`);
    }
    const alarms = at(s, "alarms") || {}, alarmsBefore = at(before, "alarms") || {};
    for (const name of Object.keys(alarms)) {
      if (name in alarmsBefore) continue;
      const measured = (at(s, "alarm_texts") || {})[name] || "";
      if (!this.logOfBefore) this.toldLive.add(`raised ${name}${measured}`);
      this.add(`Alarm ${name} (${alarms[name] === 2 ? "error" : "warning"}): ${measured}`);
    }
    for (const name of Object.keys(alarmsBefore)) {
      if (name in alarms) continue;
      if (!this.logOfBefore) this.toldLive.add(`over ${name}`);
      this.add(`Alarm ${name} is over.`);
    }
    if (changed("warmup.of")) this.add(warmingUp(s) ? "The warm-up has begun." : "The warm-up has ended.");
    if (changed("training_ended") && at(s, "training_ended")) this.add("Training has ended." + (this.bottleneck ? ` The last bottleneck was: ${verdictText(this.bottleneck)}.` : ""));
  }
}

