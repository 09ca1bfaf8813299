"""Which scans are to be predicted, and which file the labels of each go to."""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tracoco.errors import UserError
from tracoco.inference.manifest import PredictedCase
from tracoco.project.folder import Project
from tracoco.project.layouts.community import volumes_below
from tracoco.scans.reader import WRITTEN, case_name, is_scan, scan_stem, scans_in

CHANNEL = re.compile(r"(.+)_(\d{4})")
"""A case and the number of a channel, as nnU-Net names its files."""


def planned_predictions(source: Path, out: Path, channels: int = 1) -> list[PredictedCase]:
    """Which file each scan's labels go to, in the order of the cases' names.

    Args:
        source: a scan of any format, a folder of scans, or a project, which stands for its test
            cases. A folder with DICOM files right in it is one scan, and so is one whose folders
            hold the slices of one series. Without scans right in it, it may have the field's HDF5
            files below it, e.g. `CASE/mri_norm2.h5`.
        out: a folder; a file only where `source` is one scan.
        channels: of a scan. Files `a_0000`, `a_0001`, ... with just as many numbers are one scan.
    """
    if not source.exists():
        raise UserError(f"{source} does not exist; give a scan, or a folder of scans")
    if _is_one_scan(source):
        target = out if is_label_file(out) else out / f"{case_name(source)}.nii.gz"
        return [PredictedCase(scan_stem(target), (source.absolute(),), target.absolute())]
    if is_label_file(out):
        raise UserError(f"{source} is a folder, and {out.name} the name of one file; give a folder")
    if Project(source).exists:
        cases = {case.id: case.images for case in Project(source).test_cases()}
    else:
        cases = _folder_cases(source, channels)
    return [
        PredictedCase(
            case,
            tuple(path.absolute() for path in cases[case]),
            (out / f"{case}.nii.gz").absolute(),
        )
        for case in sorted(cases)
    ]


def is_label_file(path: Path) -> bool:
    """Whether a path that need not exist is named like a file of labels."""
    known = path.name.lower().endswith(WRITTEN)
    if not known and not path.is_dir() and is_scan(path):
        raise UserError(f"{path}: labels are written as {', '.join(WRITTEN)}; choose one of these")
    return known and not path.is_dir()


def shard_of(cases: Sequence[PredictedCase], shard: tuple[int, int]) -> list[PredictedCase]:
    """The k-th of n parts of the cases, for (k, n); parts differ by one case at most."""
    part, parts = shard
    return list(cases[part - 1 :: parts])


def parse_shard(text: str) -> tuple[int, int]:
    """`2/4`: the second of four parts."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    part, parts = (int(number) for number in match.groups()) if match else (0, 0)
    if not 1 <= part <= parts:
        raise UserError(f"--shard {text} is no part; give 1/4, 2/4, 3/4 or 4/4 to four machines")
    return part, parts


def _is_one_scan(source: Path) -> bool:
    if source.is_file():
        return True
    if Project(source).exists:
        return False
    loose = (entry for entry in source.iterdir() if entry.is_file() and not is_scan(entry))
    if any(_is_dicom(entry) for entry in loose if not entry.name.startswith(".")):
        return True
    scans = scans_in(source)
    return len(scans) > 1 and all(scan.is_dir() for scan in scans) and _are_parts(scans)


def _is_dicom(file: Path) -> bool:
    from tracoco.scans.dicom_files import has_dicom  # noqa: PLC0415 - pydicom takes a while

    return file.suffix.lower() != ".zip" and has_dicom(file)


def _are_parts(folders: Sequence[Path]) -> bool:
    from tracoco.scans.dicom import is_one_series  # noqa: PLC0415 - pydicom takes a while

    return is_one_series(folders)


def _folder_cases(source: Path, channels: int) -> dict[str, tuple[Path, ...]]:
    scans = scans_in(source)
    if not scans:
        volumes = volumes_below(source)
        if not volumes:
            raise UserError(f"{source} holds no scans; give a folder of .nii.gz or other scans")
        return {case: (file,) for case, file in volumes.items()}
    by_stem: dict[str, list[Path]] = defaultdict(list)
    for scan in scans:
        by_stem[case_name(scan)].append(scan)
    twice = sorted(stem for stem, paths in by_stem.items() if len(paths) > 1)
    if twice:
        raise UserError(f"{source} holds two scans of the name {', '.join(twice)}; rename one")
    return _with_channels({stem: paths[0] for stem, paths in by_stem.items()}, channels)


def _with_channels(scans: dict[str, Path], channels: int) -> dict[str, tuple[Path, ...]]:
    """Put the files of one scan together; what merely ends in four digits is left alone."""
    numbered: dict[str, dict[int, str]] = defaultdict(dict)
    for stem in scans:
        if match := CHANNEL.fullmatch(stem):
            numbered[match[1]][int(match[2])] = stem
    cases: dict[str, tuple[Path, ...]] = {stem: (path,) for stem, path in scans.items()}
    for case, stems in numbered.items():
        if sorted(stems) == list(range(channels)) and case not in scans:
            cases[case] = tuple(cases.pop(stem)[0] for _, stem in sorted(stems.items()))
    return cases
