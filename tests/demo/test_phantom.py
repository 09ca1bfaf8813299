import numpy as np

from tracoco.demo.phantom import NEIGHBOURS, TARGET, make_phantom


def test_the_same_numbers_give_the_same_scan_and_others_another() -> None:
    first, again, other_index, other_seed = (
        make_phantom(*key) for key in ((0, 0), (0, 0), (0, 1), (1, 0))
    )
    assert np.array_equal(first.image, again.image)
    assert np.array_equal(first.label, again.label)
    for other in (other_index, other_seed):
        assert other.image.shape != first.image.shape or (other.image != first.image).any()


def test_every_scan_holds_one_target_of_a_sensible_size() -> None:
    for index in range(12):
        phantom = make_phantom(3, index)
        assert phantom.image.shape == phantom.label.shape
        assert phantom.image.dtype == np.float32
        assert np.isfinite(phantom.image).all()
        assert set(np.unique(phantom.label)) == {0, 1}
        assert 0.003 < phantom.label.mean() < 0.06


def test_brightness_alone_does_not_find_the_target() -> None:
    look_alike = NEIGHBOURS[0]
    assert (look_alike.brightness, look_alike.uptake) == (TARGET.brightness, TARGET.uptake)
    assert look_alike.wall != TARGET.wall


def test_contrast_and_place_differ_between_scans() -> None:
    phantoms = [make_phantom(0, index) for index in range(12)]
    relative = [np.median(p.image[p.label == 1]) / np.percentile(p.image, 99.5) for p in phantoms]
    assert np.ptp(relative) > 0.2
    centres = [np.argwhere(p.label).mean(axis=0) - np.array(p.label.shape) / 2 for p in phantoms]
    assert np.std(centres, axis=0).max() > 2
