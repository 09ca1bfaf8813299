"""The file formats that scans come in; a new one is one row of `FORMATS`."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from numpy.typing import NDArray

from tracoco.scans.scan import Grid, LabelScan, Scan, ScanHeader


class FormatModule(Protocol):
    """What the package asks of a format; the last three only where its row says so."""

    def read_header(self, path: Path, /) -> ScanHeader:
        """Shape, spacing and channels, without the voxels."""

    def read_image(self, path: Path, /) -> Scan:
        """An image, float32 [C, X, Y, Z] in canonical order."""

    def read_label(self, path: Path, /) -> LabelScan:
        """A label map, integers [X, Y, Z] in canonical order."""

    def write_label(self, path: Path, label: NDArray[Any], grid: Grid, /) -> None:
        """Write a canonical label map on a grid: of rows with `written` suffixes."""

    def has_label(self, path: Path, /) -> bool:
        """Whether a file holds a label: of rows with `label_inside`."""

    def is_series(self, path: Path, /) -> bool:
        """Whether a folder or zip is a scan: of the row without suffixes."""


@dataclass(frozen=True, slots=True)
class Format:
    """A file format: the module that reads it, imported only when such a file is met."""

    name: str
    suffixes: tuple[str, ...]
    """The longest first, in lower case; none where a scan is a folder or a zip."""
    written: tuple[str, ...] = ()
    """Suffixes that labels can be written with."""
    label_inside: bool = False
    """Whether the file of an image may hold its label too."""

    @property
    def module(self) -> FormatModule:
        """The module, and with it the library that it needs."""
        return cast("FormatModule", import_module(f"tracoco.scans.{self.name}"))

    def suffix_of(self, path: Path) -> str | None:
        """The suffix by which a path is of this format, or None if it is not."""
        name = path.name.lower()
        if self.suffixes:
            return next((suffix for suffix in self.suffixes if name.endswith(suffix)), None)
        packed = name.endswith(".zip") and path.is_file()
        if (packed or path.is_dir()) and self.module.is_series(path):
            return ".zip" if packed else ""
        return None


FORMATS = (
    Format("nifti", (".nii.gz", ".nii", ".hdr", ".img"), written=(".nii.gz", ".nii")),
    Format("nrrd", (".nrrd", ".nhdr"), written=(".nrrd",)),
    Format("metaimage", (".mha", ".mhd"), written=(".mha",)),
    Format("freesurfer", (".mgz", ".mgh")),
    Format("hdf5", (".hdf5", ".h5"), label_inside=True),
    Format("numpy_arrays", (".npz", ".npy"), label_inside=True),
    Format("dicom", ()),
)
