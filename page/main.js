// The page: tabs, and what arrives from the run.

const store = new Store(kCharts.flatMap((chart) => [...chart.paths, ...(chart.spread || [])]));
const warmup = new WarmupCurves();
const learning = new LearningView(store, warmup);
const events = new EventsView();
const config = new ConfigView();
/** Whether the page is about the runs in folders, of which one can be opened. */
const servesFolders = document.body.dataset.serves === "runs";
const list = servesFolders ? new RunsView(openRun, showAll) : null;
const compare = list ? new CompareView(list, showAll) : null;
const runViews = [learning, new FlowView(), new MachinesView(), events, config];
const views = [...(list && compare ? [list, compare, new DifferencesView(list)] : []), ...runViews];

/** @type {any} */
let newest = null;
let live = "connecting";

/** Those of the run that is shown. */
let wordsOfRun = kControlWords;
/** Those that the charts were begun with. */
let chartWords = words;
/** Has the view that is shown speak of its runs. @param {boolean=} begins whether charts begin anew with the same words too */
function chooseWords(begins) {
  const ofRun = !list || runViews.some((view) => !view.panel.hidden);
  const wanted = ofRun ? wordsOfRun : wordsOf(list.compared.length > 0 ? list.compared : list.runs);
  words = wanted;
  if (words === chartWords && !begins) return;
  chartWords = words;
  /** @type {any} */ (byId("axis")).options[0].textContent = words.steps;
  beginCharts();
}

let asked = false;
/** Draws at the next frame, once, however much has arrived. */
function showAll() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    words = wordsOfRun;
    showHeader();
    chooseWords();
    for (const view of views) if (!view.panel.hidden && (newest || !runViews.includes(/** @type {any} */ (view)))) view.show(newest);
  });
}

/** @param {any} message */
function received(message) {
  words = wordsOfRun;
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
    const name = message.name || message.run || "";
    byId("run").textContent = name || "troupe";
    document.title = (name || "run") + " \u00b7 troupe";
    byId("about").textContent = aboutText(message);
    config.begin(message.config, message.defaults);
    wordsOfRun = isTokenRun(message.config) ? kTokenWords : kControlWords;
    isDeterministic = Boolean(message.config && message.config.deterministic);
    chooseWords(true);
    past = [];
    later = [];
    loading = true;
    askedForVerdict = false;
    askedForLog = -Infinity;
    void readLog();
    connection.send({ type: "history", last: kAllHistory, topics: kTopics, ranges: true });
  } else if (message.type === "history" && message.topic === kVerdictTopic) {
    events.bottleneck ??= message.points.map((/** @type {any[]} */ [, verdict]) => verdict).filter((/** @type {any} */ verdict) => verdict?.what).pop() ?? null;
  } else if (message.type === "history") {
    remember(message);
  } else if (message.type === "stats" && message.stats) {
    newest = message.stats;
    events.compare(newest);
    if (warmingUp(newest)) warmup.add((path) => at(newest, path));
    else later.push(message);
    if (!loading) addLater();
    askForVerdict();
  } else if (message.type === "points") {
    fillStore(message);
  } else if (message.type === "record") {
    if (message.stats) events.compare(newest = message.stats);
    events.past(message.log);
    events.showLog(message.log);
    byId("reason").textContent = message.reason ? "Ended: " + message.reason : "";
    byId("over").textContent = overText(message.alarms);
  } else if (message.type === "error") {
    events.add("The run refused a request of this page: " + message.reason);
  }
  showAll();
}

/** The points of a run that was read from its folder. @param {any} curves */
function fillStore(curves) {
  store.clear();
  warmup.clear();
  for (let row = 0; row < curves.points; ++row) {
    const value = (/** @type {string} */ path) => (curves.x[path] || curves.y[path]?.mean || [])[row] ?? null;
    if (value(kWarmupOf) === null) store.add(row + 1, value);
    else warmup.add(value);
  }
  byId("notes").textContent = curves.notes.join("; ");
}

/** The folder of the run that is shown, of those that `troupe dash` serves; null where a run serves the page. @type {string | null} */
let opened = servesFolders ? "" : null;

/** Shows one of the runs in folders. @param {string} folder */
function openRun(folder) {
  if (!(connection instanceof FolderConnection)) return;
  opened = folder;
  place.set("open", folder);
  newest = null;
  shown = null;
  live = "connecting";
  store.clear();
  warmup.clear();
  events.clear();
  byId("of-run").hidden = false;
  byId("over").textContent = "";
  showTabs();
  chooseTab(views.indexOf(learning), true);
  connection.open(folder);
}

const kAllHistory = 100000;
/** Only points of the warm-up have it, which have no other figures. */
const kWarmupOf = "warmup.of";
const kTopics = [...store.paths, kWarmupOf, kWarmupAxis, ...kWarmupPaths];
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
  warmup.clear();
  events.forget();
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
  if (more) return connection.send({ type: "history", last: kAllHistory, before: past[0][0], topics: kTopics, ranges: true });
  const places = new Map(kTopics.map((path, i) => [path, i]));
  const valueOf = (/** @type {any[]} */ values, /** @type {number|undefined} */ place) => values[Number(place)]?.[1] ?? null;
  if (past.length > 0) restarted(Number(valueOf(past[0][1], places.get("env_steps"))));
  for (const [sequence, values] of past) {
    if (valueOf(values, places.get(kWarmupOf)) !== null) warmup.add((path) => valueOf(values, places.get(path)));
    else store.add(sequence, (path) => valueOf(values, places.get(path)), rangesOf(store.paths, values));
  }
  past = [];
  loading = false;
  addLater();
  askForVerdict();
}

/** Begins with the points of a run that was started again. @param {number} envSteps of its first point */
function restarted(envSteps) {
  if (!restarting) return;
  restarting = false;
  if (store.rows > 0) store.restart(envSteps);
}

/** @type {Listener} */
const listener = {
  on: (message) => void tableLoaded.then(() => received(message)),
  state: (text) => {
    noteConnection(text === "lost");
    if (text === "lost" && live === "live") {
      events.add("The connection to the run was lost.");
      if (!servesFolders) store.gap();
    }
    if (text === "live" && live === "lost") events.add("The connection to the run is back.");
    live = text;
    showAll();
  },
};
const connection = servesFolders ? new FolderConnection(listener, kTopics.filter((path) => !kAxes.includes(path))) : new Connection(listener);

/** @type {HTMLElement[]} */
let tabs = [];

/** The views of one run are there when one is shown. */
function showTabs() {
  tabs.forEach((tab, i) => { tab.hidden = opened === "" && runViews.includes(/** @type {any} */ (views[i])); });
}

/** @param {number} chosen @param {boolean} focus */
function chooseTab(chosen, focus) {
  tabs.forEach((tab, i) => {
    tab.setAttribute("aria-selected", String(i === chosen));
    tab.tabIndex = i === chosen ? 0 : -1;
    views[i].panel.hidden = i !== chosen;
  });
  if (focus) tabs[chosen].focus();
  tabs[chosen].scrollIntoView({ block: "nearest", inline: "center" });  // where they do not fit into one row
  place.view = views[chosen].title.toLowerCase();
  place.write();
  showAll();
}

function makeTabs() {
  tabs = views.map((view, i) => element("button", { role: "tab", type: "button", id: "tab" + i, "aria-controls": "panel" + i }, view.title));
  views.forEach((view, i) => {
    for (const [name, value] of Object.entries({ id: "panel" + i, role: "tabpanel", "aria-labelledby": "tab" + i })) view.panel.setAttribute(name, value);
    byId("panels").append(view.panel);
  });
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => chooseTab(i, false));
    tab.addEventListener("keydown", (event) => {
      const there = [...tabs.keys()].filter((k) => !tabs[k].hidden), at = there.indexOf(i);
      const steps = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowLeft: -1 });
      if (event.key in steps) chooseTab(there[(at + steps[event.key] + there.length) % there.length], true);
      if (event.key === "Home") chooseTab(there[0], true);
      if (event.key === "End") chooseTab(there[there.length - 1], true);
    });
  });
  byId("tabs").append(...tabs);
  showTabs();
  const named = views.findIndex((view, i) => view.title.toLowerCase() === place.view && !tabs[i].hidden);
  chooseTab(Math.max(0, named), false);
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
  if (compare) compare.axis = axis;
  showAll();
}

/** @param {[number, number] | null} range */
function zoomAll(range) {
  learning.zoom(range);
  if (compare) compare.zoom(range);
}

/** The controls of the drawing: what is chosen goes into the address, and all charts are drawn again. */
function makeDrawingControls() {
  const smoothing = /** @type {HTMLInputElement} */ (byId("smoothing")), log = /** @type {HTMLInputElement} */ (byId("log"));
  const tell = () => { byId("smoothing-value").textContent = drawing.smoothing === 0 ? "none" : String(drawing.smoothing); };
  smoothing.value = String(drawing.smoothing);
  log.checked = drawing.log;
  tell();
  smoothing.addEventListener("input", () => {
    drawing.smoothing = Number(smoothing.value);
    place.set("smoothing", ...(drawing.smoothing > 0 ? [smoothing.value] : []));
    tell();
    showAll();
  });
  log.addEventListener("change", () => {
    drawing.log = log.checked;
    place.set("y", ...(log.checked ? ["log"] : []));
    showAll();
  });
}

/** The end of the log of the run that serves the page; null without an answer. */
async function logLines() {
  try {
    const reply = await fetch("/log");
    return reply.ok ? (await reply.text()).split("\n").filter(Boolean) : null;
  } catch {
    return null;  // the connection is lost, which the page says elsewhere
  }
}

const kLogMs = 5000;
/** When the end of the log was asked for. */
let askedForLog = -Infinity;
/** Asks the run that serves the page for the end of its log, while the events are shown: a page that never shows them is one request. */
async function readLog() {
  if (servesFolders || events.panel.hidden || performance.now() < askedForLog + kLogMs) return;
  askedForLog = performance.now();
  const begun = events.begun, lines = await logLines();
  if (!lines || events.begun !== begun) return;  // another run has come
  events.showLog(lines);
  events.past(lines);
}
events.shown = readLog;

function beginCharts() {
  learning.begin();
  if (compare) compare.begin();
}
beginCharts();
void tableLoaded.then(() => {
  beginCharts();  // with labels and units
  showAll();
});
if (servesFolders) {
  byId("run").textContent = "troupe dash";
  document.title = "troupe dash";
  byId("of-run").hidden = true;
  opened = place.get("open") || "";
}
makeTabs();
const chosenTheme = place.get("theme") ?? choices.get("theme"), chosenAxis = place.get("x") ?? choices.get("axis");
const isTheme = chosenTheme === "dark" || chosenTheme === "light";
setTheme(isTheme ? chosenTheme : matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
if (isTheme) place.set("theme", chosenTheme);
byId("theme").addEventListener("click", () => {
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  choices.set("theme", document.documentElement.dataset.theme || "");
  place.set("theme", document.documentElement.dataset.theme || "");
});
setAxis(chosenAxis !== null && kAxes.includes(chosenAxis) ? chosenAxis : "env_steps");
place.set("x", ...(learning.axis === "env_steps" ? [] : [learning.axis]));
byId("axis").addEventListener("change", (event) => {
  setAxis(/** @type {HTMLSelectElement} */ (event.target).value);
  zoomAll(null);
  choices.set("axis", learning.axis);
  place.set("x", ...(learning.axis === "env_steps" ? [] : [learning.axis]));
});
makeDrawingControls();
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();  // the fragment has another purpose
  byId("panels").focus();
});
if (connection instanceof FolderConnection && opened) {
  byId("of-run").hidden = false;
  connection.open(opened);
}
addEventListener("resize", showAll);
if (compare) addEventListener("scroll", showAll, { passive: true });
