// The bottleneck and the alarms in the header.

/** The states of a run in a folder that nobody trains. */
const kOverStates = ["finished", "stopped", "crashed", "deleted"];

/** Whether the run trains no more, so that what is shown of it is of the past. @param {any} s */
const isOver = (s) => Boolean(at(s, "training_ended")) || kOverStates.includes(live);

/** The bottleneck; of a run that trains no more the last one. @param {any} s */
function showVerdict(s) {
  const over = isPast(s), told = at(s, "bottleneck.what") ? s : { bottleneck: over ? events.bottleneck : null };
  const what = at(told, "bottleneck.what"), why = at(told, "bottleneck.why"), advice = at(told, "bottleneck.advice");
  const rest = (/** @type {string[]} */ ...texts) => texts.filter(Boolean).map((text) => "; " + text).join("");
  /** @type {(Node|string)[]} */
  let line = [];
  if (what) {
    const isNone = (at(told, "bottleneck.resource") || what) === "none";  // records of older versions have no resource
    line = [element("b", isNone || over ? {} : { class: "limit" }, (over ? "Last bottleneck: " : "Bottleneck: ") + what), rest(why, advice)];
  } else if (over && events.bottlenecks) {
    line = [element("b", {}, "Bottlenecks while it trained: "), events.bottlenecks];
  }
  byId("verdict").replaceChildren(...line);
  byId("verdict-figures").replaceChildren(...(what ? verdictFigures(told) : []).map(termOf));
}

/** What a bottleneck has beside its sentence; only what it has. @param {any} s with the bottleneck @returns {[string, string][]} */
function verdictFigures(s) {
  const resource = at(s, "bottleneck.resource"), share = at(s, "bottleneck.share"), waits = at(s, "bottleneck.waits"), gain = at(s, "bottleneck.gain");
  if (!resource || resource === "none" || resource === "unknown") return [];
  /** @type {[string, string][]} */
  const rows = [];
  if (typeof share === "number") rows.push(["it is busy or waited for", formatted(share, "0 to 1") + " of the time"]);
  if (waits) rows.push(["what waits for it", waits]);
  if (typeof gain === "number") rows.push(["with twice as much of it", formatted(gain, "0 to 1") + " faster"]);
  return rows;
}

/** The alarms that are raised, errors first; of a run that trains no more those that were raised at its end. @param {any} s */
function showAlarms(s) {
  const when = isCutOff(s) ? ", raised in the last figures: " : isOver(s) ? ", raised when training ended: " : ": ";
  const texts = at(s, "alarm_texts") || {};
  const alarms = Object.entries(at(s, "alarms") || {}).sort((a, b) => Number(b[1]) - Number(a[1]));
  // A screen reader says what is put into this list, so it is left alone while the same alarms are raised.
  const now = JSON.stringify([alarms, when]);
  if (byId("alarms").dataset.shown === now) return;
  byId("alarms").dataset.shown = now;
  byId("alarms").replaceChildren(...alarms.map(([name, level]) =>
    element("li", level === 2 ? { class: "error" } : {}, element("b", {}, (level === 2 ? "Error" : "Warning") + when + name), " " + (texts[name] || ""))));
}

/** The alarms that the run had and that are over: often the cause of those that are raised. @param {any} alarms of its folder */
function overText(alarms) {
  const over = raisedIn(alarms).filter(({ isOver }) => isOver).map(({ name, level }) => `${name} (${level})`);
  return over.length > 0 ? "Alarms that are over: " + over.join(", ") : "";
}

const kVerdictTopic = "bottleneck";
const kVerdictSnapshots = 200;
let askedForVerdict = false;
/** Asks for the last bottleneck of a run whose training ended before this page was opened. */
function askForVerdict() {
  if (servesFolders || loading || askedForVerdict || events.bottleneck || !at(newest, "training_ended") || !at(newest, kVerdictTopic)) return;
  askedForVerdict = true;
  connection.send({ type: "history", topic: kVerdictTopic, last: kVerdictSnapshots });
}
