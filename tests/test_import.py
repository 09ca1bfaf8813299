import subprocess
import sys

import pytest

import tracoco
from tracoco.inference.predictor import Predictor


def test_the_predictor_is_at_hand() -> None:
    assert tracoco.Predictor is Predictor
    with pytest.raises(AttributeError, match="no attribute 'Predicator'"):
        tracoco.Predicator  # noqa: B018 - it must raise


def test_importing_the_package_imports_no_torch() -> None:
    program = "import sys, tracoco; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
