"""Build the wheel and the sdist, and try them as a new user would: in an empty environment.

python scripts/check_dist.py

Everything that the package needs at run time must be in both files. The wheel is installed with
pinned versions into a new virtual environment, where a small training goes from scans to a report;
then the sdist is installed in its place. `--contents` stops before the installation.
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
SMALL = ("training.steps=4", "network.filters=4", "data.crop=[16, 16, 16]")
SCANS = "import tracoco as tc; tc.demo_scans('demo', progress=False)"
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
    """A new virtual environment with nothing in it, and a folder to work in."""

    def __init__(self, root: Path) -> None:
        """Make the environment."""
        self.root, self.work = root / "environment", root / "work"
        self.work.mkdir()
        venv.create(self.root, with_pip=True)
        self.bin = self.root / ("Scripts" if os.name == "nt" else "bin")

    def __call__(self, program: str, *arguments: str) -> str:
        """Run a program of the environment, and say how long it took."""
        began = time.monotonic()
        found = run([str(self.bin / program), *arguments], self.work)
        shown = " ".join([program, *(word for word in arguments if word not in QUIET)])
        print(f"{time.monotonic() - began:6.1f} s  {shown[:90]}", flush=True)
        return found

    def install(self, *what: str) -> None:
        """Install with the versions of constraints.txt."""
        self("pip", "install", *QUIET, *what)


def try_installed(there: Environment) -> None:
    """The way from scans to a report, and what reads the package's own data files."""
    settings = [word for setting in SMALL for word in ("--set", setting)]
    there("python", "-c", SCANS)
    there("tracoco", "init", "demo/scans", "-o", "heart", "--validation", "2")
    there("tracoco", "plan", "heart")
    there("tracoco", "prepare", "heart")
    there("tracoco", "train", "heart", "-o", "run", "--device", "cpu", *settings)
    there("tracoco", "predict", "run", "demo/test/images", "labels")
    there("tracoco", "evaluate", "labels", "demo/test/labels")
    there("tracoco", "report", "run")
    there("tracoco", "methods", "tracoco")
    there("tracoco", "presets", "la-8-as-released")
    there("tracoco", "paper", "component-ablation")
    there("python", "-c", OWN_LOOP)
    if len(list((there.work / "labels").glob("*.nii.gz"))) != 12:
        sys.exit("predict did not write 12 labels")


def main() -> None:
    """Build, look into both files, install, and try."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--contents", action="store_true", help="install nothing")
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
        there = Environment(Path(folder))
        there.install("torch")
        there.install(str(wheel))
        version = there("tracoco", "--version").strip()
        there("tracoco", "--help")
        there("tracoco", "doctor", "--json")
        try_installed(there)
        there.install("--force-reinstall", "--no-deps", str(sdist))
        if there("tracoco", "--version").strip() != version:
            sys.exit("the sdist installs another version than the wheel")
    print("the wheel and the sdist work")


if __name__ == "__main__":
    main()
