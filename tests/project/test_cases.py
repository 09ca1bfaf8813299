from collections.abc import Callable
from pathlib import Path

import pytest

from tracoco.errors import UserError
from tracoco.project.cases import Case, find_cases, read_cases, unsafe_ids, write_cases

Touch = Callable[..., None]


@pytest.fixture
def touch(tmp_path: Path) -> Touch:
    """Make empty files: pairing looks at names alone."""

    def touch_files(*names: str) -> None:
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()

    return touch_files


def test_images_and_labels_are_paired_by_stem(data: Path) -> None:
    cases = find_cases(data)
    assert [case.id for case in cases] == ["a", "b", "c", "u", "v"]
    assert [case.label is None for case in cases] == [False, False, False, True, True]
    assert cases[1].images == (data / "images" / "b.nii.gz",)
    assert cases[1].label == data / "labels" / "b.nii.gz"


def test_paths_are_absolute(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_cases(Path("data")) == find_cases(data)


def test_another_folder_of_labels_takes_the_place_of_the_usual_one(
    tmp_path: Path, touch: Touch
) -> None:
    touch("images/a.nii", "images/b.nii", "labels/a.nii", "second_reader/b.nii")
    cases = find_cases(tmp_path, tmp_path / "second_reader")
    assert [case.label for case in cases] == [None, tmp_path / "second_reader" / "b.nii"]


def test_names_of_nnunet_are_understood(tmp_path: Path, touch: Touch) -> None:
    touch("imagesTr/a_0000.nii.gz", "imagesTr/b_0000.nii.gz", "labelsTr/a.nii.gz")
    assert [(case.id, case.label is not None) for case in find_cases(tmp_path)] == [
        ("a", True),
        ("b", False),
    ]


def test_numbered_scans_are_not_taken_for_channels(tmp_path: Path, touch: Touch) -> None:
    touch(*(f"{folder}/scan_000{i}.nii" for folder in ("images", "labels") for i in range(3)))
    assert [case.id for case in find_cases(tmp_path)] == ["scan_0000", "scan_0001", "scan_0002"]


def test_channels_in_files_of_their_own_are_refused(tmp_path: Path, touch: Touch) -> None:
    touch("images/a_0000.nii", "images/a_0001.nii", "labels/a.nii")
    with pytest.raises(UserError, match=r"a_0001\.nii is a further channel of case 'a'"):
        find_cases(tmp_path)


def test_hidden_and_other_files_are_passed_over(tmp_path: Path, touch: Touch) -> None:
    touch("images/a.nii", "images/._a.nii", "images/a.json", "labels/a.nii")
    assert len(find_cases(tmp_path)) == 1


def test_all_problems_are_named_at_once(tmp_path: Path, touch: Touch) -> None:
    touch("images/liver_12.nii", "images/b.nii", "images/b.nii.gz", "images/?.nii")
    touch("labels/b.nii", "labels/liver_21.nii", "labels/zzz.nii")
    with pytest.raises(UserError) as error:
        find_cases(tmp_path)
    text = str(error.value)
    assert text.startswith("4 problems:")
    assert "case 'b' has several images" in text
    assert "liver_21.nii has no image 'liver_21'; the nearest is 'liver_12'" in text
    assert "zzz.nii has no image 'zzz'; none has a name like it" in text
    assert "case '?' cannot be the name of a file" in text


def test_two_labels_of_one_case_are_refused(tmp_path: Path, touch: Touch) -> None:
    touch("images/a.nii", "labels/a.nii", "labels/a.nii.gz")
    with pytest.raises(UserError, match="case 'a' has several labels"):
        find_cases(tmp_path)


def test_an_empty_folder_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        find_cases(tmp_path)
    assert "has no folder images/ or imagesTr/; it holds nothing" in str(error.value)
    assert "has no folder labels/ or labelsTr/; it holds nothing" in str(error.value)


def test_a_folder_without_images_says_what_was_found(tmp_path: Path, touch: Touch) -> None:
    touch("scans/a.nii", "labels/a.nii")
    with pytest.raises(UserError, match=r"no folder images/ or imagesTr/; it holds labels, scans"):
        find_cases(tmp_path)


def test_images_of_unknown_formats_are_named(tmp_path: Path, touch: Touch) -> None:
    touch("images/a.dcm", "labels/a.nii")
    with pytest.raises(UserError, match=r"holds no scan \(\.nii\.gz, .*\); it holds a\.dcm"):
        find_cases(tmp_path)


def test_no_label_at_all_is_refused(tmp_path: Path, touch: Touch) -> None:
    touch("images/a.nii")
    (tmp_path / "labels").mkdir()
    with pytest.raises(UserError, match="labels holds no scan"):
        find_cases(tmp_path)


@pytest.mark.parametrize("labels", [None, Path("nowhere")])
def test_a_missing_folder_is_refused(tmp_path: Path, labels: Path | None) -> None:
    with pytest.raises(UserError, match="is not a folder"):
        find_cases(tmp_path / "none" if labels is None else tmp_path, labels)


@pytest.mark.parametrize("id_", ["", "../a", "a/b", "a\\b", ".a", "a\n", "a:b", "a*"])
def test_ids_that_are_no_file_names_are_refused(id_: str) -> None:
    assert len(unsafe_ids([id_])) == 1


@pytest.mark.parametrize("id_", ["a", "Fall-3_b", "Müller 2 (left)", "1.2.840"])
def test_ids_that_are_file_names_are_fine(id_: str) -> None:
    assert unsafe_ids([id_]) == []


def test_cases_are_written_and_read(tmp_path: Path) -> None:
    cases = [Case("a", (Path("/x/a.nii"),), Path("/y/a.nii")), Case("b", (Path("/x/b.nii"),), None)]
    write_cases(tmp_path / "cases.json", cases)
    assert read_cases(tmp_path / "cases.json") == cases


def test_a_wrong_key_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "cases.json").write_text('{"case": []}')
    with pytest.raises(UserError, match="did you mean 'cases'"):
        read_cases(tmp_path / "cases.json")
