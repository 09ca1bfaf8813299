"""Scores of a case: classes, units, and the structures that are missed, spurious or absent."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.evaluation.score_case import score_case
from tracoco.evaluation.scores import CaseScore, Protocol

Labels = NDArray[np.uint8]
DISTANCES = ("asd", "assd", "hd95")
OVERLAPS = ("dice", "jaccard", "nsd")


def label_map(**places: int) -> Labels:
    """A row of ten voxels, 2 mm long: `label_map(at3=1)` has a voxel of class 1 at index 3."""
    labels = np.zeros((10, 3, 3), dtype=np.uint8)
    for place, value in places.items():
        labels[int(place.removeprefix("at")), 1, 1] = value
    return labels


def score(prediction: Labels, truth: Labels, protocol: Protocol | None = None) -> CaseScore:
    protocol = protocol or Protocol()
    (only,) = score_case("P1", prediction, truth, (2.0, 1.0, 5.0), {1: "node"}, protocol)
    return only


def values(score: CaseScore, keys: tuple[str, ...]) -> list[float | None]:
    return [getattr(score, key) for key in keys]


def test_a_voxel_three_off() -> None:
    found = score(label_map(at2=1), label_map(at5=1))
    # 3 voxels of 2 mm; no overlap; neither missed nor spurious, since both have the structure.
    assert values(found, DISTANCES) == [6.0, 6.0, 6.0]
    assert values(found, OVERLAPS) == [0.0, 0.0, 0.0]
    assert (found.case, found.label, found.name) == ("P1", 1, "node")
    assert (found.missed, found.spurious, found.absent) == (False, False, False)


def test_voxels_as_unit() -> None:
    protocol = Protocol(units="voxel", tolerance=3.0)
    found = score(label_map(at2=1), label_map(at5=1), protocol)
    assert values(found, DISTANCES) == [3.0, 3.0, 3.0]
    assert found.nsd == 100.0
    assert found.truth_ml == pytest.approx(0.01)


def test_the_tolerance_is_the_protocols() -> None:
    assert score(label_map(at2=1), label_map(at5=1), Protocol(tolerance=6.0)).nsd == 100.0
    assert score(label_map(at2=1), label_map(at5=1), Protocol(tolerance=5.9)).nsd == 0.0


def test_volumes_in_millilitres_and_their_signed_error() -> None:
    # A voxel is 2 x 1 x 5 = 10 cubic millimetres, 0.01 ml. One of two voxels: half too little.
    found = score(label_map(at2=1), label_map(at2=1, at3=1))
    assert found.prediction_ml == pytest.approx(0.01)
    assert found.truth_ml == pytest.approx(0.02)
    assert found.volume_error == pytest.approx(-50)


def test_a_missed_structure_has_no_distance_and_is_counted() -> None:
    found = score(label_map(), label_map(at5=1))
    assert values(found, DISTANCES) == [None, None, None]
    assert values(found, OVERLAPS) == [0.0, 0.0, 0.0]
    assert found.volume_error == -100.0
    assert (found.missed, found.spurious, found.absent) == (True, False, False)


def test_a_spurious_structure_has_no_distance_and_is_counted() -> None:
    found = score(label_map(at5=1), label_map())
    assert values(found, DISTANCES) == [None, None, None]
    assert values(found, OVERLAPS) == [0.0, 0.0, 0.0]
    assert found.volume_error is None
    assert (found.missed, found.spurious, found.absent) == (False, True, False)


def test_a_structure_that_neither_has_is_no_success() -> None:
    found = score(label_map(), label_map())
    assert values(found, DISTANCES + OVERLAPS) == [None] * 6
    assert (found.missed, found.spurious, found.absent) == (False, False, True)


@pytest.mark.parametrize(
    ("prediction", "truth"),
    [
        (label_map(), label_map(at5=1)),
        (label_map(at1=1), label_map()),
        (label_map(), label_map()),
    ],
    ids=["missed", "spurious", "absent"],
)
def test_the_papers_convention_scores_zero_for_what_is_empty(
    prediction: Labels, truth: Labels
) -> None:
    found = score(prediction, truth, Protocol(empty="zero"))
    assert values(found, DISTANCES + OVERLAPS) == [0.0] * 6
    # The flattering distance of 0 does not hide the miss.
    assert found.missed == bool(truth.any())


def test_the_papers_convention_changes_nothing_else() -> None:
    pair = label_map(at2=1, at3=1), label_map(at3=1, at4=1)
    assert score(*pair, Protocol(empty="zero")) == score(*pair)


def test_classes_are_scored_apart() -> None:
    truth = label_map(at1=1, at8=2)
    prediction = label_map(at1=1, at6=2)
    names = {1: "liver", 2: "spleen", 3: "cyst"}
    found = score_case("P1", prediction, truth, (2.0, 1.0, 5.0), names, Protocol())
    assert [(s.label, s.name, s.dice, s.hd95) for s in found] == [
        (1, "liver", 100.0, 0.0),
        (2, "spleen", 0.0, 4.0),
        (3, "cyst", None, None),
    ]


def test_an_image_has_area_but_no_volume() -> None:
    truth = np.zeros((9, 9), dtype=np.uint8)
    truth[2:7, 2:7] = 1
    (found,) = score_case("P1", truth, truth, (1.0, 1.0), {1: "1"}, Protocol())
    assert (found.dice, found.hd95, found.truth_ml) == (100.0, 0.0, None)


@pytest.mark.parametrize("thin", [0, 1, 2])
def test_a_volume_of_one_slice_is_scored_as_an_image(thin: int) -> None:
    truth, prediction = np.zeros((2, 12, 14), dtype=np.uint8)
    truth[2:9, 2:9] = prediction[2:9, 2:12] = 1
    spacing = [1.0, 2.0]
    (image,) = score_case("P1", prediction, truth, spacing, {1: "1"}, Protocol())
    prediction, truth = (np.expand_dims(array, thin) for array in (prediction, truth))
    spacing.insert(thin, 8.0)
    (volume,) = score_case("P1", prediction, truth, spacing, {1: "1"}, Protocol())
    assert values(volume, DISTANCES + OVERLAPS) == values(image, DISTANCES + OVERLAPS)
    assert image.asd
    assert volume.truth_ml == pytest.approx(49 * 16 / 1000)


def test_grids_must_agree() -> None:
    with pytest.raises(ValueError, match="P1: prediction"):
        score(label_map()[1:], label_map())


def test_a_misspelt_convention_is_not_the_other_one() -> None:
    with pytest.raises(UserError, match="units 'voxels' does not exist; did you mean 'voxel'"):
        Protocol(units="voxels")  # type: ignore[arg-type]  # what is tested
    with pytest.raises(UserError, match="did you mean 'zero'"):
        Protocol(empty="zeros")  # type: ignore[arg-type]  # what is tested
    with pytest.raises(UserError, match=r"tolerance is -1.0"):
        Protocol(tolerance=-1.0)
