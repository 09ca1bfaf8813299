"""The same image under two names: an error where the two are in different parts of the split."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations

from tracoco.errors import raise_all
from tracoco.project.cases import Case
from tracoco.project.sources import image_hashes, image_sizes
from tracoco.project.splits import Splits


def check_duplicates(cases: Iterable[Case], splits: Splits) -> list[str]:
    """Refuse an image that is in two parts of the split; a note for each other that is twice.

    Where labels are hidden to simulate having fewer, the case counts as labelled: the two learn
    together either way, and nobody chose to part them.
    """
    part_of = {id_: part for part, ids in splits.parts.items() for id_ in ids}
    part_of |= dict.fromkeys(splits.hidden, "labelled")
    problems, notes = [], []
    for same in identical_images(case for case in cases if case.id in part_of):
        for first, second in combinations(same, 2):
            parts = part_of[first.id], part_of[second.id]
            if parts[0] == parts[1]:
                notes.append(f"cases '{first.id}' and '{second.id}' have the same image")
            else:
                problems.append(
                    f"case '{first.id}' ({parts[0]}) and case '{second.id}' ({parts[1]}) have the "
                    f"same image: {first.images[0]} and {second.images[0]}. Remove one of them, or "
                    "put both into one part"
                )
    raise_all(problems)
    return notes


def identical_images(cases: Iterable[Case]) -> list[list[Case]]:
    """Cases whose images are alike to the last byte, whatever their labels are.

    Images of different sizes differ, so that most scans need not be read.
    """
    by_size = defaultdict(list)
    for case in cases:
        by_size[image_sizes(case)].append(case)
    by_content = defaultdict(list)
    for alike in by_size.values():
        for case in alike if len(alike) > 1 else ():
            by_content[image_hashes(case)].append(case)
    return [alike for alike in by_content.values() if len(alike) > 1]
