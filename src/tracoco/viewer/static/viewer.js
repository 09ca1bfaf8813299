// The state of the page, and what mouse and keys do to it.

const data = JSON.parse(document.getElementById("data").textContent);
const by = (id) => document.getElementById(id);
const layer = (on, opacity) => ({ on, opacity });
const state = {
  row: null, volumes: null, counts: {}, place: [0, 0, 0], centre: [0, 0, 0], zoom: 1, ratio: 1,
  channel: "image0", window: [0, 1], usual: [0, 1], smooth: true, crosshair: true, filled: false, byClass: false,
  hidden: new Set(), active: "axial", enlarged: null, brightest: false,
  layers: { truth: layer(true, 1), prediction: layer(true, 1), errors: layer(false, 0.6), disagreement: layer(false, 0.7), entropy: layer(false, 0.7) },
};
const panes = Object.fromEntries([...document.querySelectorAll(".pane")].map((pane) => [pane.dataset.pane, { pane, canvas: pane.querySelector("canvas") }]));
const surface = new Surface(panes.space.canvas);
const list = new CaseList(data, (row) => show(row));
let due = false, stale = true, coarse = 0, turn = 0;

function redraw() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => { due = false; draw(); });
}

function draw() {
  if (!state.volumes) return;
  state.ratio = window.devicePixelRatio || 1;
  for (const [name, { pane, canvas }] of Object.entries(panes)) {
    if (pane.hidden || !pane.clientWidth) continue;
    const detail = name === "space" ? Math.min(1, 420 / pane.clientWidth) * (coarse ? 0.5 : 1) : 1;
    const size = [pane.clientWidth, pane.clientHeight].map((side) => Math.max(1, Math.round(side * state.ratio * detail)));
    if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
    if (name !== "space") drawPlane(state, name, canvas);
    else drawSpace();
  }
  showValues(state);
}

function drawSpace() {
  if (stale) surface.load(state, state.brightest);
  stale = false;
  surface.draw(state);
  const empty = by("empty");
  empty.hidden = surface.ready && Boolean(surface.gl);
  empty.textContent = surface.gl ? "No structure to show" : "3D needs WebGL 2, which this browser does not offer";
  const { right, up, toward } = surface.axes();
  const letters = [["R", 0, 1], ["L", 0, -1], ["A", 1, 1], ["P", 1, -1], ["S", 2, 1], ["I", 2, -1]];
  const shown = surface.ready && state.volumes.oriented ? letters : [];
  by("letters").replaceChildren(...shown.map(([letter, axis, sign]) => {
    const made = element("span", {}, letter);
    made.style.left = `${50 + 42 * sign * right[axis]}%`;
    made.style.top = `${50 - 42 * sign * up[axis]}%`;
    made.style.opacity = sign * toward[axis] > 0.05 ? 1 : 0.45;
    return made;
  }));
}

function changed(again = false) {
  if (again) stale = true;
  showLayers(state, changed);
  showClasses(state, changed);
  redraw();
}

function say(text, bad = false) {
  const status = by("status");
  status.hidden = !text;
  status.textContent = text;
  status.classList.toggle("bad", bad);
}

async function show(row) {
  const asked = ++turn;
  list.mark(row);
  say(`Reading ${row.case} …`);
  try {
    const volumes = await readCase(row);
    if (asked !== turn) return; // another case was chosen meanwhile
    take(row, volumes);
    say(volumes.problems.join("; "), true);
  } catch (error) {
    if (asked === turn) say(`${row.case}: ${error.message}`, true);
  }
}

function take(row, volumes) {
  const { shape, spacing } = volumes;
  state.row = row;
  state.volumes = volumes;
  state.hidden = new Set(volumes.ignored ? [volumes.ignored] : []);
  state.counts = {};
  for (const key of ["truth", "prediction"])
    if (volumes.volumes[key]) state.counts[key] = counted(shape, volumes.volumes[key].levels, volumes.classes.length, volumes.ignored);
  if (!volumes.volumes[state.channel]) state.channel = "image0";
  state.usual = volumes.window;
  state.zoom = 1;
  goToStructure();
  state.centre = shape.map((n, axis) => (n * spacing[axis]) / 2);
  const flat = shape.map((n) => n === 1);
  for (const [name, { pane }] of Object.entries(panes)) {
    const plane = PLANES[name];
    pane.hidden = flat.includes(true) && (!plane || flat[plane.across] || flat[plane.up]);
  }
  if (panes[state.active].pane.hidden) state.active = Object.keys(PLANES).find((name) => !panes[name].pane.hidden);
  by("panes").classList.toggle("flat", flat.includes(true));
  const size = `${shape.filter((n) => n > 1).join(" × ")} voxels`;
  const titles = [row.part, row.source, volumes.oriented ? `${size} of ${spacing.filter((_, k) => !flat[k]).map(short).join(" × ")} mm` : size];
  if (volumes.factor.some((k) => k > 1)) titles.push(`reduced by ${volumes.factor.join(" × ")}`);
  if (!volumes.oriented) titles.push("the file gives no orientation and no voxel size");
  if (!row.predicted) titles.push("no prediction");
  if (!row.labelled) titles.push("no label");
  by("name").textContent = row.case;
  by("about").textContent = titles.filter(Boolean).join(" · ");
  document.title = `${row.case} · ${data.title}`;
  showScores(row, data.units);
  showChannels();
  state.window = [...state.usual];
  enlarge(state.enlarged);
  windowChanged();
  changed(true);
  showPlace();
}

function goToStructure() {
  const found = [state.counts.truth, state.counts.prediction].find((counts) => counts?.found);
  state.place = found ? [...found.centre] : state.volumes.shape.map((n) => n >> 1);
}

function showChannels() {
  const channels = Object.keys(state.volumes.volumes).filter((name) => name.startsWith("image"));
  by("channelled").hidden = channels.length < 2;
  by("channel").replaceChildren(...channels.map((name, k) => element("option", { value: name, selected: name === state.channel }, String(k + 1))));
  const volume = state.volumes.volumes[state.channel];
  const top = volume.levels.reduce((a, b) => (a > b ? a : b), 0);
  const full = [volume.low, volume.low + top * volume.step];
  // Hounsfield units begin at about -1000; other scans have presets that mean nothing.
  const presets = [["usual", state.usual], ["all intensities", full]];
  if (full[0] <= -500 && full[1] >= 200) presets.push(["soft tissue", [-160, 240]], ["lung", [-1350, 150]], ["bone", [-500, 1300]]);
  by("preset").replaceChildren(element("option", { value: "" }, "own"), ...presets.map(([name, [low, high]]) => element("option", { value: `${low} ${high}` }, name)));
}

function windowChanged() {
  const [low, high] = state.window;
  by("centre").value = short((low + high) / 2);
  by("width").value = short(high - low);
  const own = `${low} ${high}`;
  by("preset").value = [...by("preset").options].some((option) => option.value === own) ? own : "";
  if (state.brightest) stale = true;
  redraw();
}

function setWindow(centre, width) {
  const least = Math.max(1e-6, (state.usual[1] - state.usual[0]) / 1000);
  const half = Math.max(least, width) / 2;
  state.window = [centre - half, centre + half];
  windowChanged();
}

function showPlace() {
  for (const [name, plane] of Object.entries(PLANES)) {
    const { canvas } = panes[name], size = state.volumes.shape[plane.through];
    canvas.setAttribute("aria-valuemax", size);
    canvas.setAttribute("aria-valuenow", state.place[plane.through] + 1);
    canvas.setAttribute("aria-valuetext", `slice ${state.place[plane.through] + 1} of ${size}`);
  }
  redraw();
}

function scroll(name, step) {
  const axis = PLANES[name].through;
  state.place[axis] = Math.min(state.volumes.shape[axis] - 1, Math.max(0, state.place[axis] + step));
  showPlace();
}

function activate(name) {
  if (panes[name].pane.hidden) return;
  state.active = name;
  for (const [each, { pane }] of Object.entries(panes)) pane.classList.toggle("active", each === name);
  if (state.enlarged && state.enlarged !== name) enlarge(name);
}

function enlarge(name) {
  state.enlarged = name && !panes[name].pane.hidden ? name : null;
  by("panes").classList.toggle("one", Boolean(state.enlarged));
  for (const [each, { pane }] of Object.entries(panes)) {
    pane.classList.toggle("large", each === state.enlarged);
    pane.querySelector(".enlarge").setAttribute("aria-pressed", each === state.enlarged);
  }
  activate(state.active);
  redraw();
}

function zoom(factor, centre = null) {
  state.zoom = Math.min(20, Math.max(1, state.zoom * factor));
  if (centre) state.centre = centre;
  if (state.zoom === 1) state.centre = state.volumes.shape.map((n, axis) => (n * state.volumes.spacing[axis]) / 2);
  redraw();
}

// Zoom so that what is under the pointer stays there.
function zoomAt(name, factor, x, y) {
  const plane = PLANES[name], { canvas } = panes[name], { shape, spacing } = state.volumes;
  const before = layout(state, plane, canvas.width, canvas.height);
  const across = (x - before.left) / before.scale, down = (y - before.top) / before.scale;
  state.zoom = Math.min(20, Math.max(1, state.zoom * factor));
  if (state.zoom === 1) return zoom(1);
  const after = layout(state, plane, canvas.width, canvas.height);
  const sideways = across - (x - after.left) / after.scale, downwards = down - (y - after.top) / after.scale;
  state.centre[plane.across] += plane.flip ? -sideways : sideways;
  state.centre[plane.up] -= downwards;
  state.centre = state.centre.map((mm, axis) => Math.min(shape[axis] * spacing[axis], Math.max(0, mm)));
  redraw();
}

function pointOn(canvas, event) {
  const box = canvas.getBoundingClientRect();
  return [((event.clientX - box.left) * canvas.width) / box.width, ((event.clientY - box.top) * canvas.height) / box.height];
}

function turned(sideways, upwards) {
  surface.azimuth += sideways;
  surface.elevation = Math.min(1.5, Math.max(-1.5, surface.elevation + upwards));
  redraw();
}

function dragged(name, canvas, kind, event, last) {
  const moved = [event.clientX - last[0], event.clientY - last[1]];
  if (name === "space") return turned(moved[0] * 0.01, moved[1] * 0.01);
  if (kind === "window") {
    const [low, high] = state.window, unit = (state.usual[1] - state.usual[0]) / 250;
    return setWindow((low + high) / 2 - moved[1] * unit, high - low + moved[0] * unit);
  }
  const plane = PLANES[name];
  if (kind === "move") {
    const { scale } = layout(state, plane, canvas.width, canvas.height);
    state.centre[plane.across] += ((plane.flip ? 1 : -1) * moved[0] * state.ratio) / scale;
    state.centre[plane.up] += (moved[1] * state.ratio) / scale;
    return redraw();
  }
  const [x, y] = pointOn(canvas, event);
  if (kind === "bar") {
    const size = state.volumes.shape[plane.through];
    state.place[plane.through] = Math.min(size - 1, Math.max(0, Math.floor((1 - y / canvas.height) * size)));
  } else state.place = voxelAt(state, name, canvas, x, y);
  showPlace();
}

for (const [name, { pane, canvas }] of Object.entries(panes)) {
  let kind = null, last = [0, 0];
  canvas.addEventListener("pointerdown", (event) => {
    if (!state.volumes) return;
    activate(name);
    canvas.setPointerCapture(event.pointerId);
    const onBar = name !== "space" && pointOn(canvas, event)[0] > canvas.width - BAR * state.ratio;
    kind = event.button === 1 ? "move" : event.button === 2 || event.shiftKey ? "window" : onBar ? "bar" : "place";
    last = [event.clientX, event.clientY];
    coarse = name === "space" ? 1 : 0;
    if (event.button === 1) event.preventDefault();
    dragged(name, canvas, kind, event, last);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!kind) return;
    dragged(name, canvas, kind, event, last);
    last = [event.clientX, event.clientY];
  });
  const end = () => { kind = null; if (coarse) { coarse = 0; redraw(); } };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("focus", () => activate(name));
  canvas.addEventListener("dblclick", () => enlarge(state.enlarged ? null : name));
  canvas.addEventListener("wheel", (event) => {
    if (!state.volumes) return;
    event.preventDefault();
    const forth = event.deltaY > 0;
    if (name === "space") { surface.zoom = Math.min(6, Math.max(0.5, surface.zoom * (forth ? 0.9 : 1.11))); redraw(); }
    else if (event.ctrlKey || event.metaKey) zoomAt(name, forth ? 1 / 1.15 : 1.15, ...pointOn(canvas, event));
    else scroll(name, (forth ? -1 : 1) * (event.shiftKey ? 10 : 1));
  }, { passive: false });
  pane.querySelector(".enlarge").addEventListener("click", () => { activate(name); enlarge(state.enlarged === name ? null : name); });
}

let hidden = null; // which overlays H has hidden
function toggleAll() {
  const shown = Object.keys(state.layers).filter((key) => state.layers[key].on);
  if (shown.length) hidden = shown;
  for (const key of Object.keys(state.layers)) state.layers[key].on = !shown.length && (hidden ?? ["truth", "prediction"]).includes(key);
  changed();
}

function toggle(key) {
  state.layers[key].on = !state.layers[key].on;
  changed();
}

function arrow(key, large) {
  const forth = key === "ArrowUp" || key === "ArrowRight" ? 1 : -1;
  if (state.active !== "space") return scroll(state.active, forth * (large ? 10 : 1));
  return key === "ArrowUp" || key === "ArrowDown" ? turned(0, 0.1 * forth) : turned(0.1 * forth, 0);
}

function step(by) {
  const row = list.beside(by);
  if (row && row !== state.row) show(row);
}

function ticked(id, key, again = false) {
  by(id).addEventListener("change", () => { state[key] = by(id).checked; changed(again); });
}

function flip(id) {
  if (!by(id).parentElement.hidden) by(id).click();
}

const ACTIONS = {
  // By the key in lower case.
  1: () => activate("axial"), 2: () => activate("sagittal"), 3: () => activate("coronal"), 4: () => activate("space"),
  j: () => step(1), k: () => step(-1), pagedown: () => step(1), pageup: () => step(-1),
  t: () => toggle("truth"), p: () => toggle("prediction"), e: () => toggle("errors"), d: () => toggle("disagreement"), n: () => toggle("entropy"),
  h: toggleAll, o: () => flip("filled"), l: () => flip("by-class"), x: () => flip("crosshair"),
  c: () => { goToStructure(); showPlace(); }, w: () => { state.window = [...state.usual]; windowChanged(); },
  f: () => enlarge(state.enlarged ? null : state.active), escape: () => enlarge(null),
  "+": () => zoom(1.25, crosshairMm()), "=": () => zoom(1.25, crosshairMm()), "-": () => zoom(0.8), 0: () => zoom(0),
  "?": () => by("help").showModal(),
};

function crosshairMm() {
  return state.place.map((k, axis) => (k + 0.5) * state.volumes.spacing[axis]);
}

document.addEventListener("keydown", (event) => {
  const typing = by("help").open || event.target.closest("input:not([type=checkbox]), select, .scroll");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !state.volumes) return;
  const key = event.key.toLowerCase();
  if (event.key.startsWith("Arrow")) arrow(event.key, event.shiftKey);
  else if (Object.hasOwn(ACTIONS, key)) ACTIONS[key]();
  else return;
  event.preventDefault();
});

ticked("filled", "filled");
ticked("by-class", "byClass");
ticked("crosshair", "crosshair");
ticked("smooth", "smooth");
by("space").addEventListener("change", () => { state.brightest = by("space").value === "brightest"; changed(true); });
by("centre").addEventListener("change", () => setWindow(Number(by("centre").value), Number(by("width").value)));
by("width").addEventListener("change", () => setWindow(Number(by("centre").value), Number(by("width").value)));
by("preset").addEventListener("change", () => {
  if (!by("preset").value) return;
  state.window = by("preset").value.split(" ").map(Number);
  windowChanged();
});
by("channel").addEventListener("change", () => {
  state.channel = by("channel").value;
  const volume = state.volumes.volumes[state.channel];
  if (state.channel !== "image0") {
    const sorted = volume.levels.filter((_, k) => k % 97 === 0).sort();
    state.usual = [0.01, 0.99].map((part) => volume.low + sorted[Math.floor(part * (sorted.length - 1))] * volume.step);
  } else state.usual = state.volumes.window;
  showChannels();
  state.window = [...state.usual];
  windowChanged();
  changed(true);
});
by("next").addEventListener("click", () => step(1));
by("previous").addEventListener("click", () => step(-1));
by("ask").addEventListener("click", () => by("help").showModal());
new ResizeObserver(redraw).observe(by("panes"));
showKeys();
showNotes(data.notes);
showLayers(state, changed);
activate("axial");
// The worst case first, where there are scores: it is the one to look at.
const worst = data.cases.filter((row) => row.dice !== null).sort((a, b) => b.missed - a.missed || a.dice - b.dice)[0];
if (worst ?? data.cases[0]) show(worst ?? data.cases[0]);
