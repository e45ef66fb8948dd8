// What is shown, in the fragment of the address: "#learning&x=updates&smoothing=0.6". A reload, and the address given
// to somebody else, show the same.

const place = {
  /** @type {string} */ view: "",
  /** Names and values of what was chosen. */
  chosen: new URLSearchParams(),

  /** @param {string} fragment with its "#" */
  read(fragment) {
    const [first, ...rest] = fragment.replace(/^#/, "").split("&");
    this.view = first.includes("=") ? "" : first;
    this.chosen = new URLSearchParams((first.includes("=") ? [first, ...rest] : rest).join("&"));
  },

  /** @param {string} name */
  get(name) { return this.chosen.get(name); },

  /** @param {string} name */
  all(name) { return this.chosen.getAll(name); },

  /** @param {string} name @param {string[]} values none: it is not chosen any more */
  set(name, ...values) {
    if (JSON.stringify(this.all(name)) === JSON.stringify(values)) return;
    this.chosen.delete(name);
    for (const value of values) this.chosen.append(name, value);
    this.write();
  },

  write() {
    const chosen = this.chosen.toString();
    history.replaceState(null, "", "#" + this.view + (chosen ? "&" + chosen : ""));
  },
};

place.read(location.hash);
// Somebody has changed the address by hand; what the page writes itself does not come here.
addEventListener("hashchange", () => location.reload());

/** How curves are drawn, in all charts. */
const drawing = {
  /** Weight of the values before, from 0 (as they are) to 0.99. */
  smoothing: inRange(Number(place.get("smoothing")), 0, 0.99),
  /** Whether the y axes are logarithmic. */
  log: place.get("y") === "log",
};

/** @param {number} value @param {number} low @param {number} high */
function inRange(value, low, high) { return Number.isFinite(value) ? Math.min(Math.max(value, low), high) : low; }

/** The part of the x axis that is shown, as chosen in the address; null: all. @returns {[number, number] | null} */
function chosenZoom() {
  const ends = (place.get("zoom") || "").split(",").map(Number);
  return ends.length === 2 && ends.every(Number.isFinite) && ends[0] < ends[1] ? [ends[0], ends[1]] : null;
}
