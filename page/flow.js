// The view of the samples' way: workers, inference, replay buffer, trainer, weights.

const kLedger = [
  { path: "ledger.trained", fill: "--c3" },
  { path: "ledger.waiting", fill: "--c1" },
  { path: "ledger.dropped_stale", fill: "--c2" },
  { path: "ledger.dropped_full", fill: "--c5" },
  { path: "ledger.lost_in_crash", fill: "--bad" },
  { path: "ledger.left_over", fill: "--faint" },
  { path: "ledger.filtered", fill: "--c4" },
  { path: "ledger.unscored", fill: "--faint" },
  { path: "ledger.verifier_failed", fill: "--bad" },
  { path: "ledger.baselines", fill: "--c4" },
];

const kBatchStarts = ["batch.full", "batch.timeout", "batch.all_waiting"];

// Of what a figure is: shares of one card are of different things, and do not add to 100 %.
const kOf = /** @type {Record<string, string>} */ ({
  "busy.stepping": "part of busy", "busy.action_wait": "of the time of a group", "busy.credit_wait": "of the time of a group",
  "inference.p50_ms": "newest batches, by their oldest request", "inference.p99_ms": "of the same",
  "batch.size_p50": "newest batches", "batch.full": "of all batches", "batch.timeout": "of all batches", "batch.all_waiting": "of all batches",
  "trainer_wait_fraction": "since this start", "busy.prefetcher": "beside the updates", "busy.machine": "with all programs", "busy.run": "of the same", "busy": "computing, or waiting for a processor",
});

/** A row of a card. @param {string} path @param {string} label @param {string|Node} value */
const cardRow = (path, label, value) => element("tr", {}, element("th", { scope: "row" }, label, ...(path in kOf ? [element("small", { class: "faint" }, kOf[path])] : [])), element("td", { class: "number" }, value));

/** @param {string} title @param {number | null} busy share of time @param {[string, string, string|Node][]} lines path, label and value @param {boolean} limit */
function station(title, busy, lines, limit) {
  const rows = lines.map((line) => cardRow(...line));
  const card = element("section", { class: limit ? "card limit" : "card", "aria-label": title }, element("h3", {}, title));
  if (limit) card.append(element("p", {}, element("b", {}, "limits the run")));
  if (typeof busy === "number") {
    const text = "busy " + formatted(busy, "0 to 1") + " of the last 10 s";
    card.append(element("div", { class: "busy", role: "img", "aria-label": text, title: text }, element("i", { style: `width: ${100 * busy}%` })));
    rows.unshift(cardRow("busy", "busy", formatted(busy, "0 to 1")));
  }
  card.append(element("table", {}, element("tbody", {}, ...rows)));
  return element("li", {}, card);
}

class FlowView {
  constructor() {
    this.title = "Flow";
    this.list = element("ol", { class: "flow" });
    this.lag = element("div", {});
    this.ledger = element("div", {});
    this.ledgerTitle = element("h2", {});
    this.histograms = new Histograms();
    this.panel = element("section", {}, element("h2", { class: "unseen" }, "Parts of the run"), this.list, element("h2", {}, "Policy lag of the trained samples"), this.lag,
                         this.ledgerTitle, this.ledger, this.histograms.panel);
  }

  /** @param {any} s the newest snapshot */
  show(s) {
    const limit = isPast(s) ? "" : at(s, "bottleneck.limit");
    const value = (/** @type {string} */ path) => valueText(s, path);
    /** @param {string} path @returns {[string, string, string|Node]} */
    const row = (path) => [path, ...figureRow(s, path)];
    const batches = kBatchStarts.map((path) => Number(at(s, path) || 0)), shares = sharesOf(batches);
    const starts = batches.some((count) => count > 0) ? kBatchStarts.map((path, i) => /** @type {[string, string, string]} */ ([path, labelOf(path), shares[i]])) : [];
    const notTrained = ["ledger.filtered", "ledger.unscored", "ledger.verifier_failed"].filter((path) => at(s, path) > 0);
    const behind = Object.values(at(s, "weights_behind") || {}).map(Number);
    const up = at(s, "workers.starting") > 0 ? `${value("workers.up")}, ${value("workers.starting")} starting` : `${value("workers.up")} of ${value("workers.total")}`;
    const ranks = at(s, "ranks.total") > 1 ? [/** @type {[string, string, string]} */ (["", "ranks up", `${value("ranks.up")} of ${value("ranks.total")}`])] : [];
    const dropped = Number(at(s, "ledger.dropped_stale") || 0) + Number(at(s, "ledger.dropped_full") || 0);
    this.list.replaceChildren(
      station("Workers", at(s, "busy.workers"), [["", "up", up], ...["env_steps_per_second", "busy.stepping", "busy.action_wait", "busy.credit_wait", "quarantined"].map(row)], limit === "workers"),
      station("Inference", at(s, "busy.inference"), [...["inference.up", "inference.p50_ms", "inference.p99_ms", "batch.size_p50"].map(row), ...starts], limit === "inference"),
      station("Replay buffer", at(s, "busy.replay"), [["", words.samples + " waiting", value("ledger.waiting")], ["", words.samples + " dropped", formatted(dropped)], ...notTrained.map(row)], limit === "replay"),
      station("Trainer", at(s, "busy.trainer"), [...ranks, ...["updates_per_second", "trainer_wait_fraction", "reuse", "skipped_steps", "busy.prefetcher", "busy.machine", "busy.run", "busy.waiting"].map(row)], limit === "trainer" || limit === "prefetcher"),
      station("Weights", null, [["", "receivers", String(behind.length)], ["", "furthest behind", behind.length > 0 ? counted(Math.max(...behind), "versions") : kUnknown]], false));
    this.showLag(s);
    this.showLedger(s);
    this.histograms.show(s);
  }

  /** @param {any} s */
  showLag(s) {
    const cap = Number(at(s, "lag.cap") || 0), most = Math.max(cap, Number(at(s, "lag.max") || 0), 1);
    const marks = [["lag.p50", "--c3"], ["lag.p95", "--c1"], ["lag.max", "--c2"], ["lag.cap", "--bad"]];
    const meter = element("div", { class: "meter", role: "img" });
    const texts = [], updates = (/** @type {any} */ value) => typeof value === "number" ? counted(value, "updates") : formatted(value);
    const legend = element("div", { class: "legend" });
    for (const [path, fill] of marks) {
      const value = at(s, path), label = labelOf(path);
      texts.push(label + " " + updates(value));
      if (typeof value === "number") meter.append(element("i", { style: `left: calc(${100 * value / most}% - ${value >= most ? 3 : 0}px); background: var(${fill})` }));
      legend.append(element("span", {}, element("span", { class: "key", style: `border-color: var(${fill})` }), label + " ", element("b", {}, updates(value))));
    }
    meter.setAttribute("aria-label", "Policy lag: " + texts.join(", "));
    this.lag.replaceChildren(meter, legend);
  }

  /** @param {any} s */
  showLedger(s) {
    this.ledgerTitle.textContent = `What happened to the ${words.samples}`;
    const counts = kLedger.map(({ path }) => Number(at(s, path) || 0)), shares = sharesOf(counts);
    const bar = element("div", { class: "stack", role: "img", "aria-label": "Shares of the samples, as in the table" });
    const rows = kLedger.map(({ path, fill }, i) => {
      const count = counts[i];
      if (count > 0) bar.append(element("span", { style: `flex: ${count} 1 0; background: var(${fill})` }));
      const key = element("span", { class: "key", style: `border-color: var(${fill})` });
      return element("tr", {}, element("th", { scope: "row" }, key, labelOf(path)), element("td", { class: "number" }, formatted(count)),
                     element("td", { class: "number" }, shares[i]));
    });
    const total = element("tr", {}, element("th", { scope: "row" }, labelOf("ledger.produced")), element("td", { class: "number" }, formatted(at(s, "ledger.produced"))), element("td", {}));
    const uncounted = element("tr", {}, element("th", { scope: "row" }, "made by workers that were killed and in none of these counts, at most"),
                              element("td", { class: "number" }, formatted(at(s, "uncounted_at_most"))), element("td", {}));
    const head = element("tr", {}, element("th", { scope: "col" }, "outcome"), ...[words.samples, "share"].map((name) => element("th", { class: "number", scope: "col" }, name)));
    this.ledger.replaceChildren(bar, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows, total, uncounted)));
  }
}
