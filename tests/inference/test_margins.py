"""Scans with a constant margin: what is prepared of them, and where predictions lie."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from samples import StandIn
from torch import Tensor

from tracoco.config import InferenceConfig
from tracoco.geometry import Box
from tracoco.inference.prediction import MAPS
from tracoco.inference.predictor import Predictor
from tracoco.project.cases import Case
from tracoco.project.plan import Plan
from tracoco.project.prepare import prepare_case

SHAPE = (22, 18, 14)
BOX = Box((5, 2, 3), (12, 10, 8))
BRIGHT = (slice(8, 13), slice(4, 9), slice(5, 9))
"""Inside the box."""
ORIENTATIONS = ["RAS", "LPS", "SRA", "AIL", "PSR"]


class Bright(StandIn):
    """Two networks that mark bright voxels; the second is less sure."""

    def predict(self, crops: Tensor) -> Tensor:
        return _marked(crops, 8)

    def predict_members(self, crops: Tensor) -> list[Tensor]:
        return [_marked(crops, 8), _marked(crops, 2)]


def _marked(crops: Tensor, sure: float) -> Tensor:
    bright = (sure * (crops[:, :1] - 0.5)).sigmoid()
    return torch.cat([1 - bright, bright], dim=1)


def voxels() -> NDArray[np.float32]:
    """Noise inside the box with a bright part, and -5 around it."""
    random = np.random.default_rng(3)
    array = np.full(SHAPE, -5, dtype=np.float32)
    array[BOX.slices] = random.uniform(0, 10, BOX.size)
    array[BRIGHT] = random.uniform(80, 100, (5, 5, 4))
    return array


def plan(**values: Any) -> Plan:
    return Plan.model_validate(
        {
            "dimensions": 3,
            "channels": 1,
            "label_values": (0, 7),
            "class_names": ("background", "bright"),
            "slice_axis": None,
            "spacing_mm": (1, 1, 2),
            "crop": (8, 8, 8),
            "crop_to_content": True,
            **values,
        }
    )


FLAT = {"dimensions": 2, "slice_axis": 2, "spacing_mm": (2, 1, 1), "crop": (1, 8, 8)}


def predictor(chosen: Plan) -> Predictor:
    config = InferenceConfig(overlap=0.0, batch=4)
    return Predictor(Bright(), chosen, chosen.crop, config, torch.device("cpu"))


def write(path: Path, array: NDArray[Any], orientation: str) -> Path:
    """The same voxels in space, stored in another order."""
    image = nib.Nifti1Image(array, np.diag([1.0, 1.0, 2.0, 1.0]))
    turn = nib.orientations.ornt_transform(
        nib.orientations.axcodes2ornt("RAS"), nib.orientations.axcodes2ornt(orientation)
    )
    nib.save(image.as_reoriented(turn), path)
    return path


@pytest.mark.parametrize("orientation", ORIENTATIONS)
@pytest.mark.parametrize("values", [{}, FLAT], ids=["3d", "2d"])
def test_what_is_stored_is_the_box_cut_out_of_the_whole(
    tmp_path: Path, orientation: str, values: dict[str, Any]
) -> None:
    label = np.zeros(SHAPE, dtype=np.uint8)
    label[BRIGHT] = 7
    case = Case(
        "a",
        (write(tmp_path / "a.nii.gz", voxels(), orientation),),
        write(tmp_path / "a_label.nii.gz", label, orientation),
    )
    cropped = prepare_case(case, plan(**values))
    entire = prepare_case(case, plan(crop_to_content=False, **values))
    assert (cropped.box, entire.box) == (BOX, Box((0, 0, 0), SHAPE))
    assert cropped.scan_shape == entire.scan_shape == SHAPE
    place = tuple(BOX.slices[axis] for axis in plan(**values).stored_axes)
    assert np.array_equal(cropped.image, entire.image[(slice(None), *place)])
    assert cropped.label is not None
    assert entire.label is not None
    assert np.array_equal(cropped.label, entire.label[place])
    assert np.count_nonzero(cropped.label) == 5 * 5 * 4
    assert cropped.spacing_mm == pytest.approx(entire.spacing_mm)


@pytest.mark.parametrize("orientation", ORIENTATIONS)
@pytest.mark.parametrize("values", [{}, FLAT], ids=["3d", "2d"])
def test_bright_voxels_are_found_where_they_are(
    tmp_path: Path, orientation: str, values: dict[str, Any]
) -> None:
    file = write(tmp_path / "a.nii.gz", voxels(), orientation)
    predictor(plan(**values))(file).write(tmp_path / "label.nii.gz")
    label = nib.Nifti1Image.from_filename(tmp_path / "label.nii.gz")
    assert label.shape == nib.Nifti1Image.from_filename(file).shape
    turned = np.asarray(nib.as_closest_canonical(label).dataobj)
    expected = np.zeros(SHAPE, dtype=np.uint8)
    expected[BRIGHT] = 7
    assert np.array_equal(turned, expected)


@pytest.mark.parametrize("spacing_mm", [(1.5, 0.8, 2.5), (None, 0.8, None)])
def test_resampled_predictions_lie_where_those_of_the_whole_scan_do(
    spacing_mm: tuple[float | None, ...],
) -> None:
    cropped = predictor(plan(spacing_mm=spacing_mm))(voxels(), (1, 1, 2)).label == 7
    entire = predictor(plan(spacing_mm=spacing_mm, crop_to_content=False))(voxels(), (1, 1, 2))
    both = np.count_nonzero(cropped & (entire.label == 7))
    assert cropped.any()
    # The two grids differ by parts of a voxel, so some voxels at the surface do as well.
    assert 2 * both / (cropped.sum() + (entire.label == 7).sum()) > 0.8


def test_maps_say_background_in_the_margin_and_are_the_same_inside() -> None:
    cropped = predictor(plan())(voxels(), (1, 1, 2), maps=MAPS).maps
    entire = predictor(plan(crop_to_content=False))(voxels(), (1, 1, 2), maps=MAPS).maps
    margin = np.ones(SHAPE, dtype=bool)
    margin[BOX.slices] = False
    for name in MAPS:
        found, expected = (np.where(margin, 0, maps[name].levels) for maps in (cropped, entire))
        assert np.array_equal(found, expected), name
    probability = cropped["probability"].values
    assert (probability[0][margin] == 1).all()
    assert (probability[1][margin] == 0).all()
    assert not cropped["entropy"].levels[margin].any()
    assert not cropped["disagreement"].levels[margin].any()
    # The whole scan went through the network, which is never quite sure.
    assert entire["entropy"].levels[margin].all()


def test_content_smaller_than_a_window_is_found() -> None:
    array = np.zeros(SHAPE, dtype=np.float32)
    array[10:12, 9, 7] = 50
    found = predictor(plan())(array, (1, 1, 2)).label
    assert np.argwhere(found).tolist() == [[10, 9, 7], [11, 9, 7]]


def test_a_constant_scan_is_background_everywhere() -> None:
    found = predictor(plan())(np.full(SHAPE, 3, dtype=np.float32), (1, 1, 2))
    assert found.label.shape == SHAPE
    assert not found.label.any()


def test_the_network_sees_the_content_alone() -> None:
    seen: list[int] = []

    class Counting(Bright):
        def predict(self, crops: Tensor) -> Tensor:
            seen.append(crops.shape[0] * crops[0, 0].numel())
            return super().predict(crops)

    for crop in (True, False):
        replace(predictor(plan(crop_to_content=crop)), method=Counting())(voxels(), (1, 1, 2))
        seen.append(-1)
    cut = seen.index(-1)
    # Windows of 8: 2 x 2 x 1 cover 12 x 10 x 8 voxels, and 3 x 3 x 2 cover 22 x 18 x 14.
    assert sum(seen[:cut]) == 4 * 8**3
    assert sum(seen[cut + 1 : -1]) == 18 * 8**3
