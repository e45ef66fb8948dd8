// The page: header, tabs, and what arrives from the run.

const store = new Store(kCharts.flatMap((chart) => [...chart.curves.map((curve) => curve.path), ...(chart.spread || [])]));
const learning = new LearningView(store);
const events = new EventsView();
const config = new ConfigView();
const views = [learning, new FlowView(), new MachinesView(), events, config];

/** @type {any} */
let newest = null;
/** @type {Map<string, any>} */
const meanings = new Map();
let live = "connecting";

const kFigures = [
  [() => words.steps, (/** @type {any} */ s) => formatted(at(s, "env_steps"))],
  [() => words.steps + "/s", (/** @type {any} */ s) => formatted(at(s, "env_steps_per_second"))],
  ["updates", (/** @type {any} */ s) => formatted(at(s, "updates"))],
  ["updates/s", (/** @type {any} */ s) => formatted(at(s, "updates_per_second"))],
  [() => words.return, (/** @type {any} */ s) => formatted(at(s, "episodes.return_mean"))],
  ["evaluation", evaluationText],
  ["lag p95, cap", (/** @type {any} */ s) => formatted(at(s, "lag.p95")) + ", " + formatted(at(s, "lag.cap"))],
  ["workers", (/** @type {any} */ s) => formatted(at(s, "workers.up"))],
];

function showState() {
  const ended = newest && at(newest, "training_ended"), plays = newest && evaluating(newest) !== "";
  const warms = live === "live" && newest && warmingUp(newest) !== "";
  const state = warms ? "warm-up" : live === "live" && ended ? (plays ? "evaluating" : "ended") : live === "lost" && ended ? "ended" : live;
  byId("state").dataset.state = state;
  byId("state").textContent = { live: "running", ended: "ended", lost: "connection lost, trying again", connecting: "connecting" }[state] || state;
}

function showHeader() {
  showState();
  const s = newest;
  const progress = at(s, "progress");
  byId("progress").setAttribute("value", String(progress || 0));
  showAlarms(s);
  if (!s) {
    byId("progress-text").textContent = "waiting for the first snapshot";
    byId("figures").replaceChildren();
    byId("verdict").replaceChildren();
    return;
  }
  const parts = [formatted(progress, "0 to 1"), duration(Number(at(s, "elapsed_seconds") || 0)) + " elapsed"];
  if (at(s, "eta_seconds") !== null && !at(s, "training_ended")) parts.push(duration(at(s, "eta_seconds")) + " left");
  if (evaluating(s)) parts.push(evaluating(s));
  if (warmingUp(s)) parts.unshift(warmingUp(s));
  byId("progress-text").textContent = parts.join(" \u00b7 ");
  const figures = warmingUp(s) ? [] : kFigures;  // none has a value before the first answers
  byId("figures").replaceChildren(...figures.map(([name, text]) =>
    element("div", {}, element("dt", {}, typeof name === "function" ? /** @type {any} */ (name)() : name), element("dd", {}, /** @type {any} */ (text)(s)))));
  const what = at(s, "bottleneck.what"), why = at(s, "bottleneck.why"), advice = at(s, "bottleneck.advice");
  const isNone = (at(s, "bottleneck.resource") || what) === "none";  // records of older versions have no resource
  byId("verdict").replaceChildren(...(what ? [element("b", isNone ? {} : { class: "limit" }, "Bottleneck: " + what), [why, advice].filter(Boolean).map((text) => "; " + text).join("")] : []));
}

/** The alarms that are raised, errors first. @param {any} s */
function showAlarms(s) {
  const texts = at(s, "alarm_texts") || {};
  const alarms = Object.entries(at(s, "alarms") || {}).sort((a, b) => Number(b[1]) - Number(a[1]));
  // A screen reader says what is put into this list, so it is left alone while the same alarms are raised.
  const now = JSON.stringify(alarms);
  if (byId("alarms").dataset.shown === now) return;
  byId("alarms").dataset.shown = now;
  byId("alarms").replaceChildren(...alarms.map(([name, level]) =>
    element("li", level === 2 ? { class: "error" } : {}, element("b", {}, (level === 2 ? "Error: " : "Warning: ") + name), " " + (texts[name] || ""))));
}

let asked = false;
/** Draws at the next frame, once, however much has arrived. */
function showAll() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    showHeader();
    for (const view of views) if (!view.panel.hidden && newest) view.show(newest);
  });
}

/** @param {any} message */
function received(message) {
  if (message.type === "hello") {
    const run = JSON.stringify([message.run, ...["seed", "env.id", "task.name"].map((path) => at(message.config, path))]);
    if (shown !== null && run !== shown) {
      beginOther(message.run);
    } else if (started !== null && message.started !== started) {
      restarting = true;
      events.add("The run was started again.");  // before anything that the new start tells
    }
    shown = run;
    started = message.started ?? null;
    byId("run").textContent = message.run || "troupe";
    document.title = (message.run || "run") + " \u00b7 troupe";
    config.begin(message.config, message.defaults);
    words = isTokenRun(message.config) ? kTokenWords : kControlWords;
    /** @type {any} */ (byId("axis")).options[0].textContent = words.steps;
    learning.begin(meanings);
    connection.send({ type: "metrics" });
    past = [];
    later = [];
    loading = true;
    connection.send({ type: "history", last: kAllHistory, topics: kTopics });
  } else if (message.type === "metrics") {
    for (const metric of message.metrics) meanings.set(metric.path, metric);
    learning.begin(meanings);
  } else if (message.type === "history") {
    remember(message);
  } else if (message.type === "stats" && message.stats) {
    newest = message.stats;
    events.compare(newest);
    if (!warmingUp(newest)) later.push(message);
    if (!loading) addLater();
  } else if (message.type === "error") {
    events.add("The run refused a request of this page: " + message.reason);
  }
  showAll();
}

const kAllHistory = 100000;
// The last one tells the points of the warm-up, which have no figures.
const kTopics = [...store.paths, "warmup.of"];
/** The older points come in parts, the newest part first. @type {[number, any[]][]} */
let past = [];
/** Snapshots that are not in the store yet. @type {any[]} */
let later = [];
let loading = false;
/** When the run was started that this page shows; another time: it was started again. @type {number | null} */
let started = null;
let restarting = false;
/** What tells the run that this page shows from others. @type {string | null} */
let shown = null;

/** Another run has taken the port. @param {string} name */
function beginOther(name) {
  restarting = false;
  newest = null;
  store.clear();
  events.before = events.verdict = null;
  events.add(`Another run is served at this address: ${name}. The curves of the one before are gone.`);
}


function addLater() {
  if (later.length > 0) restarted(Number(at(later[0].stats, "env_steps")));
  for (const { sequence, stats } of later) store.add(sequence, (path) => at(stats, path));
  later = [];
}

/** @param {any} message */
function remember(message) {
  past = [...message.points, ...past];
  const more = message.points.length > 0 && past.length < message.available;
  if (more) return connection.send({ type: "history", last: kAllHistory, before: past[0][0], topics: kTopics });
  const places = new Map(store.paths.map((path, i) => [path, i]));
  if (past.length > 0) restarted(Number(past[0][1][/** @type {number} */ (places.get("env_steps"))]));
  for (const [sequence, values] of past)
    if (values[store.paths.length] === null) store.add(sequence, (path) => values[/** @type {number} */ (places.get(path))]);
  loading = false;
  addLater();
}

/** Begins with the points of a run that was started again. @param {number} envSteps of its first point */
function restarted(envSteps) {
  if (!restarting) return;
  restarting = false;
  if (store.rows > 0) store.restart(envSteps);
}

const connection = new Connection({
  on: received,
  state: (text) => {
    if (text === "lost" && live === "live") {
      events.add("The connection to the run was lost.");
      store.gap();
    }
    if (text === "live" && live === "lost") events.add("The connection to the run is back.");
    live = text;
    showState();
  },
});

function makeTabs() {
  const tabs = views.map((view, i) => element("button", { role: "tab", type: "button", id: "tab" + i, "aria-controls": "panel" + i }, view.title));
  views.forEach((view, i) => {
    for (const [name, value] of Object.entries({ id: "panel" + i, role: "tabpanel", "aria-labelledby": "tab" + i })) view.panel.setAttribute(name, value);
    byId("panels").append(view.panel);
  });
  const choose = (/** @type {number} */ chosen, /** @type {boolean} */ focus) => {
    tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", String(i === chosen));
      tab.tabIndex = i === chosen ? 0 : -1;
      views[i].panel.hidden = i !== chosen;
    });
    if (focus) tabs[chosen].focus();
    history.replaceState(null, "", "#" + views[chosen].title.toLowerCase());
    showAll();
  };
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => choose(i, false));
    tab.addEventListener("keydown", (event) => {
      const steps = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowLeft: -1 });
      if (event.key in steps) choose((i + steps[event.key] + tabs.length) % tabs.length, true);
      if (event.key === "Home") choose(0, true);
      if (event.key === "End") choose(tabs.length - 1, true);
    });
  });
  byId("tabs").append(...tabs);
  const named = views.findIndex((view) => "#" + view.title.toLowerCase() === location.hash);
  choose(Math.max(0, named), false);
}

/** @param {string} theme */
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  showAll();
}

/** @param {string} axis */
function setAxis(axis) {
  /** @type {HTMLSelectElement} */ (byId("axis")).value = learning.axis = axis;
  learning.zoom(null);
  showAll();
}

learning.begin(meanings);
makeTabs();
const chosenTheme = choices.get("theme"), chosenAxis = choices.get("axis");
setTheme(chosenTheme === "dark" || chosenTheme === "light" ? chosenTheme : matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
byId("theme").addEventListener("click", () => {
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  choices.set("theme", document.documentElement.dataset.theme || "");
});
setAxis(chosenAxis !== null && kAxes.includes(chosenAxis) ? chosenAxis : "env_steps");
byId("axis").addEventListener("change", (event) => {
  setAxis(/** @type {HTMLSelectElement} */ (event.target).value);
  choices.set("axis", learning.axis);
});
addEventListener("resize", showAll);
