// Draws slices. Axes of a volume are right, front, up (RAS+); a viewer faces the patient, whose
// right is on the left of the picture.

const PLANES = {
  axial: { across: 0, up: 1, through: 2, flip: true, edges: ["R", "L", "P", "A"] },
  coronal: { across: 0, up: 2, through: 1, flip: true, edges: ["R", "L", "I", "S"] },
  sagittal: { across: 1, up: 2, through: 0, flip: false, edges: ["P", "A", "I", "S"] },
};
const COLOURS = { truth: [86, 180, 233], prediction: [255, 166, 0] };
const ERRORS = { extra: [255, 84, 104], missing: [70, 214, 190], swapped: [250, 226, 90] };
const CLASSES = [
  [102, 194, 255], [255, 166, 0], [92, 214, 140], [232, 120, 200], [240, 228, 66],
  [150, 140, 255], [255, 120, 90], [120, 220, 220], [200, 170, 120], [190, 220, 90],
];
// Dark to bright, readable without colour too.
const HEAT = [[40, 11, 84], [101, 21, 110], [159, 42, 99], [212, 72, 66], [245, 125, 21], [250, 193, 39], [252, 255, 164]];
const BAR = 12; // width of the strip that shows where along the axis the structures are

function classColour(number) {
  return CLASSES[(number - 1) % CLASSES.length];
}

function css([r, g, b], alpha = 1) {
  return `rgba(${r},${g},${b},${alpha})`;
}

function heat(fraction) {
  const at = Math.min(1, Math.max(0, fraction)) * (HEAT.length - 1);
  const low = Math.min(HEAT.length - 2, Math.floor(at));
  return HEAT[low].map((c, k) => Math.round(c + (HEAT[low + 1][k] - c) * (at - low)));
}

// The levels of a slice as a picture [rows from the top, columns from the left].
function cut(levels, shape, plane, slice) {
  const { across, up, through, flip } = plane;
  const strides = [1, shape[0], shape[0] * shape[1]];
  const width = shape[across], height = shape[up];
  const found = new levels.constructor(width * height);
  for (let row = 0, i = 0; row < height; row++) {
    const start = slice * strides[through] + (height - 1 - row) * strides[up];
    for (let column = 0; column < width; column++, i++)
      found[i] = levels[start + (flip ? width - 1 - column : column) * strides[across]];
  }
  return { levels: found, width, height };
}

function painted(picture, colour) {
  const canvas = new OffscreenCanvas(picture.width, picture.height);
  const context = canvas.getContext("2d");
  const image = context.createImageData(picture.width, picture.height);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; i++) pixels[i] = colour[picture.levels[i]];
  context.putImageData(image, 0, 0);
  return canvas;
}

function packed([r, g, b], alpha) {
  return ((Math.round(alpha * 255) << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

function greys(volume, [low, high], levels) {
  const table = new Uint32Array(levels);
  for (let level = 0; level < levels; level++) {
    const value = volume.low + level * volume.step;
    const grey = Math.round(255 * Math.min(1, Math.max(0, (value - low) / (high - low || 1))));
    table[level] = packed([grey, grey, grey], 1);
  }
  return table;
}

// For each class its outline through the middles of pixel edges, with corners cut.
function outlines(picture, shown) {
  const { levels, width, height } = picture;
  const paths = new Map();
  const at = (x, y) => (x < 0 || y < 0 || x >= width || y >= height ? 0 : levels[y * width + x]);
  for (let y = -1; y < height; y++)
    for (let x = -1; x < width; x++) {
      const corners = [at(x, y), at(x + 1, y), at(x + 1, y + 1), at(x, y + 1)];
      if (corners[0] === corners[1] && corners[1] === corners[2] && corners[2] === corners[3]) continue;
      const middles = [[x + 1, y + 0.5], [x + 1.5, y + 1], [x + 1, y + 1.5], [x + 0.5, y + 1]];
      for (const label of new Set(corners)) {
        if (!label || !shown(label)) continue;
        if (!paths.has(label)) paths.set(label, new Path2D());
        const path = paths.get(label);
        const edges = [0, 1, 2, 3].filter((k) => (corners[k] === label) !== (corners[(k + 1) % 4] === label));
        for (let k = 0; k + 1 < edges.length; k += 2) {
          path.moveTo(...middles[edges[k]]);
          path.lineTo(...middles[edges[k + 1]]);
        }
      }
    }
  return paths;
}

function errorColours(alpha) {
  return { extra: packed(ERRORS.extra, alpha), missing: packed(ERRORS.missing, alpha), swapped: packed(ERRORS.swapped, alpha) };
}

// The prediction against the truth, voxel by voxel, as a picture of colours.
function errorPicture(truth, prediction, shown, ignored, alpha) {
  const colour = errorColours(alpha);
  const canvas = new OffscreenCanvas(truth.width, truth.height);
  const context = canvas.getContext("2d");
  const image = context.createImageData(truth.width, truth.height);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; i++) {
    if (ignored && truth.levels[i] === ignored) continue; // nobody knows what is right here
    const t = shown(truth.levels[i]) ? truth.levels[i] : 0;
    const p = shown(prediction.levels[i]) ? prediction.levels[i] : 0;
    if (t !== p) pixels[i] = t ? (p ? colour.swapped : colour.missing) : colour.extra;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

// Where a slice lies on its canvas: pixels of the canvas a millimetre, and of its top left corner.
// Views that are seen together have one scale, so that lengths can be compared.
function layout(state, plane, width, height) {
  const { shape, spacing } = state.volumes;
  const sizes = (each) => [shape[each.across] * spacing[each.across], shape[each.up] * spacing[each.up]];
  const fits = (each) => Math.min((width - BAR * state.ratio) / sizes(each)[0], height / sizes(each)[1]);
  const together = state.enlarged || shape.includes(1) ? [plane] : Object.values(PLANES);
  const scale = Math.min(...together.map(fits)) * 0.96 * state.zoom;
  const size = sizes(plane);
  const centre = [state.centre[plane.across], state.centre[plane.up]];
  const across = plane.flip ? size[0] - centre[0] : centre[0];
  const left = (width - BAR * state.ratio) / 2 - across * scale;
  const top = height / 2 - (size[1] - centre[1]) * scale;
  return { scale, left, top, size };
}

// The voxel under a point of the canvas.
function voxelAt(state, name, canvas, x, y) {
  const plane = PLANES[name];
  const { shape, spacing } = state.volumes;
  const { scale, left, top, size } = layout(state, plane, canvas.width, canvas.height);
  const place = [...state.place];
  const across = (x - left) / scale, up = size[1] - (y - top) / scale;
  const mm = plane.flip ? size[0] - across : across;
  const within = (value, axis) => Math.min(shape[axis] - 1, Math.max(0, Math.floor(value / spacing[axis])));
  place[plane.across] = within(mm, plane.across);
  place[plane.up] = within(up, plane.up);
  return place;
}

function drawPlane(state, name, canvas) {
  const plane = PLANES[name];
  const context = canvas.getContext("2d");
  const { shape, spacing, volumes } = state.volumes;
  const slice = state.place[plane.through];
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.fillStyle = "#0d0f12";
  context.fillRect(0, 0, canvas.width, canvas.height);
  const { scale, left, top } = layout(state, plane, canvas.width, canvas.height);
  const pixel = [spacing[plane.across] * scale, spacing[plane.up] * scale];
  const put = (picture, smooth) => {
    context.imageSmoothingEnabled = smooth;
    context.imageSmoothingQuality = "high";
    context.drawImage(picture, left, top, picture.width * pixel[0], picture.height * pixel[1]);
  };
  const slices = {};
  const sliceOf = (key) => (slices[key] ??= cut(volumes[key].levels, shape, plane, slice));
  const image = volumes[state.channel];
  put(painted(sliceOf(state.channel), greys(image, state.window, image.bits === 8 ? 256 : 65536)), state.smooth);
  const visible = (label) => label > 0 && !state.hidden.has(label);
  for (const key of ["disagreement", "entropy"]) {
    const { on, opacity } = state.layers[key];
    if (!on || !volumes[key]) continue;
    const colour = new Uint32Array(256);
    for (let level = 1; level < 256; level++) colour[level] = packed(heat(level / 255), opacity * Math.min(1, level / 64));
    put(painted(sliceOf(key), colour), true);
  }
  const { errors } = state.layers;
  if (errors.on && volumes.truth && volumes.prediction)
    put(errorPicture(sliceOf("truth"), sliceOf("prediction"), visible, state.volumes.ignored, errors.opacity), false);
  for (const key of ["truth", "prediction"]) {
    const { on, opacity } = state.layers[key];
    if (!on || !volumes[key]) continue;
    const picture = sliceOf(key);
    if (state.filled) {
      const colour = new Uint32Array(256);
      for (let label = 1; label < 256; label++) {
        const chosen = state.byClass ? classColour(label) : COLOURS[key];
        colour[label] = visible(label) ? packed(chosen, opacity * 0.45) : 0;
      }
      put(painted(picture, colour), false);
    }
    drawOutlines(context, picture, key, { left, top, pixel, visible, opacity, state });
  }
  drawFurniture(state, name, canvas, { left, top, scale, pixel });
}

function drawOutlines(context, picture, key, { left, top, pixel, visible, opacity, state }) {
  const ratio = state.ratio;
  for (const [label, path] of outlines(picture, visible)) {
    const placed = new Path2D();
    placed.addPath(path, new DOMMatrix([pixel[0], 0, 0, pixel[1], left, top]));
    context.lineCap = "round";
    context.globalAlpha = opacity;
    context.lineWidth = (key === "truth" ? 2.6 : 1.5) * ratio;
    // By class the two are told apart by the line: the prediction has a dark rim.
    if (state.byClass && key === "prediction") {
      context.strokeStyle = "rgba(0,0,0,.75)";
      context.lineWidth = 3.2 * ratio;
      context.stroke(placed);
      context.lineWidth = 1.5 * ratio;
    }
    context.strokeStyle = css(state.byClass ? classColour(label) : COLOURS[key]);
    context.stroke(placed);
    context.globalAlpha = 1;
  }
}

function write(context, text, x, y, align, baseline, ratio) {
  context.font = `${12 * ratio}px system-ui, sans-serif`;
  context.textAlign = align;
  context.textBaseline = baseline;
  context.lineWidth = 3 * ratio;
  context.strokeStyle = "rgba(8,10,12,.85)";
  context.lineJoin = "round";
  context.strokeText(text, x, y);
  context.fillStyle = "#d5dbe3";
  context.fillText(text, x, y);
}

// Crosshair, letters, name and position of the slice, a scale, and the strip beside it.
function drawFurniture(state, name, canvas, { left, top, scale, pixel }) {
  const plane = PLANES[name];
  const context = canvas.getContext("2d");
  const { shape, spacing, oriented } = state.volumes;
  const ratio = state.ratio, room = canvas.width - BAR * ratio;
  const column = plane.flip ? shape[plane.across] - 1 - state.place[plane.across] : state.place[plane.across];
  const x = left + (column + 0.5) * pixel[0];
  const y = top + (shape[plane.up] - 0.5 - state.place[plane.up]) * pixel[1];
  if (state.crosshair) {
    const gap = 9 * ratio;
    context.strokeStyle = "rgba(150,220,255,.5)";
    context.lineWidth = ratio;
    context.beginPath();
    for (const [a, b, c, d] of [[0, y, x - gap, y], [x + gap, y, room, y], [x, 0, x, y - gap], [x, y + gap, x, canvas.height]]) {
      context.moveTo(a, b);
      context.lineTo(c, d);
    }
    context.stroke();
  }
  if (oriented) {
    const [l, r, b, t] = plane.edges;
    write(context, l, 6 * ratio, canvas.height / 2, "left", "middle", ratio);
    write(context, r, room - 6 * ratio, canvas.height / 2, "right", "middle", ratio);
    write(context, b, room / 2, canvas.height - 6 * ratio, "center", "bottom", ratio);
    write(context, t, room / 2, (room < 300 * ratio ? 24 : 6) * ratio, "center", "top", ratio); // below the title
  }
  const slice = state.place[plane.through];
  const title = oriented ? name : `axis ${plane.through + 1}`;
  write(context, `${title}  ${slice + 1} / ${shape[plane.through]}`, 8 * ratio, 8 * ratio, "left", "top", ratio);
  drawScale(context, scale, canvas.height, ratio, oriented ? "mm" : "voxels");
  drawBar(state, plane, context, canvas, ratio);
}

function drawScale(context, scale, height, ratio, unit) {
  const length = [1, 2, 5, 10, 20, 50, 100, 200].findLast((mm) => mm * scale < 90 * ratio) ?? 1;
  const x = 10 * ratio, y = height - 12 * ratio;
  context.strokeStyle = "#d5dbe3";
  context.lineWidth = 2 * ratio;
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x + length * scale, y);
  context.stroke();
  write(context, `${length} ${unit}`, x, y - 4 * ratio, "left", "bottom", ratio);
}

function drawBar(state, plane, context, canvas, ratio) {
  const size = state.volumes.shape[plane.through];
  const width = BAR * ratio, x = canvas.width - width, step = canvas.height / size;
  context.fillStyle = "#1b2026";
  context.fillRect(x, 0, width, canvas.height);
  for (const [key, from] of [["truth", 0], ["prediction", 0.5]]) {
    const counts = state.counts[key]?.slices[plane.through];
    if (!counts) continue;
    context.fillStyle = css(COLOURS[key], 0.75);
    for (let k = 0; k < size; k++)
      if (counts[k]) context.fillRect(x + from * width + ratio, canvas.height - (k + 1) * step, width / 2 - 2 * ratio, Math.max(1, step + 0.5));
  }
  const y = canvas.height - (state.place[plane.through] + 0.5) * step;
  context.fillStyle = "#ffffff";
  context.fillRect(x, y - ratio, width, 2 * ratio);
}
