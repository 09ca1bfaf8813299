"""The same image under two names: a leak where it crosses the parts of a split."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

from tracoco.errors import raise_all
from tracoco.project.cases import Case
from tracoco.project.sources import source_bytes, source_hashes
from tracoco.project.splits import Splits


def check_duplicates(cases: Iterable[Case], splits: Splits) -> list[str]:
    """Refuse an image in two parts of the split; a note for each that one part has twice."""
    part_of = {id_: part for part, ids in splits.parts.items() for id_ in ids}
    problems, notes = [], []
    for same in identical_images(case for case in cases if case.id in part_of):
        for first, second in combinations(same, 2):
            parts = part_of[first.id], part_of[second.id]
            if parts[0] == parts[1]:
                notes.append(f"cases '{first.id}' and '{second.id}' have the same image")
            else:
                problems.append(
                    f"case '{first.id}' ({parts[0]}) and case '{second.id}' ({parts[1]}) have the "
                    f"same image: {first.images[0]} and {second.images[0]}. Remove one of them"
                )
    raise_all(problems)
    return notes


def identical_images(cases: Iterable[Case]) -> list[list[Case]]:
    """Cases whose images are alike to the last byte.

    Files of different sizes differ, so that most scans need not be read.
    """
    images = [replace(case, label=None) for case in cases]
    by_size = defaultdict(list)
    for case in images:
        by_size[source_bytes(case)].append(case)
    by_content = defaultdict(list)
    for alike in by_size.values():
        for case in alike if len(alike) > 1 else ():
            by_content[tuple(source_hashes(case)["images"])].append(case)
    return [alike for alike in by_content.values() if len(alike) > 1]
