"""The manifest beside predictions (`predictions.json`), and which outputs are there already.

Machines that share a folder write one manifest each, so that none overwrites another's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tracoco.files import read_json, write_json
from tracoco.settings import checked


@dataclass(frozen=True, slots=True)
class PredictedCase:
    """One scan and the file that its labels go to."""

    case: str
    images: tuple[Path, ...]
    prediction: Path
    seconds: float | None = None
    """From the scan in memory to labels on its grid, without reading and writing files.

    None while the case is planned but not predicted."""
    files: dict[str, Path] = field(default_factory=dict)
    """What is written besides, e.g. a map of the entropy, by its name."""

    @property
    def all_files(self) -> list[Path]:
        """The labels, and what is written besides."""
        return [self.prediction, *self.files.values()]

    def to_json(self) -> dict[str, Any]:
        """The case as a manifest lists it."""
        return {
            "case": self.case,
            "images": [str(image) for image in self.images],
            "prediction": str(self.prediction),
            "seconds": self.seconds,
            "files": {name: str(file) for name, file in self.files.items()},
        }


@dataclass(frozen=True, slots=True)
class Manifest:
    """Which model made the predictions of a folder, and each of them.

    Manifests of earlier versions lack some of these; the defaults are what those versions did.
    """

    run: str = ""
    """The run's folder."""
    checkpoint: str = ""
    weights: str = ""
    """SHA-256 of the checkpoint's file."""
    averaged: bool = False
    """Whether the weights were the averaged ones of the run."""
    cct: bool = False
    """Whether small components were removed from the labels."""
    watermark: str = ""
    """What must be said wherever the predictions or their scores are shown; mostly nothing."""
    labels: dict[int, str] = field(default_factory=dict)
    """Label values, without the background, with the names of their classes."""
    rows: tuple[PredictedCase, ...] = ()

    def has_origin(self, other: "Manifest") -> bool:
        """Whether both tell of predictions by the same weights, made in the same way."""
        return self.origin == other.origin

    @property
    def origin(self) -> tuple[str | bool, ...]:
        """What makes two predictions of one scan the same."""
        return self.run, self.checkpoint, self.weights, self.averaged, self.cct

    @property
    def seconds(self) -> list[float]:
        """The time of each prediction, where it is known."""
        return [row.seconds for row in self.rows if row.seconds is not None]

    def to_json(self) -> dict[str, Any]:
        """The content of `predictions.json`."""
        labels = {str(value): name for value, name in self.labels.items()}
        rows = [row.to_json() for row in self.rows]
        return asdict(replace(self, rows=())) | {"labels": labels, "rows": rows}


def manifest_file(folder: Path, shard: tuple[int, int] | None = None) -> Path:
    """`predictions.json`, or `predictions-2of4.json` for the second of four parts."""
    part = f"-{shard[0]}of{shard[1]}" if shard else ""
    return folder / f"predictions{part}.json"


def read_manifests(folder: Path) -> dict[Path, Manifest]:
    """Every manifest of a folder, by its file; an error names the file that is broken."""
    files = [manifest_file(folder), *sorted(folder.glob("predictions-*of*.json"))]
    return {file: checked(Manifest, read_json(file), str(file)) for file in files if file.exists()}


def merged_manifest(folder: Path) -> Manifest:
    """All manifests of a folder as one; an empty one if there is none."""
    manifests = list(read_manifests(folder).values())
    if not manifests:
        return Manifest()
    rows: dict[str, PredictedCase] = {}
    for row in (row for manifest in manifests for row in manifest.rows):
        if row.case not in rows or rows[row.case].seconds is None:
            rows[row.case] = row
    return replace(manifests[0], rows=tuple(rows[case] for case in sorted(rows)))


def map_files(folder: Path) -> set[str]:
    """Names of the files beside the labels that are no labels themselves."""
    rows = [row for manifest in read_manifests(folder).values() for row in manifest.rows]
    return {file.name for row in rows for file in row.files.values()}


class ManifestWriter:
    """Writes a manifest anew after each case, so that an interrupted `predict` can go on."""

    def __init__(
        self, file: Path, manifest: Manifest, cases: Iterable[PredictedCase], earlier: Manifest
    ) -> None:
        """List all cases first, so that files of an interrupted one are known to be predictions.

        Args:
            file: where the manifest goes.
            manifest: the model; its rows are not used.
            cases: what is there and what is to come.
            earlier: a manifest of the same origin, whose rows stay.
        """
        self.file, self.manifest = file, manifest
        self.rows = {row.case: row for row in earlier.rows}
        for case in cases:
            self._put(case)
        self._write()

    def add(self, case: PredictedCase) -> None:
        """Enter a case that is done."""
        self._put(case)
        self._write()

    def _put(self, case: PredictedCase) -> None:
        earlier = self.rows[case.case].files if case.case in self.rows else {}  # they stay
        self.rows[case.case] = replace(case, files=earlier | case.files)

    def _write(self) -> None:
        write_json(self.file, replace(self.manifest, rows=tuple(self.rows.values())).to_json())


def start_manifest(
    file: Path,
    manifest: Manifest,
    cases: Iterable[PredictedCase],
    existing: Mapping[Path, Manifest],
) -> ManifestWriter:
    """Begin a manifest; manifests of predictions that are replaced are deleted."""
    for path, other in existing.items():
        if not other.has_origin(manifest):
            path.unlink(missing_ok=True)
    earlier = existing.get(file, Manifest())
    return ManifestWriter(
        file, manifest, cases, earlier if earlier.has_origin(manifest) else Manifest()
    )


def done_cases(
    cases: Sequence[PredictedCase], origin: Manifest, existing: Iterable[Manifest]
) -> list[PredictedCase]:
    """Cases that the same weights have predicted in the same way, with every file still there."""
    rows = [row for manifest in existing if manifest.has_origin(origin) for row in manifest.rows]
    found = {}
    for case in cases:
        if row := next((row for row in rows if _is_done(row, case)), None):
            found[case.case] = row
    return list(found.values())


def overwritten(cases: Sequence[PredictedCase], existing: Iterable[Manifest]) -> list[str]:
    """Files that are not predictions of ours: scans, or labels that somebody drew by hand."""
    ours = {file for manifest in existing for row in manifest.rows for file in row.all_files}
    return [
        f"{file} exists and is no prediction of tracoco; choose another OUT"
        for case in cases
        for file in case.all_files
        if file.exists() and file not in ours
    ]


def mixed(
    cases: Sequence[PredictedCase], origin: Manifest, existing: Iterable[Manifest]
) -> list[str]:
    """Predictions made otherwise that would stay: scored together, they would pass for one."""
    replaced = {file for case in cases for file in case.all_files}
    problems = []
    for other in existing:
        if other.has_origin(origin):
            continue
        theirs = (other.run, other.checkpoint, other.cct)
        same_name = theirs == (origin.run, origin.checkpoint, origin.cct)
        problems += [
            f"{file} is a prediction of {other.run}, made with "
            f"{'other weights of ' if same_name else ''}the checkpoint {other.checkpoint} and "
            f"{'with' if other.cct else 'without'} --cct; choose another OUT"
            for row in other.rows
            for file in row.all_files
            if file not in replaced and file.exists()
        ]
    return problems


def _is_done(row: PredictedCase, case: PredictedCase) -> bool:
    wanted = (case.case, case.images, case.prediction)
    made = (row.case, row.images, row.prediction) == wanted and row.seconds is not None
    listed = made and case.files.items() <= row.files.items()
    return listed and all(file.exists() for file in case.all_files)
