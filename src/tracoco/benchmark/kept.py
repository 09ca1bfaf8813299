"""The results of a grid: a folder with one small file a run, fit to be committed."""

from dataclasses import asdict, dataclass
from pathlib import Path

from tracoco.benchmark.grid import GridRun
from tracoco.benchmark.result import RunResult
from tracoco.errors import UserError
from tracoco.files import read_json, write_json


@dataclass(frozen=True, slots=True)
class KeptResult:
    """A result under the row of the grid that it belongs to."""

    row: str
    run: str
    """Name of the run's folder, which changes with every setting and every scan."""
    result: RunResult


@dataclass(frozen=True, slots=True)
class Results:
    """A folder of results."""

    root: Path

    def path(self, run: GridRun) -> Path:
        """The file of one run."""
        return self.root / f"{run.name}.json"

    def keep(self, run: GridRun, folder: Path, result: RunResult) -> None:
        """Write down what came of a run."""
        self.root.mkdir(parents=True, exist_ok=True)
        write_json(self.path(run), {"row": run.row, "run": folder.name, **asdict(result)})

    def find(self, run: GridRun, folder: Path | None = None) -> KeptResult | None:
        """The result of a run, if it is there and, where a folder is given, of just that run."""
        path = self.path(run)
        if not path.exists():
            return None
        values = read_json(path)
        try:
            row, name = values.pop("row"), values.pop("run")
            kept = KeptResult(row, name, RunResult(**values))
        except (KeyError, TypeError) as error:
            raise UserError(f"{path} is of another version; delete it and run again") from error
        return kept if folder is None or kept.run == folder.name else None
