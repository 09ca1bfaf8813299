"""`make mutants` can make each of its faults, and the tests that must notice them exist."""

from pathlib import Path

import pytest
from scripts.mutants import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.fault)
def test_the_code_that_a_mutant_changes_is_there(mutant: Mutant) -> None:
    text = Path(ROOT, "src", "tracoco", mutant.file).read_text(encoding="utf-8")
    assert mutant.old in text
    assert mutant.old != mutant.new
    assert all(Path(ROOT, test).exists() for test in mutant.tests)
