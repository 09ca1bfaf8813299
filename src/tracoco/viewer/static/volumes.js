// Reads the volumes of a case, from this page or from the local server.

const TYPES = { 8: Uint8Array, 16: Uint16Array };

async function unpacked(text) {
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < characters.length; i++) bytes[i] = characters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

async function asked(address) {
  const answer = await fetch(address, { cache: "no-store" });
  if (answer.ok) return answer;
  const problem = answer.status === 422 ? (await answer.json()).error : `the server says ${answer.status}`;
  throw new Error(problem);
}

// The case with its volumes: typed arrays with x fastest, and what their levels mean.
async function readCase(row) {
  const about = row.volumes ?? (await (await asked(`case/${row.key}`)).json());
  const volumes = {};
  for (const [name, told] of Object.entries(about.volumes)) {
    const embedded = document.querySelector(`script[data-volume="${row.key}/${name}"]`);
    const buffer = embedded
      ? await unpacked(embedded.textContent)
      : await (await asked(`case/${row.key}/${name}`)).arrayBuffer();
    volumes[name] = { ...told, levels: new TYPES[told.bits](buffer) };
  }
  return { ...about, volumes };
}

function indexOf(shape, place) {
  return place[0] + shape[0] * (place[1] + shape[1] * place[2]);
}

function valueAt(volume, index) {
  return volume.low + volume.levels[index] * volume.step;
}

// Voxels of each class in a label volume, and how many of them are on each slice along each axis.
function counted(shape, levels, classes, ignored) {
  const voxels = new Float64Array(classes + 1);
  const slices = shape.map((size) => new Float64Array(size));
  const centre = [0, 0, 0];
  let found = 0;
  for (let z = 0, i = 0; z < shape[2]; z++)
    for (let y = 0; y < shape[1]; y++)
      for (let x = 0; x < shape[0]; x++, i++) {
        const label = levels[i];
        if (!label) continue;
        voxels[label]++;
        if (label === ignored) continue;
        slices[0][x]++;
        slices[1][y]++;
        slices[2][z]++;
        found++;
      }
  // The slice with most of the structure shows it, even where its centre of mass lies outside.
  if (found) for (let axis = 0; axis < 3; axis++) centre[axis] = slices[axis].indexOf(Math.max(...slices[axis]));
  return { voxels, slices, centre, found };
}
