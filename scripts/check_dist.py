"""Build the wheel and the sdist, and try them as a new user would: in an empty environment.

python scripts/check_dist.py

Everything that the package needs at run time must be in both files. The wheel is installed with
pinned versions into a new virtual environment. There the demo runs, and a small training goes from
scans to a report and to an ONNX file, which an environment without torch must predict with alike.
Then the sdist is installed in its place. `--write` puts the times of a new user's first commands
into docs/getting-started.md; `--contents` stops before the installation.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "tracoco"
NO_PART = (".pyc",)
DATA = (
    "presets/la-8.yaml",
    "presets/released/bcp.yaml",
    "methods/about/tracoco.yaml",
    "methods/costs.json",
    "reporting/templates/report.html.jinja",
    "studies/paper/published.csv",
    "studies/paper/lists",
    "py.typed",
)
"""One file or folder of each kind that is not Python, so that an empty package cannot pass."""
BESIDE = ("LICENSE", "README.md", "pyproject.toml", "constraints.txt", "CHANGELOG.md")
"""What the sdist has besides the package."""
QUIET = (
    *("--quiet", "--disable-pip-version-check", "--constraint", str(ROOT / "constraints.txt")),
)
"""Options of every installation."""
EXPORT_PAGE = ROOT / "docs" / "how-to" / "export.md"
WITHOUT_TORCH = "pip install numpy "
"""How that page's command begins that installs what a prediction with an ONNX file needs."""
SAME = 0.9999
"""Fraction of the voxels that must have the same label with ONNX as with the run."""
PAGE = ROOT / "docs" / "getting-started.md"
BEGIN = "<!-- times: made by `python scripts/check_dist.py --write` -->\n"
END = "<!-- end of times -->\n"
COMPARE = """
import importlib.util, sys
from pathlib import Path
import nibabel, numpy
if importlib.util.find_spec("torch"):
    sys.exit("torch is installed")
one, two = (
    {path.name: numpy.asarray(nibabel.load(path).dataobj) for path in Path(name).glob("*.nii.gz")}
    for name in sys.argv[1:]
)
if one.keys() != two.keys():
    sys.exit(f"other scans: {sorted(one)} and {sorted(two)}")
print(numpy.mean([(labels == two[name]).mean() for name, labels in one.items()]))
"""
"""Prints the fraction of voxels with the same label in two folders of predictions."""
OWN_LOOP = (
    "import tracoco as tc, torch; volume = torch.rand(1, 20, 20, 20); "
    "first, second, overlap = tc.crop_pair(volume, (8, 8, 8)); print(first.shape, overlap)"
)


def package_files() -> set[str]:
    """Files of the package as they are in the repository, relative to its folder."""
    found = (path for path in PACKAGE.rglob("*") if path.is_file())
    return {path.relative_to(PACKAGE).as_posix() for path in found if path.suffix not in NO_PART}


def names_in(archive: Path) -> set[str]:
    """Names of all files in a wheel or an sdist, of an sdist without its top folder."""
    if archive.suffix == ".whl":
        return set(zipfile.ZipFile(archive).namelist())
    with tarfile.open(archive) as file:
        return {member.name.partition("/")[2] for member in file if member.isfile()}


def content_problems(wheel: set[str], sdist: set[str], package: set[str]) -> list[str]:
    """What either file lacks, or has and should not have."""
    problems = [
        f"the repository lacks {name}"
        for name in DATA
        if not any(file == name or file.startswith(f"{name}/") for file in package)
    ]
    problems += [f"the wheel lacks {name}" for name in sorted(package) if _in(name) not in wheel]
    problems += [
        f"the sdist lacks {name}" for name in sorted(package) if f"src/{_in(name)}" not in sdist
    ]
    problems += [f"the sdist lacks {name}" for name in BESIDE if name not in sdist]
    extra = {name for name in wheel if not name.startswith(("tracoco/", "tracoco-"))}
    return problems + [f"the wheel has {name}" for name in sorted(extra)]


def _in(name: str) -> str:
    return f"tracoco/{name}"


def build(out: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel that is built from it."""
    run([sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)], cwd=out)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, sdist


def run(command: Sequence[str], cwd: Path) -> str:
    """What a command prints; its complaints if it fails. The sources are not on its path."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"failed: {' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Environment:
    """A new virtual environment with nothing in it."""

    def __init__(self, root: Path, work: Path) -> None:
        """Make the environment; its programs run in the folder `work`."""
        self.work, self.times = work, list[tuple[str, float]]()
        venv.create(root, with_pip=True)
        self.bin = root / ("Scripts" if os.name == "nt" else "bin")

    def __call__(self, program: str, *arguments: str, shown: str | None = None) -> str:
        """Run a program of the environment, and say how long it took.

        With `shown`, the time is one of those for the documentation, under this name.
        """
        began = time.monotonic()
        found = run([str(self.bin / program), *arguments], self.work)
        seconds = time.monotonic() - began
        line = " ".join([program, *(word for word in arguments if word not in QUIET)])
        print(f"{seconds:6.1f} s  {line[:90]}", flush=True)
        if shown is not None:
            self.times.append((shown, seconds))
        return found

    def install(self, *what: str, shown: str | None = None) -> None:
        """Install with the versions of constraints.txt."""
        self("pip", "install", *QUIET, *what, shown=shown)


def try_first_commands(there: Environment) -> None:
    """What docs/getting-started.md asks a new user to type."""

    def type_(command: str) -> None:
        there(*command.split(), shown=f"`{command}`")

    run_folder = "heart/runs/tracoco-seed0"
    type_("tracoco demo")
    type_("tracoco init demo/scans -o heart --validation 2")
    type_("tracoco prepare heart")
    type_("tracoco train heart --minutes 2")
    type_(f"tracoco predict {run_folder} demo/test/images labels")
    type_("tracoco evaluate labels demo/test/labels")
    type_(f"tracoco report {run_folder}")
    type_(f"tracoco export {run_folder} --format onnx -o heart.onnx")
    if len(list((there.work / "labels").glob("*.nii.gz"))) != 12:
        sys.exit("predict did not write 12 labels")


def try_data_files(there: Environment) -> None:
    """What reads the package's own data files."""
    there("tracoco", "plan", "heart")
    there("tracoco", "methods", "tracoco")
    there("tracoco", "presets", "la-8-as-released")
    there("tracoco", "paper", "component-ablation")
    there("python", "-c", OWN_LOOP)


def needed_without_torch() -> list[str]:
    """The packages that docs/how-to/export.md tells to install."""
    lines = map(str.strip, EXPORT_PAGE.read_text(encoding="utf-8").splitlines())
    (command,) = (line for line in lines if line.startswith(WITHOUT_TORCH))
    return command.split()[2:]


def try_without_torch(bare: Environment, wheel: Path) -> None:
    """Predict with the ONNX file where torch is not installed."""
    bare.install("--no-deps", str(wheel))
    packages = needed_without_torch()
    bare.install(*packages, shown="installing tracoco without torch, with onnxruntime")
    command = "tracoco predict heart.onnx demo/test/images without-torch"
    bare(*command.split(), shown=f"`{command}`")
    same = float(bare("python", "-c", COMPARE, "labels", "without-torch"))
    print(f"voxels with the same label without torch: {100 * same:.4f} %")
    if same < SAME:
        sys.exit("without torch, predict writes other labels")


def write_times(times: Sequence[tuple[str, float]]) -> None:
    """Put the times into the page for new users."""
    rows = "".join(f"| {name} | {seconds:,.0f} |\n" for name, seconds in times)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    table = f"| command | seconds |\n| --- | ---: |\n{rows}"
    PAGE.write_text(f"{before}{BEGIN}{table}{END}{after}", encoding="utf-8")


def main() -> None:
    """Build, look into both files, install, and try."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--contents", action="store_true", help="install nothing")
    parser.add_argument("--write", action="store_true", help="put the times into the docs")
    arguments = parser.parse_args()
    out = ROOT / "dist"
    out.mkdir(exist_ok=True)
    for old in (*out.glob("tracoco-*.whl"), *out.glob("tracoco-*.tar.gz")):
        old.unlink()
    wheel, sdist = build(out)
    for path in (wheel, sdist):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e6:.2f} MB")
    problems = content_problems(names_in(wheel), names_in(sdist), package_files())
    if problems:
        sys.exit("\n".join(problems))
    if arguments.contents:
        return
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        work.mkdir()
        there = Environment(Path(folder) / "environment", work)
        there.install("torch", shown="installing torch")
        there.install(f"{wheel}[onnx]", shown="installing tracoco, with what an export needs")
        version = there("tracoco", "--version").strip()
        there("tracoco", "--help")
        there("tracoco", "doctor", "--json", shown="`tracoco doctor`")
        try_first_commands(there)
        try_data_files(there)
        bare = Environment(Path(folder) / "without-torch", work)
        try_without_torch(bare, wheel)
        there.install("--force-reinstall", "--no-deps", str(sdist))
        if there("tracoco", "--version").strip() != version:
            sys.exit("the sdist installs another version than the wheel")
    if arguments.write:
        write_times([*there.times, *bare.times])
    print("the wheel and the sdist work")


if __name__ == "__main__":
    main()
