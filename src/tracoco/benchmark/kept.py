"""The results of a grid: a folder with one small file a run, fit to be committed."""

from dataclasses import asdict, dataclass
from pathlib import Path

from tracoco.benchmark.grid import GridRun
from tracoco.benchmark.result import RunResult
from tracoco.errors import UserError
from tracoco.files import read_json, write_json


@dataclass(frozen=True, slots=True)
class Results:
    """A folder of results."""

    root: Path

    def path(self, run: GridRun) -> Path:
        """The file of one run."""
        return self.root / f"{run.name}.json"

    def keep(self, run: GridRun, folder: Path, result: RunResult) -> None:
        """Write down what came of a run, its row, and its folder's name."""
        self.root.mkdir(parents=True, exist_ok=True)
        write_json(self.path(run), {"row": run.row, "run": folder.name, **asdict(result)})

    def find(self, run: GridRun, folder: Path) -> RunResult | None:
        """The result of a run, if it is there and of just this folder.

        A folder's name changes with every setting and every scan, so a result of others is none.
        """
        kept = self.read(run)
        return kept[1] if kept and kept[0] == folder.name else None

    def read(self, run: GridRun) -> tuple[str, RunResult] | None:
        """The name of the folder that a result is of, and the result; None if there is none."""
        path = self.path(run)
        if not path.exists():
            return None
        values = read_json(path)
        try:
            del values["row"]
            name = values.pop("run")
            return name, RunResult(**values)
        except (KeyError, TypeError) as error:
            raise UserError(f"{path} is of another version; delete it and run again") from error
