"""Where DICOM objects lie: a folder with folders in it, a zip of one, or a single file."""

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, cast

from pydicom import dcmread
from pydicom.dataset import FileDataset
from pydicom.errors import BytesLengthException, InvalidDicomError
from pydicom.filereader import read_dataset
from pydicom.uid import DeflatedExplicitVRLittleEndian

from tracoco.errors import UserError
from tracoco.scans.packed import check_size

MARK_AT = 128
MARK = b"DICM"
"""Every DICOM file has it, whatever its name is; many have no suffix at all."""
SUFFIXES = (".dcm", ".ima")
ZIP_MARK, ZIP_END = b"PK\x03\x04", b"PK\x05\x06"
LONGEST_ZIP_END = 22 + 65_535
UNCOUNTED = 65_535
"""What the end of a zip says where it has so many files that the number does not fit."""
UNPACKED_LIMIT = 8 * 2**30
"""Bytes of a zip once unpacked: 16,000 slices of 512 x 512, more than any scanner makes."""
UNSUSPICIOUS = 64 * 2**20
MOST_EXPANSION = 100
"""A zip that unpacks to more than the former, and to so many times its size, holds no scan."""
GROUP_OF_FILE = 2
"""Tags before the data set, which say how it is written."""
DAMAGE = (
    *(InvalidDicomError, BytesLengthException, zipfile.BadZipFile, EOFError, OSError, zlib.error),
    *(ValueError, LookupError, AttributeError, TypeError, struct.error, OverflowError),
    RuntimeError,
)
"""All that was seen to come out of damaged bytes; pydicom has no error of its own for them."""


@dataclass(frozen=True, slots=True)
class DicomFile:
    """One object, read from the disk or out of a zip each time that it is opened."""

    name: str
    """Its place in the folder or zip, for messages only: nothing is ever written under it."""
    open: Callable[[], IO[bytes]]
    size: int
    """Bytes, unpacked."""


@contextmanager
def dicom_files(path: Path) -> Iterator[list[DicomFile]]:
    """Every DICOM object at or below a path, in the order of names."""
    if not path.exists():
        raise UserError(f"{path} does not exist")
    if path.suffix.lower() != ".zip" or path.is_dir():
        yield [file for file in _on_disk(path) if _is_marked(file, path)]
        return
    try:
        archive = zipfile.ZipFile(path)
    except DAMAGE as error:
        raise UserError(
            f"{path} cannot be opened as a zip ({error}): it is damaged or cut short; copy it again"
        ) from error
    with archive:
        yield [file for file in _in_zip(archive, path) if _is_marked(file, path)]


def has_dicom(path: Path) -> bool:
    """Whether a DICOM object lies at or below a path; one look into each file up to the first.

    A zip that cannot be read counts, so that reading it tells what is wrong with it.
    """
    if path.suffix.lower() != ".zip" or path.is_dir():
        return any(_starts_as_dicom(file) for file in _on_disk(path))
    try:
        with dicom_files(path) as files:
            return bool(files)
    except UserError:
        return True


@contextmanager
def sound_file(file: DicomFile, path: Path) -> Iterator[None]:
    """Turn whatever damaged bytes raise into one line that names the file."""
    try:
        yield
    except DAMAGE as error:
        # What pydicom says may repeat a value of the header; what the system says does not.
        reason = f" ({error})" if isinstance(error, OSError) else ""
        raise UserError(
            f"{path}: {file.name} cannot be read{reason}: it is damaged or cut short; "
            "copy or export it again"
        ) from error


def read_object(
    file: DicomFile, path: Path, tags: list[str] | None = None, *, pixels: bool = False
) -> FileDataset:
    """Read some tags of an object, or all; without the pixels unless they are asked for."""
    with sound_file(file, path), file.open() as stream:
        _check_not_deflated(stream, file, path)
        if pixels:
            check_size(2 * file.size, path)  # pydicom copies the pixels out of it
        # A member of a zip is read to its end with the pixels: only then has its sum been checked.
        source = io.BytesIO(stream.read()) if pixels else stream
        source.seek(0)
        return dcmread(source, specific_tags=tags, stop_before_pixels=not pixels)


def _check_not_deflated(stream: IO[bytes], file: DicomFile, path: Path) -> None:
    """Refuse an object that is packed as a whole: pydicom would unpack it without a bound."""
    stream.seek(MARK_AT + len(MARK))
    about = read_dataset(
        cast("BinaryIO", stream),
        is_implicit_VR=False,
        is_little_endian=True,
        stop_when=lambda tag, *_: tag >> 16 != GROUP_OF_FILE,
    )
    syntax = str(about.get("TransferSyntaxUID", ""))
    stream.seek(0)
    if syntax == DeflatedExplicitVRLittleEndian:
        raise UserError(
            f"{path}: {file.name} is deflated as a whole, which is not read; export it again as "
            "Explicit VR Little Endian"
        )


class _File(io.BufferedReader):
    """A file of which no more is asked than it has: Python allocates first, and then reads."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self._size = path.stat().st_size

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, self._size - self.tell())
        return super().read(left if size is None or size < 0 else min(size, left))


def _on_disk(path: Path) -> Iterator[DicomFile]:
    if path.is_file():
        yield DicomFile(path.name, partial(_File, path), path.stat().st_size)
    for folder, below, names in os.walk(path):
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in sorted(names):
            place = Path(folder, name)
            if not name.startswith(".") and place.is_file():
                shown, size = str(place.relative_to(path)), place.stat().st_size
                yield DicomFile(shown, partial(_File, place), size)


def _in_zip(archive: zipfile.ZipFile, path: Path) -> Iterator[DicomFile]:
    members, told = archive.infolist(), _told_files(path)
    if told not in (len(members), UNCOUNTED):
        raise UserError(
            f"{path} is damaged: its list has {len(members)} files, and its end counts {told}; "
            "copy it again"
        )
    size = sum(member.file_size for member in members)
    if size > max(UNSUSPICIOUS, MOST_EXPANSION * path.stat().st_size):
        raise UserError(
            f"{path} unpacks to {size / 2**20:,.0f} MiB, more than {MOST_EXPANSION} times its "
            "size, as no scan does; if it is one, unpack it, and give the folder"
        )
    if size > UNPACKED_LIMIT:
        raise UserError(
            f"{path} holds {size / 2**30:.1f} GiB, more than the {UNPACKED_LIMIT / 2**30:.0f} GiB "
            "that are read from a zip; unpack it, and give the folder of one series"
        )
    for member in sorted(members, key=lambda member: member.filename):
        if member.flag_bits & 1:
            raise UserError(f"{path} is encrypted; unpack it, and give the folder")
        place = PurePosixPath(member.filename.replace("\\", "/"))
        hidden = any(part.startswith((".", "__MACOSX")) and part != ".." for part in place.parts)
        printable = "".join(c if c.isprintable() else "?" for c in member.filename)
        file = DicomFile(printable, partial(archive.open, member), member.file_size)
        if not hidden and not member.is_dir():
            yield file
            continue
        with sound_file(file, path), file.open():
            pass  # a name is stored twice; if they differ, a damaged one may hide a slice


def _told_files(path: Path) -> int:
    """How many files a zip has by the record at its end.

    If the length of a name or comment in the list of files is damaged, `zipfile` reads the entries
    that follow as part of it and reports no error: slices would be missing.
    """
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LONGEST_ZIP_END))
        end = file.read()
    at = end.rfind(ZIP_END) + 10
    return int.from_bytes(end[at : at + 2], "little")


def _is_marked(file: DicomFile, path: Path) -> bool:
    """Whether a file is DICOM; one that should be and is not may be a slice, so it is refused."""
    with sound_file(file, path), file.open() as stream:
        start = stream.read(MARK_AT + len(MARK))
    if path.suffix.lower() == ".zip" and path.is_file() and start.startswith(ZIP_MARK):
        raise UserError(f"{path} has another zip in it, {file.name}; unpack it, give the folder")
    marked = start[MARK_AT:] == MARK
    if not marked and file.name.lower().endswith(SUFFIXES):
        raise UserError(
            f"{path}: {file.name} has the suffix of a DICOM file but not its mark at byte "
            f"{MARK_AT}: it is damaged, or older than the standard. Export it again, or remove it"
        )
    return marked


def _starts_as_dicom(file: DicomFile) -> bool:
    try:
        with file.open() as stream:
            return stream.read(MARK_AT + len(MARK))[MARK_AT:] == MARK
    except OSError:
        return False
