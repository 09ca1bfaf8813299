"""A short name for a value: equal values have equal digests, on every machine."""

import hashlib
import json
from typing import Any


def digest(value: Any) -> str:
    """SHA-256 of a value's JSON, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
