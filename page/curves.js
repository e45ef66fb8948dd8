// What is made of the points of a curve: smoothed values, a table for other programs, a picture.

/** @typedef {(number|null|undefined)[]} Values null is a gap, undefined is no point of this curve */

/**
 * The exponential moving average with the correction of its bias towards 0, as in TensorBoard: of n values it is the mean with
 * weights w^(n-1), ..., w, 1. Gaps stay.
 * @param {Values} values @param {number} weight of the average before, in [0, 1) @returns {Values}
 */
function smoothed(values, weight) {
  let sum = 0, norm = 0;
  return values.map((value) => {
    if (typeof value !== "number") return value;
    sum = weight * sum + (1 - weight) * value;
    norm = weight * norm + (1 - weight);
    return sum / norm;
  });
}

/** The values that a logarithmic axis can have; a gap in place of each other. @param {Values} values @returns {Values} */
const positive = (values) => values.map((value) => typeof value === "number" && value <= 0 ? null : value);

/** The rows of values that no line reaches, because there is none on either side; null without any. @param {Values} values */
function alone(values) {
  const rows = [...values.keys()].filter((row) => values[row] !== undefined);
  const isNumber = (/** @type {number|undefined} */ row) => row !== undefined && typeof values[row] === "number";
  const found = rows.filter((row, i) => isNumber(row) && !isNumber(rows[i - 1]) && !isNumber(rows[i + 1]));
  return found.length > 0 ? found : null;
}

/** Beyond them, numbers of one digit are not exact, or infinite. */
const kSmallestLog = 1e-300, kLargestLog = 1e300;

/** The limits of a logarithmic y axis: numbers of one digit. @param {any} _ @param {number|null} min @param {number|null} max */
function logRange(_, min, max) {
  if (min === null || max === null || !(min > 0)) return [1, 10];
  const digit = (/** @type {number} */ value, /** @type {(x: number) => number} */ round) => {
    const known = inRange(value, kSmallestLog, kLargestLog), unit = 10 ** Math.floor(Math.log10(known));
    return Number((round(known / unit) * unit).toPrecision(1));
  };
  const low = digit(min, Math.floor), high = digit(max, Math.ceil);
  return low < high ? [low, high] : [digit(low / 2, Math.floor), digit(high * 2, Math.ceil)];
}

/** The whole numbers from one to another. @param {number} from @param {number} to */
const wholeNumbers = (from, to) => Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => from + i);

/** Where a linear axis has labels, at most about `most`. @param {number} min @param {number} max @param {number} most @returns {number[]} */
function linearSplits(min, max, most) {
  const least = (max - min) / most, unit = 10 ** Math.floor(Math.log10(least));
  if (!(unit > 0) || !Number.isFinite(unit)) return [min, max];
  const step = unit * ([1, 2, 5].find((factor) => factor * unit >= least) || 10), kRounding = 1e-9;
  return wholeNumbers(Math.ceil(min / step - kRounding), Math.floor(max / step + kRounding)).map((n) => Number((n * step).toPrecision(12)));
}

/** Where a logarithmic axis has labels: at powers of ten, at 1, 2 and 5 times such, or as a linear one. @param {number} min @param {number} max @param {number} most @returns {number[]} */
function logSplits(min, max, most) {
  const first = Math.floor(Math.log10(min)), last = Math.ceil(Math.log10(max)), step = Math.ceil((last - first) / most), kEnough = 3;
  const inside = (/** @type {number[]} */ values) => values.filter((value) => value >= min && value <= max);
  const power = (/** @type {number} */ n) => Number("1e" + n);
  const powers = inside(wholeNumbers(Math.ceil(first / step), Math.floor(last / step)).map((n) => power(n * step)));
  if (powers.length >= kEnough) return powers;
  const between = inside(wholeNumbers(first, last).flatMap((n) => [1, 2, 5].map((factor) => Number(factor + "e" + n))));
  return between.length >= kEnough ? between : linearSplits(min, max, most);
}

/** A field of a CSV file, as RFC 4180 has it. @param {any} value */
function csvField(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}

/** @param {string[]} names @param {Values[]} columns @param {number} axes that come first: a row needs a value after them */
function csvOf(names, columns, axes) {
  const lines = [names.map(csvField).join(",")];
  for (let row = 0; row < columns[0].length; ++row) {
    const values = columns.map((column) => column[row]);
    if (values.slice(axes).some((value) => typeof value === "number")) lines.push(values.map(csvField).join(","));
  }
  return lines.join("\n") + "\n";
}

/** Has the browser save a file. @param {Blob} content @param {string} name */
function save(content, name) {
  const address = URL.createObjectURL(content);
  const link = element("a", { href: address, download: name.replace(/[^\w.,=+-]+/g, "_") });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/**
 * A chart with its title and the names of its curves.
 * @param {string} title @param {HTMLCanvasElement} drawn @param {{label: string, color: string, dash: number[]}[]} keys
 */
function pictureOf(title, drawn, keys) {
  const ratio = window.devicePixelRatio || 1, pad = 12 * ratio, line = 20 * ratio, keyWidth = 26 * ratio;
  const canvas = /** @type {HTMLCanvasElement} */ (element("canvas", { width: drawn.width + 2 * pad }));
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const font = (/** @type {string} */ weight, /** @type {number} */ size) => `${weight} ${size * ratio}px system-ui, sans-serif`;
  pen.font = font("", 12);
  let x = pad, row = 0;
  const places = keys.map(({ label }) => {
    const width = keyWidth + pen.measureText(label).width + pad;
    if (x > pad && x + width > canvas.width - pad) { x = pad; ++row; }
    const at = { x, row };
    x += width;
    return at;
  });
  const top = pad + line + (row + 1) * line;
  canvas.height = top + drawn.height + pad;  // empties the canvas and its settings
  pen.fillStyle = color("panel");
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.textBaseline = "middle";
  pen.fillStyle = color("text");
  pen.font = font("600", 14);
  pen.fillText(title, pad, pad + line / 2);
  pen.font = font("", 12);
  keys.forEach(({ label, color: stroke, dash }, i) => {
    const y = pad + line * (1.5 + places[i].row);
    pen.strokeStyle = stroke;
    pen.lineWidth = 2 * ratio;
    pen.setLineDash(dash.map((length) => length * ratio));
    pen.beginPath();
    pen.moveTo(places[i].x, y);
    pen.lineTo(places[i].x + keyWidth - 6 * ratio, y);
    pen.stroke();
    pen.fillText(label, places[i].x + keyWidth, y);
  });
  pen.drawImage(drawn, pad, top);
  return canvas;
}
