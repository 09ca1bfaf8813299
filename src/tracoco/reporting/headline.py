"""The top of the page: figures to see first, and what a reader must know before any of them."""

from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from tracoco.methods import find_row
from tracoco.reporting.run_record import RunRecord, ScoreSet
from tracoco.runs.folder import CHOSEN_ON_TEST
from tracoco.text import UNDEFINED, count, duration, number, short
from tracoco.training.pseudo_label_monitor import TRUSTED


@dataclass(frozen=True, slots=True)
class Tile:
    """A headline figure."""

    title: str
    figure: str
    about: str


def tiles(run: RunRecord) -> list[Tile]:
    """Scores of the first set, length of the run, size of the data."""
    total = run.config.training.length
    scores = _score_tiles(run.scores[0]) if run.scores else _no_score_tiles()
    if run.imported_from:
        return [*scores, Tile("weights", "imported", f"from {run.imported_from}")]
    return [
        *scores,
        Tile("steps", f"{run.steps_done:,}", "all done" if run.finished else f"of {total:,}"),
        Tile(
            "labelled scans",
            f"{len(run.splits.labelled):,}",
            "; ".join(
                filter(None, (f"and {len(run.unlabelled):,} without{_hidden(run)}", run.fold))
            ),
        ),
        _time_tile([record.seconds for record in run.log]),
    ]


def _hidden(run: RunRecord) -> str:
    return f"; {count(run.hidden_labels, 'label')} hidden" if run.hidden_labels else ""


def _score_tiles(scores: ScoreSet) -> list[Tile]:
    evaluation = scores.evaluation
    summary, protocol = evaluation.summary, evaluation.protocol
    spread = "" if summary.dice_sd is None else f"± {number(summary.dice_sd)}, "
    watermark = f"; {evaluation.watermark}" if evaluation.watermark else ""
    cases = f"{spread}{scores.name}, {count(summary.cases, 'case')}{watermark}"
    unscored = summary.missed + summary.spurious
    if protocol.empty == "zero":
        hd95_about = "empty masks count as 0"
    else:
        hd95_about = f"without {unscored} missed or spurious" if unscored else "of all cases"
    return [
        Tile("Dice, %", number(summary.dice), cases),
        Tile(f"HD95, {protocol.units}", number(summary.hd95, 2), hd95_about),
        Tile("missed", str(summary.missed), f"of {count(len(evaluation.rows), 'structure')}"),
    ]


def _no_score_tiles() -> list[Tile]:
    return [Tile(name, UNDEFINED, "not evaluated yet") for name in ("Dice, %", "HD95", "missed")]


def _time_tile(seconds: list[float]) -> Tile:
    if not seconds:
        return Tile("time", UNDEFINED, "no step yet")
    pace = f"{short(sum(seconds) / len(seconds))} s a step"
    return Tile("time in steps", duration(sum(seconds)), pace)


def warnings(run: RunRecord) -> list[str]:
    """What changes the meaning of the figures."""
    method = find_row(run.config.method.name)
    found = [f"Warning: {method.caution}."] if method and method.caution else []
    if run.chosen_on_test:
        found.append(
            f"Of this run, {CHOSEN_ON_TEST} (training.select_on=test, as in many papers): what is "
            "shown of that checkpoint flatters, and is no estimate for new scans. The last "
            "checkpoint was not chosen at all."
        )
    spans = [
        f"from step {first:,} to {last:,}" if last > first else f"at step {first:,}"
        for first, last in run.collapsed_spans()
    ]
    if spans:
        found.append(
            f"The pseudo-labels were collapsed {' and '.join(spans)}: there, "
            f"{_named(run, 'collapsed')} was all but absent from them, and the unlabelled scans "
            "taught that there is none."
        )
    found += _unlabelled_notes(run)
    fading = [record.step for record in run.log if record.fading]
    if fading and run.config.training.unlabelled_weight == "scheduled":
        found.append(
            f"The pseudo-labels had less and less of {_named(run, 'fading')}, seen first at step "
            f"{fading[0]:,}; such runs often end no better than without unlabelled scans."
        )
    found += [
        f"The scores of '{scores.name}' are no test of new scans: {scores.evaluation.watermark}."
        for scores in run.scores
        if scores.evaluation.watermark
    ]
    found += [
        f"The scores of '{scores.name}' are no test of new scans: {reason}."
        for scores in run.scores
        for reason in run.seen_before(scores)
    ]
    return found


def _unlabelled_notes(run: RunRecord) -> list[str]:
    """What the adaptive weight of unlabelled crops did, where that is out of the ordinary."""
    found, weights = [], [record.unlabelled for record in run.log if record.unlabelled]
    if weights and run.finished and not any(each.weight for each in weights):
        found.append(
            "Unlabelled scans never counted: the networks did not come to know the labelled crops "
            "well enough, or their pseudo-labels lacked a structure or disagreed on it. The run "
            "has learnt from labels alone; more steps or more labels may help."
        )
    doubted = [each.agreement for each in weights if each.doubted and each.agreement is not None]
    if doubted:
        first = next((each.agreement for each in weights if each.weight), None)
        lesser = [min(each, each if first is None else first) for each in doubted]
        found.append(
            f"Unlabelled scans counted less during {len(doubted):,} steps because the two networks "
            f"disagreed on them: their mean Dice was {100 * fmean(lesser):.0f} (the lesser of that "
            "at the step and that before they taught each other), and the scans count in full from "
            f"{100 * TRUSTED:.0f} on."
        )
    forgotten = sum(each.forgotten for each in weights)
    if forgotten:
        found.append(
            f"Unlabelled scans counted less during {forgotten:,} steps because the Dice on "
            "labelled crops fell after they began to count: what they teach contradicts the labels."
        )
    restrained = [record.step for record in run.log if record.restrained]
    if restrained:
        found.append(
            f"Unlabelled scans counted less during {len(restrained):,} steps, first at step "
            f"{restrained[0]:,}, because {_named(run, 'restrained')} faded from the pseudo-labels."
        )
    lost = [record.step for record in run.log if record.lost]
    if lost:
        steps = " and ".join(f"{step:,}" for step in lost)
        found.append(
            f"The pseudo-labels lost {_named(run, 'lost')} at step {steps}: the run went back to "
            "its weights from before unlabelled scans counted, and let these count half as much."
        )
    ending = run.facts.ended_with
    if ending and ending.supervised:
        found.append(
            "The run ends with the weights from before unlabelled scans counted: on the validation "
            f"cases their Dice is {100 * ending.supervised_dice:.1f}, that of the last step "
            f"{100 * ending.last_dice:.1f}."
        )
    return found


def _named(run: RunRecord, sign: Literal["collapsed", "fading", "restrained", "lost"]) -> str:
    """The classes of which the log has a sign of failure, at one step or another."""
    found = dict.fromkeys(name for record in run.log for name in getattr(record, sign))
    return " and ".join(f"'{run.renamed.get(name, name)}'" for name in found)


def unfinished_note(run: RunRecord) -> str | None:
    """How far a run is that has not ended."""
    if run.finished:
        return None
    return (
        f"This run is not finished: step {run.steps_done:,} of {run.config.training.length:,}. "
        "To go on, give the command that started it again, with --resume."
    )
