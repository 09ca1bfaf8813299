"""For authors of methods: the checks that every method of this package passes, for one's own.

    from tracoco.testing import check_method

    check_method(MyMethod, row=ROW)  # or the name of a method that is registered or installed

No test framework is needed; the checks raise an `AssertionError` that says what to look at.
"""

from tracoco.testing.checks import CHECKS, Check
from tracoco.testing.method import check_method
from tracoco.testing.subject import Subject

__all__ = ["CHECKS", "Check", "Subject", "check_method"]
