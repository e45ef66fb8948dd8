// The header: what is shown of a run in every view.

/** Since when the page has no connection, as a time of day; empty while it has one. */
let lostAt = "";
/** Shown once the connection has been lost for so long. */
const kNoAnswerMs = 60_000;
let isNoAnswer = false;
/** @type {number | undefined} */
let noAnswerTimer;

/** Notes whether there is a connection. @param {boolean} isLost */
function noteConnection(isLost) {
  if (isLost === (lostAt !== "")) return;
  lostAt = isLost ? new Date().toLocaleTimeString() : "";
  isNoAnswer = false;
  clearTimeout(noAnswerTimer);
  if (isLost) noAnswerTimer = setTimeout(() => { isNoAnswer = true; showAll(); }, kNoAnswerMs);
}

/** What is said of a lost connection. */
function lostText() {
  const what = servesFolders ? "troupe dash does not answer" : "no answer from the run, which may have been killed";
  return isNoAnswer ? `${what}; the figures are of ${lostAt}` : `connection lost at ${lostAt}, trying again`;
}

/** Whether what is shown of the run is of the past, because it trains no more or nobody knows. @param {any} s */
const isPast = (s) => isOver(s) || live === "lost";

/** Whether nobody knows how the run goes on from what is shown, which the page then says. @param {any} s */
const isCutOff = (s) => !at(s, "training_ended") && ["lost", "crashed", "deleted"].includes(live);

/** What a run trains on, how, and what its user says of it. @param {any} hello */
function aboutText({ run, name, config, tags = [], note = "" }) {
  const value = (/** @type {string} */ path) => at(config, path), algorithm = ["advantage", "surrogate"].map((path) => value("algorithm." + path));
  const seed = value("seed");
  return [isTokenRun(config) ? value("task.name") : value("env.id"), seed === null ? null : "seed " + seed, algorithm.filter(Boolean).join(" "), name && name !== run ? run : null,
          tags.length > 0 ? "tags: " + tags.join(", ") : null, note].filter(Boolean).join(" \u00b7 ");
}

/** The figures of the header. @param {any} s @returns {[string, string][]} */
const headFigures = (s) => [
  ...["env_steps", "env_steps_per_second", "updates", "updates_per_second", "episodes.return_mean"].map((path) => figureTerm(s, path)),
  [labelOf("eval.return_mean"), evaluationText(s)],
  ["policy lag, 95th percentile", valueText(s, "lag.p95") + " of at most " + counted(at(s, "lag.cap"), "updates")],
  figureTerm(s, "workers.up"),
];

function showState() {
  const ended = newest && at(newest, "training_ended"), plays = newest && evaluating(newest) !== "";
  const warms = live === "live" && newest && warmingUp(newest) !== "";
  const state = warms ? "warm-up" : live === "live" && ended ? (plays ? "evaluating" : "ended") : live === "lost" && ended ? "ended" : live;
  const text = opened === "" ? "" : { live: "running", ended: "ended", lost: lostText(), connecting: "connecting" }[state] || state;
  byId("state").dataset.state = state;
  if (byId("state").textContent !== text) byId("state").textContent = text;
}

function showHeader() {
  showState();
  const s = newest;
  const progress = at(s, "progress");
  byId("progress").setAttribute("value", String(progress || 0));
  byId("of-run").classList.toggle("past", isCutOff(s));
  showAlarms(s);
  if (!s) {
    byId("progress-text").textContent = "waiting for the first snapshot";
    byId("figures").replaceChildren();
    byId("verdict").replaceChildren();
    byId("verdict-figures").replaceChildren();
    return;
  }
  const parts = [formatted(progress, "0 to 1"), duration(Number(at(s, "elapsed_seconds") || 0)) + " elapsed"];
  if (at(s, "eta_seconds") !== null && !isPast(s)) parts.push(duration(at(s, "eta_seconds")) + " left");
  if (evaluating(s)) parts.push(evaluating(s));
  if (warmingUp(s)) parts.unshift(warmingUp(s));
  byId("progress-text").textContent = parts.join(" \u00b7 ");
  const head = warmingUp(s) ? [] : headFigures(s);  // none has a value before the first answers
  byId("figures").replaceChildren(...head.map(termOf));
  showVerdict(s);
}

/** @param {[string, string]} figure its name and its text */
const termOf = ([name, text]) => element("div", {}, element("dt", {}, name), element("dd", {}, text));
