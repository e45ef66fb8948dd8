// Numbers and elements. Every script of the page shares one scope; main.js comes last.

// What things are called: a run on environments, or on answers of a language model.
const kControlWords = { steps: "env steps", meanSpeed: "mean steps/s", samples: "samples", return: "return", episodes: "episodes", titles: /** @type {Record<string, string>} */ ({}) };
const kTokenWords = {
  steps: "answers", meanSpeed: "mean answers/s", samples: "answers", return: "reward", episodes: "prompts",
  titles: /** @type {Record<string, string>} */ ({
    "Return": "Reward of an answer", "Success rate": "Right answers, pass@1", "Episode length": "Tokens of an answer", "Speed, env steps per second": "Speed, answers per second",
  }),
};
// Of several runs that are of both kinds.
const kBothWords = {
  steps: "env steps or answers", meanSpeed: "mean per second", samples: "samples", return: "return or reward", episodes: "episodes or prompts",
  titles: /** @type {Record<string, string>} */ ({ "Return": "Return or reward", "Episode length": "Episode length, or tokens of an answer", "Speed, env steps per second": "Speed, env steps or answers per second" }),
};
let words = kControlWords;

/** The words for several runs, as `troupe dash` lists them. @param {{tokens?: boolean}[]} runs */
function wordsOf(runs) {
  const ofAnswers = runs.filter((run) => run.tokens).length;
  return ofAnswers === 0 ? kControlWords : ofAnswers === runs.length ? kTokenWords : kBothWords;
}

/** @param {any} count @param {string} noun in the plural */
const counted = (count, noun) => `${formatted(count)} ${count === 1 ? noun.replace(/s$/, "") : noun}`;

/** The evaluation under way; empty without one. @param {any} s */
function evaluating(s) {
  if (typeof at(s, "evaluating.of") !== "number") return "";
  const figure = (/** @type {string} */ name) => at(s, "evaluating." + name), waiting = Number(figure("waiting") || 0);
  return `evaluating the policy after ${counted(figure("updates"), "updates")}: ${formatted(figure("episodes"))} of ${counted(figure("of"), words.episodes)}, ${duration(Number(figure("seconds") || 0))}` + (waiting > 0 ? `, ${formatted(waiting)} more to do` : "");
}

/** How far the warm-up of a token run is; empty when there is none. @param {any} s */
function warmingUp(s) {
  if (typeof at(s, "warmup.of") !== "number") return "";
  const loss = at(s, "warmup.loss"), right = at(s, "warmup.pass_at_1");
  return `warm-up, step ${formatted(at(s, "warmup.step"))} of at most ${formatted(at(s, "warmup.of"))}` + (loss === null ? "" : `, loss ${formatted(loss)}`) + (right === null ? "" : `, pass@1 ${formatted(right)}`);
}

/** What to add to the score of the last evaluation. @param {any} s */
const failedEpisodes = (s) => at(s, "eval.failed_episodes") > 0 ? `, without ${formatted(at(s, "eval.failed_episodes"))} that failed` : "";

/** The newest evaluation of all that have ended, or that it failed. @param {any} s */
function evaluationText(s) {
  const failed = at(s, "failed_evaluations.updates"), done = at(s, "eval.updates");
  const score = formatted(at(s, "eval.return_mean")) + failedEpisodes(s);
  if (failed === null || (done !== null && done >= failed)) return score;
  return `failed after ${counted(failed, "updates")}` + (done === null ? "" : `, before: ${score}`);
}

/** The newest evaluation that failed, in words. @param {any} s */
function failedEvaluation(s) {
  const figure = (/** @type {string} */ name) => at(s, "failed_evaluations." + name);
  return `Evaluation after ${counted(figure("updates"), "updates")} failed, with ${counted(figure("episodes"), words.episodes)} played (${formatted(figure("count"))} failed so far): ${figure("error")}`;
}

/** @param {any} config */
const isTokenRun = (config) => Boolean(config && config.model && config.model.kind === "decoder");

/** Whether values are shown in percent. @param {string=} unit "0 to 1", or with what the shares are by; "0 or more": shares of a sum */
const isShare = (unit) => unit !== undefined && (unit.startsWith("0 to 1") || unit === "0 or more");

const kUnknown = "\u2013";

/** @param {any} value @param {string=} unit */
function formatted(value, unit) {
  if (value === null || value === undefined || Number.isNaN(value)) return kUnknown;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return String(value);
  if (isShare(unit)) return percent(value) + " %";
  if (unit === "s") return value < 120 ? shortTime(value) : duration(value);
  if (unit === "ms") return number(value) + " ms";
  if (unit === "bytes") return scaled(value, 1000, ["B", "kB", "MB", "GB", "TB"]);
  return number(value);
}

/** Only the whole is 100. @param {number} value */
function percent(value) {
  const text = (100 * value).toFixed(Math.abs(value) < 0.1 ? 1 : 0);
  return value < 1 && Number(text) >= 100 ? (Math.floor(1000 * value) / 10).toFixed(1) : text;
}

/** @param {number} value */
function number(value) {
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en-US");
  if (size >= 1e-3 || value === 0) return String(Number(value.toPrecision(3)));
  return value.toExponential(1);
}

/**
 * The share of each count in their sum. The texts add to 100 %: what rounding leaves over goes to the largest remainders.
 * @param {number[]} counts @returns {string[]}
 */
function sharesOf(counts) {
  const sum = counts.reduce((a, b) => a + b, 0), kWhole = 1000;
  if (sum <= 0) return counts.map(() => kUnknown);
  const exact = counts.map((count) => kWhole * count / sum), parts = exact.map(Math.floor);
  const byRemainder = [...exact.keys()].sort((a, b) => (exact[b] - parts[b]) - (exact[a] - parts[a]));
  const left = kWhole - parts.reduce((a, b) => a + b, 0);
  for (const i of byRemainder.slice(0, left)) ++parts[i];
  return parts.map((part) => (part / 10).toFixed(1) + " %");
}

/** A time of less than a few minutes. @param {number} seconds */
function shortTime(seconds) {
  const size = Math.abs(seconds);
  if (size >= 1 || size === 0) return number(seconds) + " s";
  return size < 1e-3 ? number(1e6 * seconds) + " \u00b5s" : number(1e3 * seconds) + " ms";
}

/** @param {number} value @param {number} base @param {string[]} names */
function scaled(value, base, names) {
  let step = 0;
  while (value >= base && step + 1 < names.length) { value /= base; ++step; }
  return Number(value.toPrecision(3)) + " " + names[step];
}

/** @param {number} value */
function short(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return Number((value / 1e9).toPrecision(4)) + "G";
  if (size >= 1e6) return Number((value / 1e6).toPrecision(4)) + "M";
  if (size >= 1e4) return Number((value / 1e3).toPrecision(4)) + "k";
  return String(Number(value.toPrecision(4)));
}

/** @param {number} seconds */
function duration(seconds) {
  const all = Math.round(seconds), hours = Math.floor(all / 3600), minutes = Math.floor(all / 60) % 60;
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  return hours > 0 ? hours + ":" + two(minutes) + ":" + two(all % 60) : minutes + ":" + two(all % 60);
}

/** What the viewer chose, which the browser keeps for this address. It may refuse to keep anything. */
const choices = {
  /** @param {string} name */
  get(name) {
    try { return localStorage.getItem("troupe." + name); } catch { return null; }
  },
  /** @param {string} name @param {string} value */
  set(name, value) {
    try { localStorage.setItem("troupe." + name, value); } catch { /* the choice ends with the page */ }
  },
};

/** The value at a dotted path of a snapshot. @param {any} snapshot @param {string} path */
function at(snapshot, path) {
  let value = snapshot;
  for (const key of path.split(".")) value = value === null || value === undefined ? undefined : value[key];
  return value === undefined ? null : value;
}

/**
 * An element. Attributes are set as such; children are elements or text.
 * @param {string} tag @param {Record<string, any>=} attributes @param {...(Node|string)} children
 */
function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** @param {string} id */
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** @param {string} name */
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
