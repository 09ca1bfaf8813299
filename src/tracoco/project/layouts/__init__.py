"""How people keep their scans: the ways that are understood, the most telling one first."""

import difflib
from dataclasses import replace
from pathlib import Path

from tracoco.errors import UserError, did_you_mean
from tracoco.project.layouts import bids, case_folders, community, csv_table, label_folder
from tracoco.project.layouts.pairing import Found, Layout, contents

__all__ = ["LAYOUTS", "Found", "Layout", "find_cases"]

LAYOUTS = (
    Layout(
        "csv",
        "a .csv file with columns image, label, group, split",
        csv_table.recognises,
        csv_table.find,
    ),
    Layout(
        "nnunet",
        "imagesTr, labelsTr and dataset.json",
        label_folder.recognises_nnunet,
        label_folder.find_nnunet,
    ),
    Layout("bids", "BIDS: sub-*/anat, labels as *_dseg or *_mask", bids.recognises, bids.find),
    Layout(
        "images-labels",
        "images/ and labels/ with the same names in both",
        label_folder.recognises_images,
        label_folder.find_images,
        takes_labels=True,
    ),
    Layout(
        "community-h5",
        "ID/mri_norm2.h5, data/*.h5 or *.h5, perhaps with train.list",
        community.recognises,
        community.find,
    ),
    Layout(
        "beside-labels",
        "scans or DICOM series beside labels/",
        label_folder.recognises_beside,
        label_folder.find_beside,
        takes_labels=True,
    ),
    Layout(
        "case-folders",
        "a folder a case, its label called *seg*, *label*, *mask* or *gt*",
        case_folders.recognises,
        case_folders.find,
    ),
)


def find_cases(data: Path, labels: Path | None = None, layout: str | None = None) -> Found:
    """The cases of a data set, by the layout named or the first that fits.

    Args:
        data: a folder, or a CSV file.
        labels: a folder of labels in place of the usual one.
        layout: the name of a layout, to leave nothing to be recognised.
    """
    if not data.exists():
        raise UserError(f"{data} does not exist; give a folder of scans, or a CSV that lists them")
    row = _chosen(data, labels, layout)
    if labels and not row.takes_labels:
        raise UserError(
            f"--labels: {data} has the layout '{row.name}', which says where its labels are; "
            "leave it out, or force another with --layout"
        )
    return replace(row.find(data, labels), layout=row.name)


def _chosen(data: Path, labels: Path | None, name: str | None) -> Layout:
    rows = {row.name: row for row in LAYOUTS}
    if name is not None and name not in rows:
        raise UserError(f"there is no layout '{name}'; {did_you_mean(name, rows)}")
    if name is None:
        return _first_fitting(data, prefer_labels=labels is not None)
    fitting = [row for row in LAYOUTS if _recognised(row, data)]
    if rows[name] not in fitting and not (labels and rows[name].takes_labels and data.is_dir()):
        others = f"it looks like {' or '.join(row.name for row in fitting)}" if fitting else ""
        raise UserError(
            f"{data} is not laid out as '{name}' ({rows[name].about}): it holds {_inside(data)}; "
            f"{others or 'it looks like no other layout either'}"
        )
    return rows[name]


def _first_fitting(data: Path, *, prefer_labels: bool) -> Layout:
    """The first layout that fits; those behind it are not tried, since some look into files."""
    taking = [row for row in LAYOUTS if row.takes_labels] if prefer_labels else []
    for row in (*taking, *LAYOUTS):
        if _recognised(row, data):
            return row
    raise _unknown(data)


def _recognised(row: Layout, data: Path) -> bool:
    return row.recognises(data) if data.is_dir() == (row.name != "csv") else False


def _inside(data: Path) -> str:
    return contents(data) if data.is_dir() else "no folders, since it is a file"


def _unknown(data: Path) -> UserError:
    known = "\n".join(f"  {row.name:15} {row.about}" for row in LAYOUTS)
    folders = (*label_folder.IMAGE_FOLDERS, *label_folder.LABEL_FOLDERS)
    names = [entry.name for entry in data.iterdir()] if data.is_dir() else []
    near = [(name, close) for name in names for close in difflib.get_close_matches(name, folders)]
    hint = f" Is {near[0][0]}/ meant to be {near[0][1]}/?" if near else ""
    return UserError(
        f"{data} is laid out in no known way: it holds {_inside(data)}.{hint} Known are\n{known}"
    )
