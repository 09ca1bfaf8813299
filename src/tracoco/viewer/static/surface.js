// 3D: surfaces of truth and prediction, or the brightest voxel along each ray, cast in WebGL2.

const MOST_SIDE = 160; // voxels along a side of the texture
const VERTEX = `#version 300 es
in vec2 corner;
out vec2 place;
void main() { place = corner; gl_Position = vec4(corner, 0.0, 1.0); }`;
const FRAGMENT = `#version 300 es
precision highp float;
precision highp sampler3D;
in vec2 place;
out vec4 colour;
uniform sampler3D soft;       // truth, prediction, grey value
uniform sampler3D numbers;    // class of truth and of prediction
uniform vec3 size;            // of the volume, its longest side being 1
uniform vec3 right, up, toward;
uniform vec2 extent;
uniform float grain;
uniform float opacity[2];
uniform vec3 tint[2];
uniform vec3 extra, missing;
uniform vec3 palette[10];
uniform bool byClass, errors, brightest;
const float EDGE = 0.42;

vec3 normalAt(vec3 p, int channel) {
  vec3 h = vec3(grain) / size;
  vec3 a = vec3(texture(soft, p + vec3(h.x, 0, 0))[channel], texture(soft, p + vec3(0, h.y, 0))[channel], texture(soft, p + vec3(0, 0, h.z))[channel]);
  vec3 b = vec3(texture(soft, p - vec3(h.x, 0, 0))[channel], texture(soft, p - vec3(0, h.y, 0))[channel], texture(soft, p - vec3(0, 0, h.z))[channel]);
  return normalize(b - a + 1e-6);
}

vec3 shaded(vec3 p, int channel, vec3 ray) {
  vec3 normal = normalAt(p, channel);
  vec3 chosen = tint[channel];
  if (byClass) {
    int label = int(texture(numbers, p - normal * grain * 1.2 / size)[channel] * 255.0 + 0.5);
    if (label > 0) chosen = palette[(label - 1) % 10];
  }
  if (errors) {
    float other = texture(soft, p - normal * grain * 1.5 / size)[1 - channel];
    chosen = other < EDGE ? (channel == 1 ? extra : missing) : vec3(0.72, 0.75, 0.8);
  }
  vec3 light = normalize(-ray + up * 0.5 - right * 0.35);
  float diffuse = max(dot(normal, light), 0.0);
  float shine = pow(max(dot(normal, normalize(light - ray)), 0.0), 24.0);
  return chosen * (0.24 + 0.76 * diffuse) + vec3(0.16) * shine;
}

void main() {
  vec3 ray = -toward;
  vec3 start = (place.x * extent.x) * right + (place.y * extent.y) * up + toward * 2.0;
  vec3 low = (-0.5 * size - start) / ray, high = (0.5 * size - start) / ray;
  vec3 near = min(low, high), far = max(low, high);
  float from = max(max(near.x, near.y), near.z), to = min(min(far.x, far.y), far.z);
  colour = vec4(0.051, 0.059, 0.071, 1.0);
  if (to <= from) return;
  vec3 sum = vec3(0);
  float left = 1.0, most = 0.0;
  vec4 before = vec4(0);
  float step = grain * 0.6;
  for (int i = 0; i < 640; i++) {
    float t = from + (float(i) + 0.5) * step;
    if (t > to || left < 0.03) break;
    vec3 p = (start + ray * t) / size + 0.5;
    vec4 now = texture(soft, p);
    if (brightest) { most = max(most, now.b); continue; }
    for (int channel = 0; channel < 2; channel++) {
      if (opacity[channel] <= 0.0 || now[channel] < EDGE || before[channel] >= EDGE) continue;
      float back = (now[channel] - EDGE) / max(now[channel] - before[channel], 1e-4);
      vec3 hit = p - ray * step * back / size;
      sum += left * opacity[channel] * shaded(hit, channel, ray);
      left *= 1.0 - opacity[channel];
    }
    before = now;
  }
  colour = brightest ? vec4(vec3(most), 1.0) : vec4(sum + left * colour.rgb, 1.0);
}`;

class Surface {
  constructor(canvas) {
    this.canvas = canvas;
    this.azimuth = 0.5;
    this.elevation = 0.3;
    this.zoom = 1;
    const gl = (this.gl = canvas.getContext("webgl2", { antialias: false, preserveDrawingBuffer: true }));
    if (!gl) return;
    const program = (this.program = gl.createProgram());
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.bindAttribLocation(program, 0, "corner");
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) {
      console.error(gl.getProgramInfoLog(program));
      this.gl = null;
      return;
    }
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([-1, -1, 1, -1, -1, 1, 1, 1]), gl.STATIC_DRAW);
    gl.enableVertexAttribArray(0);
    gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
    this.textures = [gl.createTexture(), gl.createTexture()];
  }

  // Fill the textures. Surfaces take the box around the structures, so that small ones are sharp.
  load(state, brightest) {
    const { shape, spacing, volumes } = state.volumes;
    const box = brightest ? shape.map((n) => [0, n]) : structureBox(state);
    this.ready = Boolean(this.gl && box);
    if (!this.ready) return;
    const mm = box.map(([a, b], axis) => (b - a) * spacing[axis]);
    const grain = Math.max(...mm) / MOST_SIDE;
    const size = mm.map((length, axis) => Math.max(1, Math.min(box[axis][1] - box[axis][0], Math.round(length / Math.max(grain, spacing[axis])))));
    const { soft, numbers } = sampled(state, box, size, brightest ? volumes[state.channel] : null);
    const gl = this.gl;
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    for (const [unit, data, inner, format, filter] of [[0, soft, gl.RGBA8, gl.RGBA, gl.LINEAR], [1, numbers, gl.RG8, gl.RG, gl.NEAREST]]) {
      gl.activeTexture(gl.TEXTURE0 + unit);
      gl.bindTexture(gl.TEXTURE_3D, this.textures[unit]);
      gl.texImage3D(gl.TEXTURE_3D, 0, inner, ...size, 0, format, gl.UNSIGNED_BYTE, data);
      for (const name of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_3D, name, filter);
      for (const name of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T, gl.TEXTURE_WRAP_R]) gl.texParameteri(gl.TEXTURE_3D, name, gl.CLAMP_TO_EDGE);
    }
    const longest = Math.max(...mm);
    this.size = mm.map((length) => length / longest);
    this.grain = Math.min(...this.size.map((side, axis) => side / size[axis]));
    this.brightest = brightest;
  }

  // The axes of the screen: to its right, up, and toward the viewer.
  axes() {
    const [a, e] = [this.azimuth, this.elevation];
    const toward = [Math.sin(a) * Math.cos(e), Math.cos(a) * Math.cos(e), Math.sin(e)];
    const right = [-Math.cos(a), Math.sin(a), 0];
    const up = [
      toward[1] * right[2] - toward[2] * right[1],
      toward[2] * right[0] - toward[0] * right[2],
      toward[0] * right[1] - toward[1] * right[0],
    ];
    return { right, up, toward };
  }

  draw(state) {
    const { gl, program } = this;
    if (!gl) return;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(0.051, 0.059, 0.071, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    if (!this.ready) return;
    const { right, up, toward } = this.axes();
    const half = 0.54 * Math.hypot(...this.size) / this.zoom;
    const aspect = this.canvas.width / this.canvas.height;
    gl.useProgram(program);
    const at = (name) => gl.getUniformLocation(program, name);
    const unit = (rgb) => rgb.map((c) => c / 255);
    gl.uniform1i(at("soft"), 0);
    gl.uniform1i(at("numbers"), 1);
    gl.uniform3fv(at("size"), this.size);
    gl.uniform3fv(at("right"), right);
    gl.uniform3fv(at("up"), up);
    gl.uniform3fv(at("toward"), toward);
    gl.uniform2f(at("extent"), half * Math.max(1, aspect), half * Math.max(1, 1 / aspect));
    gl.uniform1f(at("grain"), this.grain);
    gl.uniform1fv(at("opacity"), this.opacities(state));
    gl.uniform3fv(at("tint"), [...unit(COLOURS.truth), ...unit(COLOURS.prediction)]);
    gl.uniform3fv(at("extra"), unit(ERRORS.extra));
    gl.uniform3fv(at("missing"), unit(ERRORS.missing));
    gl.uniform3fv(at("palette"), CLASSES.flatMap(unit));
    gl.uniform1i(at("byClass"), state.byClass);
    gl.uniform1i(at("errors"), Boolean(state.layers.errors.on && state.volumes.volumes.truth && state.volumes.volumes.prediction));
    gl.uniform1i(at("brightest"), this.brightest);
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
  }

  // Of two surfaces the truth is seen through, else the prediction would hide inside of it.
  opacities(state) {
    const { truth, prediction } = state.volumes.volumes;
    const shown = (key, volume) => (volume && state.layers[key].on ? state.layers[key].opacity : 0);
    const both = [shown("truth", truth), shown("prediction", prediction)];
    return both[0] && both[1] ? [both[0] * 0.45, both[1]] : both;
  }
}

function structureBox(state) {
  const box = [0, 1, 2].map((axis) => {
    const used = ["truth", "prediction"].flatMap((key) => {
      const counts = state.counts[key]?.slices[axis];
      return counts ? [...counts.keys()].filter((k) => counts[k]) : [];
    });
    return used.length ? [used.reduce((a, b) => Math.min(a, b)), used.reduce((a, b) => Math.max(a, b)) + 1] : null;
  });
  if (box.includes(null)) return null;
  const { shape, spacing } = state.volumes;
  const room = 0.06 * Math.max(...box.map(([a, b], axis) => (b - a) * spacing[axis]));
  return box.map(([a, b], axis) => {
    const voxels = Math.ceil(room / spacing[axis]) + 1;
    return [a - voxels, b + voxels]; // beyond the scan there is nothing, so that surfaces close
  });
}

// Masks and grey values on the grid of the texture, means over the voxels that become one.
function sampled(state, box, size, image) {
  const { shape, volumes } = state.volumes;
  const count = size[0] * size[1] * size[2];
  const soft = new Uint8Array(count * 4), numbers = new Uint8Array(count * 2);
  const step = size.map((n, axis) => (box[axis][1] - box[axis][0]) / n);
  const { truth, prediction } = volumes;
  const [low, high] = state.window;
  const ends = (axis, k) => {
    const a = Math.floor(box[axis][0] + k * step[axis] + 1e-6);
    return [a, Math.max(a + 1, Math.floor(box[axis][0] + (k + 1) * step[axis] + 1e-6))];
  };
  const ranges = size.map((n, axis) => Array.from({ length: n }, (_, k) => ends(axis, k)));
  for (let z = 0, i = 0; z < size[2]; z++)
    for (let y = 0; y < size[1]; y++)
      for (let x = 0; x < size[0]; x++, i++) {
        let t = 0, p = 0, n = 0, grey = -Infinity;
        for (let c = ranges[2][z][0]; c < ranges[2][z][1]; c++)
          for (let b = ranges[1][y][0]; b < ranges[1][y][1]; b++)
            for (let a = ranges[0][x][0]; a < ranges[0][x][1]; a++) {
              n++;
              if (a < 0 || b < 0 || c < 0 || a >= shape[0] || b >= shape[1] || c >= shape[2]) continue;
              const index = a + shape[0] * (b + shape[1] * c);
              if (image) {
                grey = Math.max(grey, valueAt(image, index));
                continue;
              }
              const is = truth?.levels[index] ?? 0, was = prediction?.levels[index] ?? 0;
              if (is && !state.hidden.has(is)) { t++; numbers[2 * i] = is; }
              if (was && !state.hidden.has(was)) { p++; numbers[2 * i + 1] = was; }
            }
        soft[4 * i] = (255 * t) / n;
        soft[4 * i + 1] = (255 * p) / n;
        soft[4 * i + 2] = image ? 255 * Math.min(1, Math.max(0, (grey - low) / (high - low || 1))) : 0;
      }
  if (!image) for (const channel of [0, 1]) smooth(soft, size, channel);
  return { soft, numbers };
}

// Two thirds of each voxel stay, so that thin structures stay too and surfaces are not in steps.
function smooth(soft, size, channel) {
  const strides = [4, 4 * size[0], 4 * size[0] * size[1]];
  for (let axis = 0; axis < 3; axis++) {
    const [first, second] = [0, 1, 2].filter((k) => k !== axis);
    for (let b = 0; b < size[second]; b++)
      for (let a = 0; a < size[first]; a++) {
        const start = channel + a * strides[first] + b * strides[second];
        let before = 0;
        for (let k = 0, i = start; k < size[axis]; k++, i += strides[axis]) {
          const now = soft[i], after = k + 1 < size[axis] ? soft[i + strides[axis]] : 0;
          soft[i] = (before + 2 * now + after) >> 2;
          before = now;
        }
      }
  }
}
