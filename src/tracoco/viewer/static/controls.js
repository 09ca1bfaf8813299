// The case list, the overlays with their colours, and what lies at the crosshair.

const LAYERS = [
  { key: "truth", name: "Truth", letter: "T", colour: COLOURS.truth },
  { key: "prediction", name: "Prediction", letter: "P", colour: COLOURS.prediction },
  { key: "errors", name: "Errors", letter: "E", needs: ["truth", "prediction"] },
  { key: "disagreement", name: "Disagreement", letter: "D" },
  { key: "entropy", name: "Entropy", letter: "N" },
];
const COLUMNS = [
  { key: "case", name: "Case" },
  { key: "part", name: "Part" },
  { key: "source", name: "Predicted by" },
  { key: "dice", name: "Dice %", digits: 1 },
  { key: "hd95", name: "HD95", digits: 1 },
  { key: "disagreement", name: "Disagreement", digits: 3 },
  { key: "entropy", name: "Entropy", digits: 3 },
];
const KEYS = [
  ["↑ ↓ ← →, wheel", "next and previous slice of the view in use; with Shift ten slices; turn the 3D view"],
  ["1 2 3 4", "use the axial, sagittal, coronal or 3D view"],
  ["F, double click", "enlarge the view in use, and back"],
  ["J, K", "next and previous case of the list (also Page Down and Page Up)"],
  ["T, P, E, D, N", "truth, prediction, errors, disagreement, entropy"],
  ["H", "hide all overlays, and show them again"],
  ["O, L", "fill the structures; colour by class"],
  ["C", "go to the middle of the structure"],
  ["W", "the usual window again"],
  ["+ − 0, Ctrl + wheel", "zoom, and the whole slice again"],
  ["left button", "move the crosshair; turn the 3D view"],
  ["right button, or Shift + left", "window: sideways the width, up and down the centre"],
  ["middle button", "move the picture"],
];

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && typeof value === "boolean") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function shownNumber(value, digits = 1) {
  return value === null || value === undefined ? "–" : value.toFixed(digits);
}

function short(value) {
  const size = Math.abs(value);
  return Number.isInteger(value) ? String(value) : value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

function swatch(colour) {
  const made = element("span", { class: "swatch", "aria-hidden": "true" });
  made.style.background = Array.isArray(colour) ? css(colour) : colour;
  return made;
}

function showKeys() {
  const list = document.getElementById("keys");
  for (const [keys, meaning] of KEYS) list.append(element("dt", {}, keys), element("dd", {}, meaning));
}

// The table of cases: filtered, sorted, and the row of the case that is seen marked.
class CaseList {
  constructor(data, choose) {
    Object.assign(this, { data, choose, sorted: null, descending: false });
    const has = (column) => data.cases.some((row) => row[column.key] !== null && row[column.key] !== undefined && row[column.key] !== "");
    const twice = new Set(data.cases.map((row) => row.case)).size < data.cases.length;
    this.columns = COLUMNS.filter((column) => (column.key === "source" ? twice : has(column)));
    this.table = document.getElementById("cases");
    this.part = document.getElementById("part");
    this.find = document.getElementById("find");
    const parts = [...new Set(data.cases.map((row) => row.part).filter(Boolean))];
    this.part.append(element("option", { value: "" }, "all"), ...parts.map((part) => element("option", { value: part }, part)));
    this.part.parentElement.hidden = parts.length < 2;
    this.part.addEventListener("change", () => this.show());
    this.find.addEventListener("input", () => this.show());
    this.heads = this.columns.map((column) => {
      const name = column.key === "hd95" ? `HD95 ${data.units}` : column.name;
      const button = element("button", { type: "button", onclick: () => this.sort(column) }, name);
      return element("th", { scope: "col", class: column.digits === undefined ? "" : "n" }, button);
    });
    this.table.tHead.append(element("tr", {}, ...this.heads));
    this.current = null;
    this.show();
  }

  sort(column) {
    // Numbers begin with the worst: the lowest Dice, the largest distance and uncertainty.
    const first = column.digits !== undefined && column.key !== "dice";
    this.descending = this.sorted === column ? !this.descending : first;
    this.sorted = column;
    this.heads.forEach((head, k) => {
      if (this.columns[k] === column) head.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.show();
  }

  rows() {
    const wanted = this.find.value.trim().toLowerCase();
    const rows = this.data.cases.filter((row) => (!this.part.value || row.part === this.part.value) && row.case.toLowerCase().includes(wanted));
    if (!this.sorted) return rows;
    const { key } = this.sorted, sign = this.descending ? -1 : 1;
    return rows.toSorted((a, b) => {
      const [x, y] = [a[key] ?? null, b[key] ?? null];
      if (x === null || y === null) return (x === null) - (y === null); // what has no value is last
      return sign * (typeof x === "number" ? x - y : x.localeCompare(y, undefined, { numeric: true }));
    });
  }

  show() {
    const rows = this.rows();
    this.table.tBodies[0].replaceChildren(...rows.map((row) => this.line(row)));
    const all = this.data.cases.length;
    document.getElementById("amount").textContent = rows.length === all ? `${all} in all` : `${rows.length} of ${all}`;
  }

  line(row) {
    const cells = this.columns.slice(1).map((column) => {
      const text = column.digits === undefined ? row[column.key] || "–" : shownNumber(row[column.key], column.digits);
      const missed = column.key === "dice" && row.missed;
      return element("td", { class: column.digits === undefined ? "" : "n" }, text, missed ? element("span", { class: "flag" }, " missed") : null);
    });
    const chosen = row === this.current;
    const mark = row.predicted ? null : element("span", { class: "muted" }, " not predicted");
    const button = element("button", { type: "button", ...(chosen ? { "aria-current": "true" } : {}), onclick: () => this.choose(row) }, row.case);
    return element("tr", { class: chosen ? "chosen" : "" }, element("th", { scope: "row" }, button, mark), ...cells);
  }

  mark(row) {
    this.current = row;
    this.show();
    // Only the table scrolls: on a narrow screen the page stays with the pictures.
    const line = this.table.querySelector("tr.chosen"), box = this.table.parentElement;
    if (!line) return;
    const top = line.offsetTop - this.table.tHead.offsetHeight, bottom = line.offsetTop + line.offsetHeight;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
  }

  beside(step) {
    const rows = this.rows();
    const at = rows.indexOf(this.current);
    return rows[at < 0 ? 0 : (at + step + rows.length) % rows.length];
  }
}

// A line for each overlay: on or off, how opaque, and what its colours mean.
function showLayers(state, changed) {
  const there = state.volumes?.volumes ?? {};
  const lines = LAYERS.map(({ key, name, letter, colour, needs }) => {
    const missing = !(needs ?? [key]).every((each) => there[each]);
    const layer = state.layers[key];
    const box = element("input", { type: "checkbox", id: `layer-${key}`, checked: layer.on, disabled: missing });
    box.addEventListener("change", () => { layer.on = box.checked; changed(); });
    const opacity = element("input", { type: "range", min: "0.1", max: "1", step: "0.05", value: layer.opacity, disabled: missing, "aria-label": `Opacity of ${name.toLowerCase()}` });
    opacity.addEventListener("input", () => { layer.opacity = Number(opacity.value); changed(); });
    const label = element("label", { for: `layer-${key}` }, colour ? swatch(colour) : null, name, " ", element("kbd", {}, letter));
    const line = element("div", { class: missing ? "layer missing" : "layer" }, box, label, missing ? element("span", { class: "muted" }, "none") : opacity);
    return [line, missing || !layer.on ? null : meaning(key, there, state.volumes.classes.length)];
  });
  document.getElementById("layers").replaceChildren(...lines.flat().filter(Boolean));
}

function meaning(key, volumes, classes) {
  if (key === "errors") {
    const kinds = [["extra", "too much"], ["missing", "missing"], ...(classes > 1 ? [["swapped", "other class"]] : [])];
    return element("p", { class: "meaning" }, ...kinds.flatMap(([kind, name]) => [swatch(ERRORS[kind]), `${name}  `]));
  }
  if (key !== "disagreement" && key !== "entropy") return null;
  const stops = HEAT.map((colour) => css(colour)).join(", ");
  const bar = element("span", { class: "ramp", "aria-hidden": "true" });
  bar.style.background = `linear-gradient(90deg, ${stops})`;
  return element("p", { class: "meaning" }, "0", bar, short(volumes[key].step * 255));
}

// The structures by name, each with its volumes; unticked ones are hidden in all views.
function showClasses(state, changed) {
  const { classes, spacing, shape, oriented } = state.volumes;
  const volume = (spacing[0] * spacing[1] * spacing[2]) / 1000;
  const unit = shape.includes(1) ? "px" : "voxels";
  const lines = classes.map(({ name }, k) => {
    const box = element("input", { type: "checkbox", id: `class-${k}`, checked: !state.hidden.has(k + 1) });
    box.addEventListener("change", () => { state.hidden[box.checked ? "delete" : "add"](k + 1); changed(true); });
    const sizes = ["truth", "prediction"].filter((key) => state.counts[key]).map((key) => {
      const voxels = state.counts[key].voxels[k + 1];
      return element("span", { class: "size", title: `${key}` }, swatch(COLOURS[key]), shape.includes(1) || !oriented ? `${voxels} ${unit}` : `${short(voxels * volume)} ml`);
    });
    const label = element("label", { for: `class-${k}` }, state.byClass ? swatch(classColour(k + 1)) : null, name);
    return element("div", { class: "layer" }, box, label, element("span", { class: "sizes" }, ...sizes));
  });
  document.getElementById("classes").replaceChildren(...lines);
  document.getElementById("classed").hidden = classes.length < 2;
}

function showValues(state) {
  const { shape, spacing, classes, volumes } = state.volumes;
  const index = indexOf(shape, state.place);
  const named = (key) => (volumes[key].levels[index] ? classes[volumes[key].levels[index] - 1].name : "background");
  const rows = [["Voxel", state.place.map((k) => k + 1).join(", ")], ...(state.volumes.oriented ? [["From the corner, mm", state.place.map((k, axis) => short((k + 0.5) * spacing[axis])).join(", ")]] : [])];
  rows.push(["Intensity", short(valueAt(volumes[state.channel], index))]);
  for (const { key, name, needs } of LAYERS) {
    if (needs || !volumes[key]) continue;
    rows.push([name, key in COLOURS ? named(key) : short(valueAt(volumes[key], index))]);
  }
  document.getElementById("values").replaceChildren(...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

function showScores(row, units) {
  document.getElementById("scored").hidden = !row.scores.length;
  const head = element("tr", {}, ...["Class", "Dice %", `HD95 ${units}`].map((name, k) => element("th", { scope: "col", class: k ? "n" : "" }, name)));
  const lines = row.scores.map((score) => element("tr", {}, element("th", { scope: "row" }, score.name), element("td", { class: "n" }, shownNumber(score.dice), score.missed ? element("span", { class: "flag" }, " missed") : null), element("td", { class: "n" }, shownNumber(score.hd95))));
  document.getElementById("scores").replaceChildren(element("thead", {}, head), element("tbody", {}, ...lines));
}

function showNotes(notes) {
  const box = document.getElementById("notes");
  box.hidden = !notes.length;
  box.querySelector("summary").textContent = notes.length === 1 ? "1 note" : `${notes.length} notes`;
  box.querySelector("ul").replaceChildren(...notes.map((note) => element("li", {}, note)));
}
