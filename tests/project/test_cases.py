"""Which names a case may have, and cases.json."""

from pathlib import Path

import pytest

from tracoco.errors import UserError
from tracoco.project.cases import Case, read_cases, unsafe_ids, write_cases


@pytest.mark.parametrize("id_", ["", "../a", "a/b", "a\\b", ".a", "a\n", "a:b", "a*"])
def test_ids_that_are_no_file_names_are_refused(id_: str) -> None:
    assert len(unsafe_ids([id_])) == 1


@pytest.mark.parametrize("id_", ["a", "Fall-3_b", "Müller 2 (left)", "1.2.840"])
def test_ids_that_are_file_names_are_fine(id_: str) -> None:
    assert unsafe_ids([id_]) == []


def test_cases_are_written_and_read(tmp_path: Path) -> None:
    two = (Path("/x/b_0000.nii"), Path("/x/b_0001.nii"))
    cases = [Case("a", (Path("/x/a.nii"),), Path("/y/a.nii"), "patient 1"), Case("b", two, None)]
    write_cases(tmp_path / "cases.json", cases)
    assert read_cases(tmp_path / "cases.json") == cases


def test_a_wrong_key_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "cases.json").write_text('{"case": []}')
    with pytest.raises(UserError, match="did you mean 'cases'"):
        read_cases(tmp_path / "cases.json")
