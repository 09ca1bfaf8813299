"""The manifest beside predictions (`predictions.json`), and which outputs are there already.

Machines that share a folder write one manifest each, so that none overwrites another's.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tracoco.errors import raise_all
from tracoco.files import ScanContent, content_hash, read_json, scan_content, write_json
from tracoco.inference.prediction import FILE_NAMES, Uncertainty
from tracoco.scans.reader import scan_stem
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
    uncertainty: Uncertainty | None = None
    """Only where it was asked for."""
    scans: tuple[ScanContent, ...] = ()
    """What the images consisted of; empty in manifests of earlier versions."""
    digests: dict[str, str] | None = None
    """SHA-256 of the labels and of what is written besides, by the files' names; empty while the
    case is planned but not predicted, None in manifests of earlier versions."""

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
            **({"uncertainty": asdict(self.uncertainty)} if self.uncertainty else {}),
            "scans": [asdict(scan) for scan in self.scans],
            "digests": self.digests,
        }

    def with_files(self, kinds: Sequence[str]) -> "PredictedCase":
        """The case with the files that come beside its label."""
        stem = scan_stem(self.prediction)
        names = {kind: FILE_NAMES.get(kind, f"{{}}_{kind}.nii.gz").format(stem) for kind in kinds}
        files = {kind: self.prediction.with_name(name) for kind, name in names.items()}
        return replace(self, files=files, digests={})

    def predicted(self, seconds: float, scans: tuple[ScanContent, ...]) -> "PredictedCase":
        """The case once its files are written."""
        digests = {file.name: content_hash(file) for file in self.all_files}
        return replace(self, seconds=seconds, scans=scans, digests=digests)


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
    variant: str = ""
    """What was averaged and cleaned besides, in words; empty for one network as it is."""
    watermark: str = ""
    """What must be said wherever the predictions or their scores are shown; mostly nothing."""
    labels: dict[int, str] = field(default_factory=dict)
    """Label values, without the background, with the names of their classes."""
    ignore: int | None = None
    """Value in reference labels of voxels that nobody has drawn."""
    rows: tuple[PredictedCase, ...] = ()

    def has_origin(self, other: "Manifest") -> bool:
        """Whether both tell of predictions by the same weights, made in the same way."""
        return self.origin == other.origin

    @property
    def origin(self) -> tuple[str | bool, ...]:
        """What makes two predictions of one scan the same."""
        return self.run, self.checkpoint, self.weights, self.averaged, self.cct, self.variant

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
        if earlier := self.rows.get(case.case):  # of the same weights: what it has stays
            files, known = earlier.files | case.files, case.uncertainty or earlier.uncertainty
            digests = (earlier.digests or {}) | case.digests if case.digests else case.digests
            case = replace(case, files=files, uncertainty=known, digests=digests)
        self.rows[case.case] = case

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
    cases: Sequence[PredictedCase],
    origin: Manifest,
    existing: Iterable[Manifest],
    *,
    uncertainty: bool = False,
) -> list[PredictedCase]:
    """Cases that the same weights have predicted in the same way from the scans as they are now.

    Every file of theirs is still there. With `uncertainty`, those of which it is not known are
    left out.
    """
    rows = [row for manifest in existing if manifest.has_origin(origin) for row in manifest.rows]
    rows = [row for row in rows if row.uncertainty or not uncertainty]
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


def changed_files(existing: Iterable[Manifest], names: Container[str] | None = None) -> list[str]:
    """Files that are not what the manifests say was written, among those of some cases or of all.

    A file is also one of these if its prediction was interrupted: it may be an earlier one.
    """
    rows = [row for manifest in existing for row in manifest.rows]
    known, problems = defaultdict[Path, set[str]](set), []
    for row in rows:
        if (names is None or row.case in names) and row.digests is not None:
            for file in row.all_files:
                known[file].add(row.digests.get(file.name, ""))
    for file, digests in known.items():
        if not file.exists() or (names is not None and "" in digests):
            continue  # it is predicted again
        if digests == {""}:
            problems.append(f"{file} was not finished; run the same `tracoco predict` again")
        elif content_hash(file) not in digests:
            problems.append(
                f"{file} has changed since it was predicted; move it away and run the same "
                "`tracoco predict` again, or keep it in a folder without predictions.json"
            )
    return problems


def check_predictions(folder: Path) -> Manifest:
    """All manifests of a folder as one, if its files are those that were predicted."""
    raise_all(changed_files(read_manifests(folder).values()))
    return merged_manifest(folder)


def mixed(
    cases: Sequence[PredictedCase],
    origin: Manifest,
    existing: Iterable[Manifest],
    *,
    redo: bool = False,
) -> list[str]:
    """Predictions made otherwise: scored together with others, they would pass for one.

    With `redo`, only those count that would stay.
    """
    replaced = {file for case in cases for file in case.all_files} if redo else set()
    fix = "choose another OUT" if redo else "choose another OUT, or replace all with --redo"
    problems = []
    for other in existing:
        if other.has_origin(origin):
            continue
        theirs = (other.run, other.checkpoint, other.cct)
        same_name = theirs == (origin.run, origin.checkpoint, origin.cct)
        problems += [
            f"{file} is a prediction of {other.run}, made with "
            f"{'other weights of ' if same_name else ''}the checkpoint {other.checkpoint} and "
            f"{'with' if other.cct else 'without'} --cct; {fix}"
            for row in other.rows
            for file in row.all_files
            if file not in replaced and file.exists()
        ]
    return problems


def _is_done(row: PredictedCase, case: PredictedCase) -> bool:
    wanted = (case.case, case.images, case.prediction)
    made = (row.case, row.images, row.prediction) == wanted and row.seconds is not None
    listed = made and case.files.items() <= row.files.items()
    if not (listed and row.digests and all(file.exists() for file in case.all_files)):
        return False
    return row.scans == scans_of(case, row.scans)


def scans_of(case: PredictedCase, known: Sequence[ScanContent] = ()) -> tuple[ScanContent, ...]:
    """What the images of a case consist of now; what is known is a hint."""
    pairs = zip_longest(case.images, known[: len(case.images)])
    return tuple(scan_content(image, earlier) for image, earlier in pairs)
