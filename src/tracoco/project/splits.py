"""Which cases teach with a label, which without, which choose, which are kept for the end."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from tracoco.config import Settings, checked
from tracoco.errors import raise_all
from tracoco.files import read_json, write_json
from tracoco.project.cases import Case
from tracoco.project.digest import digest
from tracoco.project.groups import divided_groups

PARTS = ("labelled", "unlabelled", "validation", "test")


@dataclass(frozen=True, slots=True)
class Splits:
    """Ids of the cases of each part; no case is in two of them."""

    labelled: tuple[str, ...]
    unlabelled: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    """Those of the unlabelled cases that have a label, left unread to see what fewer labels do."""

    def __post_init__(self) -> None:
        """Refuse a split that leaks, or that has nothing to learn from."""
        raise_all(_problems(self.parts, self.hidden))

    @property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """The parts by name."""
        return {part: getattr(self, part) for part in PARTS}

    @property
    def annotated(self) -> frozenset[str]:
        """The cases whose label may be opened."""
        return frozenset((*self.labelled, *self.validation, *self.test))

    @property
    def ids(self) -> tuple[str, ...]:
        """All cases, sorted."""
        return tuple(sorted((*self.annotated, *self.unlabelled)))

    def hash(self) -> str:
        """Changes with the parts and with their order, since both decide the batches."""
        return digest(self.parts)


def check_splits(splits: Splits, cases: Sequence[Case], source: str) -> None:
    """Refuse a split with unknown cases, labels that do not exist, or a group in two parts."""
    known = {case.id: case for case in cases}
    problems = [
        f"{source} lists case '{id_}', but cases.json has no such case; correct either"
        for id_ in splits.ids
        if id_ not in known
    ]
    problems += [
        f"{source} wants the label of case '{id_}', which has none; move it to 'unlabelled'"
        for id_ in sorted(splits.annotated & known.keys())
        if known[id_].label is None
    ]
    problems += [
        f"{source}: {problem}. Move them together, or take one out"
        for problem in divided_groups(splits.parts, cases)
    ]
    raise_all(problems)


def write_splits(path: Path, splits: Splits) -> None:
    """Write splits.json, which a person may edit."""
    hidden = {"hidden": splits.hidden} if splits.hidden else {}
    write_json(path, splits.parts | hidden)


def read_splits(path: Path) -> Splits:
    """Read splits.json."""
    return Splits(**checked(_File, read_json(path), str(path)).model_dump())


class _File(Settings):
    labelled: tuple[str, ...]
    unlabelled: tuple[str, ...] = ()
    validation: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


def _problems(parts: dict[str, tuple[str, ...]], hidden: Sequence[str]) -> list[str]:
    problems = [] if parts["labelled"] else ["a split needs at least one labelled case"]
    for part, ids in parts.items():
        twice = sorted({id_ for id_ in ids if ids.count(id_) > 1})
        if twice:
            problems.append(f"{part} cases are listed twice: {_quoted(twice)}. Name each once")
    for (one, first), (other, second) in combinations(parts.items(), 2):
        shared = sorted(set(first) & set(second))
        if shared:
            problems.append(
                f"{one} and {other} cases overlap: {_quoted(shared)}. A split must keep them apart"
            )
    seen = sorted(set(hidden) - set(parts["unlabelled"]))
    if seen:
        problems.append(
            f"hidden cases are not among the unlabelled ones: {_quoted(seen)}. List them there, "
            "or take them off 'hidden'"
        )
    return problems


def _quoted(ids: Sequence[str]) -> str:
    return ", ".join(f"'{id_}'" for id_ in ids)
