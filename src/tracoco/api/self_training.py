"""Self-training in rounds: what `tracoco self-train` calls."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tracoco.api.projects import ProjectPath, opened_project
from tracoco.api.runs import Run, check_length
from tracoco.console import progress_console
from tracoco.presets import load_config, settings_words
from tracoco.training.rounds import Rounds
from tracoco.training.rounds import self_train as train_rounds

STUDENT = "noisy-student"


def self_train(  # noqa: PLR0913 - each is an option of the command, with the same default
    project: ProjectPath,
    *,
    rounds: int = 2,
    method: str = "supervised",
    preset: str | None = None,
    settings: Mapping[str, Any] | Sequence[str] = (),
    minutes: float | None = None,
    seed: int | None = None,
    threshold: float = 0.0,
    weight: float = 1.0,
    student: Literal["drawn", "previous"] = "drawn",
    out: Path | str | None = None,
    resume: bool = False,
    init_from: Path | str | None = None,
    init_map: Path | str | None = None,
    device: str = "auto",
    progress: bool = True,
) -> Run:
    """Train a teacher on labels, then students on labels and on what the round before predicts.

    Every round is a run of its own, OUT/round-N; that of the last round is returned. A run with a
    `signal` was stopped, and the same call with `resume=True` goes on.

    Args:
        project: the project, or its folder.
        rounds: students, one after the other.
        method: of the teacher; a name of `tracoco methods`.
        preset: a name of `tracoco presets`.
        settings: changes of single settings of all rounds; `method` and `recipe` are the
            teacher's.
        minutes: length of each round by time on this machine, in place of steps.
        seed: changes every random choice.
        threshold: probability below which a voxel of a pseudo-label does not count.
        weight: of the loss of pseudo-labelled crops beside that of labelled ones.
        student: where a student begins: `drawn` weights, or those of the `previous` round.
        out: folder of all rounds; PROJECT/runs/self-train-METHOD-seedN by default.
        resume: continue where it was stopped.
        init_from: start every round from the weights of this run or file.
        init_map: file of lines `their.prefix: our.prefix` for the names of a weights file.
        device: `auto`, `cpu`, `cuda:N` or `mps`.
        progress: show progress on standard error, or in a notebook.
    """
    changes = settings_words(settings)
    changes += [f"training.minutes={minutes}"] if minutes is not None else []
    changes += [f"seed={seed}"] if seed is not None else []
    of_all = [change for change in changes if not change.startswith(("method.", "recipe="))]
    teacher = load_config(preset, [f"method.name={method}", *changes])
    check_length(changes, teacher.training.minutes)
    learner = load_config(
        preset, [f"method.name={STUDENT}", f"method.pseudo_weight={weight}", *of_all]
    )
    opened = opened_project(project)
    default = opened.runs_root / f"self-train-{teacher.method.name}-seed{teacher.seed}"
    reached = train_rounds(
        opened,
        teacher,
        learner,
        Path(out) if out else default,
        Rounds(rounds, threshold, student),
        resume=resume,
        init_from=None if init_from is None else Path(init_from),
        init_map=None if init_map is None else Path(init_map),
        device=device,
        console=progress_console() if progress else None,
    )
    return Run(reached.folder, reached.steps, reached.signal)
