"""Break the losses, and what feeds them, on purpose and see that the tests notice: `make mutants`."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: the first `old` in a file of the package becomes `new`."""

    fault: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = ("tests/losses", "tests/methods")
    """Those that should notice."""


CRC, TRANSLATION, SUPERVISED = "losses/crc.py", "losses/translation.py", "losses/supervised.py"
WEIGHTING, MIXING, TRACOCO = "losses/weighting.py", "methods/parts/cutmix.py", "methods/tracoco.py"
COTRAINING, RELEASED = "methods/parts/co_training.py", "methods/tracoco_as_released.py"
CONSISTENCY, PSEUDO_LABELS = "losses/consistency.py", "methods/parts/student_teacher.py"
BATCHES, GEOMETRY, TRAINER = "data/source.py", "geometry.py", "training/trainer.py"
OVERFLOW, DATA, TRAINING = (
    "training/optimizer.py",
    ("tests/data",),
    ("tests/training/test_trainer.py",),
)
MASKED, STUDENT, ROUNDS = (
    "methods/masked_autoencoder.py",
    "methods/noisy_student.py",
    "training/rounds.py",
)
OF_MASKED, OF_STUDENT = (
    ("tests/methods/test_masked_autoencoder.py",),
    ("tests/methods/test_noisy_student.py",),
)
OF_ROUNDS = ("tests/training/test_rounds.py",)
AD_MT, CROSSMATCH, SDCL = (
    (f"tests/methods/test_{name}.py",) for name in ("ad_mt", "crossmatch", "sdcl")
)

MUTANTS = [
    Mutant("CRC: peer not detached", CRC, "peer = peer.detach()", "peer = peer * 1"),
    Mutant("CRC: gamma ignored", CRC, "(confidence >= gamma)", "(confidence >= 0)"),
    Mutant("CRC: threshold excluded", CRC, "confidence >= gamma", "confidence > gamma"),
    Mutant("CRC: beta ignored", CRC, "(peer < beta)", "(peer < 2)"),
    Mutant("CRC: release's negative weight", CRC, "(1 - peer) * (peer <", "peer * (peer <"),
    Mutant("CRC: the most likely class is unlearnt", CRC, "(peer < beta) * _other_classes(peer)", "(peer < beta)"),
    Mutant("CRC: beta ignored with the minimum", CRC, "(least < beta)", "(least < 2)"),
    Mutant("CRC: the minimum itself as weight", CRC, "(1 - least) * (least", "least * (least"),
    Mutant("CRC: the setting of the gate ignored", CRC, "negative_weights[negative_gate]", "negative_weights['class']"),
    Mutant("CRC: negative part's sign", CRC, "* -log_complement", "* log_complement"),
    Mutant("label along the wrong axis", WEIGHTING, "scores.max(dim=1).indices", "scores.max(dim=-1).indices"),
    Mutant("CRC: learns from itself", CRC, "reversed(peers)", "iter(peers)"),
    Mutant("CRC: one network learns nothing", CRC, "return first + second", "return first"),
    Mutant("CRC: padding counts", CRC, "negative.sum(dim=1), valid)", "negative.sum(dim=1))"),
    Mutant("KL: wrong way round", TRANSLATION, "first.exp() * (first - second)", "second.exp() * (second - first)"),
    Mutant("KL: wrong sign", TRANSLATION, "(first - second)", "(second - first)"),
    Mutant("KL: sums along the wrong axis", TRANSLATION, "(first - second)).sum(dim=0)", "(first - second)).sum(dim=-1)"),
    Mutant("KL: stops the gradient of one crop", TRANSLATION, "(first - second)", "(first - second.detach())"),
    Mutant("KL: compares other voxels", TRANSLATION, "predictions[1][:, *there.slices]", "predictions[1][:, *here.slices]"),
    Mutant("entropy: wrong sign", TRANSLATION, "(first.exp() * first + second.exp() * second)", "-(first.exp() * first + second.exp() * second)"),
    Mutant("entropy: one crop only", TRANSLATION, "first.exp() * first + second.exp() * second", "2 * first.exp() * first"),
    Mutant("translation: weights exchanged", TRANSLATION, "consistency_weight * divergences", "entropy_weight * divergences"),
    Mutant("translation: gradient not stopped", TRANSLATION, "first.detach() if stop_gradient", "first if stop_gradient"),
    Mutant("translation: padding counts", TRANSLATION, "masked_mean(voxels, overlap.mask(index))", "masked_mean(voxels)"),
    Mutant("supervised: no Dice", SUPERVISED, " + form.dice * dice", ""),
    Mutant("supervised: no cross-entropy", SUPERVISED, "form.cross_entropy * entropy + ", ""),
    Mutant("Dice: background counts", SUPERVISED, "else classes[1:].mean()", "else classes.mean()"),
    Mutant("Dice: softmax along the wrong axis", SUPERVISED, "logits.softmax(dim=1)", "logits.softmax(dim=-1)"),
    Mutant("Dice: wrong sign", SUPERVISED, "1 - (2 * shared", "1 + (2 * shared"),
    Mutant("Dice: padding counts", WEIGHTING, "else maps * valid.unsqueeze(1)", "else maps"),
    Mutant("log(1 - p): from the class itself", WEIGHTING, "return log_probability.flip(1)", "return log_probability"),
    Mutant("log(1 - p): of the others' sum", WEIGHTING, "others.logsumexp(dim=1, keepdim=True)", "others.amax(dim=1, keepdim=True)"),
    Mutant("ramp: starts at its largest", WEIGHTING, "0.5 * (1 - math", "0.5 * (1 + math"),
    Mutant("ramp: never ends", WEIGHTING, "min(step, length) / length", "step / length"),
    Mutant("mean: over all voxels", WEIGHTING, "mask.sum().clamp(min=1)", "mask.numel()"),
    Mutant("mean: without a mask a sum", WEIGHTING, "values.sum() / max(1, values.numel())", "values.sum()"),
    Mutant("CRC: another gamma by default", CRC, "GAMMA, BETA = 0.65, 0.1", "GAMMA, BETA = 0.75, 0.1"),
    Mutant("pairs: shifted the other way", "data/batch.py", "np.subtract(here.start, there.start)", "np.subtract(there.start, here.start)", ("tests/api/test_own_loops.py",)),
    Mutant("CutMix: box and rest exchanged", MIXING, "given[self.partner], values)", "values, given[self.partner])"),
    Mutant("CutMix: a crop is its own partner", MIXING, "torch.randint(1, count, ())", "torch.randint(0, 1, ())"),
    Mutant("CutMix: pseudo-labels not mixed", COTRAINING, "(mix(pseudo_labels[0]), mix(pseudo_labels[1]))", "pseudo_labels"),
    Mutant("CutMix: crops not mixed", COTRAINING, "self.logits(mix(crops))", "self.logits(crops)"),
    Mutant("TraCoCo: lambda not applied to CRC", TRACOCO, "= weight * loss", "= loss"),
    Mutant("TraCoCo: lambda not applied to KL", TRACOCO, "weight * self.config.consistency", "self.config.consistency"),
    Mutant("pseudo-labels: dropout stays on", PSEUDO_LABELS, "with evaluating(module), ", "with __import__('torch').no_grad(), "),
    Mutant("pseudo-labels: by running statistics", PSEUDO_LABELS, "norm.train()", "norm.eval()"),
    Mutant("pseudo-labels: always by the batch", PSEUDO_LABELS, 'if form == "batch":', "if True:"),
    Mutant("pseudo-labels: move the running statistics", PSEUDO_LABELS, ", frozen_statistics(module):", ":"),
    Mutant("pseudo-labels: labelled crops not in the batch", COTRAINING, "unseen = 0 if", "unseen = labelled if"),
    Mutant("TraCoCo: second crops move the statistics", TRACOCO, "with frozen_statistics(self.networks):\n            second", "if True:\n            second"),
    Mutant("AD-MT: the less sure teacher counts more", "methods/ad_mt.py", ".neg().softmax(", ".softmax(", AD_MT),
    Mutant("AD-MT: labels not mixed as crops are", "methods/ad_mt.py", "target, valid = mix(target), mix(valid)", "valid = mix(valid)", AD_MT),
    Mutant("AD-MT: the student settles what teachers agree on", "methods/ad_mt.py", "(conflict & other & surer)", "(other & surer)", AD_MT),
    Mutant("CrossMatch: decoders do not learn from themselves", "methods/crossmatch.py", "replace(plain, own=probability, given=probability)", "plain", CROSSMATCH),
    Mutant("CrossMatch: both perturbations alike", "methods/crossmatch.py", "(self.config.weak_dropout, self.config.strong_dropout)", "(self.config.weak_dropout,) * 2", CROSSMATCH),
    Mutant("SDCL: right predictions erased too", "methods/sdcl.py", "where & (most_likely(logits) != label)", "where", SDCL),
    Mutant("SDCL: pseudo-labels count as much as labels", "methods/sdcl.py", "torch.where(guessed, self.config.unsupervised_weight, 1.0)", "torch.ones_like(guessed, dtype=torch.float32)", SDCL),
    Mutant("SDCL: corrected also where students agree", "methods/sdcl.py", "(most_likely(first) != most_likely(second)) & half.valid", "half.valid", SDCL),
    Mutant("TraCoCo: second network not supervised", "methods/method.py", "for logits in predictions]", "for logits in predictions[:1]]"),
    Mutant("MSE: peer not detached", CONSISTENCY, "softmax(dim=1) - peer.detach()", "softmax(dim=1) - peer"),
    Mutant("MSE: difference along the wrong axis", CONSISTENCY, "logits.softmax(dim=1) - peer", "logits.softmax(dim=-1) - peer"),
    Mutant("KL of peers: wrong way round", CONSISTENCY, "F.kl_div(logits.log_softmax(dim=1), peer.detach(), reduction=\"none\")", "F.kl_div(peer.detach().log(), logits.softmax(dim=1), reduction=\"none\")"),
    Mutant("as released: KL over classes", RELEASED, "log_softmax(dim=1)\n        other", "log_softmax(dim=0)\n        other"),
    Mutant("as released: KL not clamped", RELEASED, "return logits.clamp(SMALLEST, 1.0)", "return logits"),
    Mutant("as released: paper's negative weight", RELEASED, "least * terms", "(1 - least) * terms"),
    Mutant("as released: bits inverted as meant", RELEASED, "~one_hot * ", "(one_hot - 1) * "),
    Mutant("as released: mean over all voxels", RELEASED, "valid & (confidence >= gamma)", "valid"),
    Mutant("batch: a mask that cannot be pinned", BATCHES, "torch.ones(shape, dtype=torch.bool)", "torch.ones((), dtype=torch.bool).expand(shape)", DATA),
    Mutant("batch: slices of one case alone", BATCHES, "for id_ in ids for", "for id_ in ids[:1] for", DATA),
    Mutant("room: on one side alone", GEOMETRY, "low - missing // 2", "low", DATA),
    Mutant("fp16: an overflow ends the run", TRAINER, "if self.scaler.is_enabled():", "if False:", TRAINING),
    Mutant("fp16: statistics of an overflow stay", OVERFLOW, "buffer.copy_(before)", "buffer.copy_(buffer)", TRAINING),
    Mutant("fp16: banks of an overflow stay", OVERFLOW, "part.set_extra_state(state)", "part.set_extra_state(part.get_extra_state())", TRAINING),
    Mutant("fp16: overflows are never too many", OVERFLOW, "len(self.skipped) >= MOST_SKIPPED", "False", TRAINING),
    Mutant("preset: another method's settings taken over", "methods/__init__.py", " and _owner(own, key) is _owner(other, key)", "", ("tests/test_presets.py",)),
    Mutant("BatchNorm: labelled and unlabelled crops together", "networks/statistics.py", "not all(self.parts)", "all(self.parts)", ("tests/networks/test_statistics.py",)),
    Mutant("TraCoCo: crops that do not count are computed", TRACOCO, "        if batch.unlabelled_counts:", "        if True:"),
    Mutant("co-training: crops that do not count pass the networks", COTRAINING, "self.config.cutmix or not batch.unlabelled_counts", "self.config.cutmix"),
    Mutant("trainer: unlabelled crops are said to count always", TRAINER, "self.unlabelled.value == 0", "False", ("tests/training/test_trainer_recipe.py",)),
    Mutant("unlabelled weight: begins while labels teach much", "training/pseudo_label_monitor.py", "_mean_dice(list(self._dice)[:WINDOW]) < SETTLED", "1 < SETTLED", ("tests/training/test_unlabelled_weight.py",)),
    Mutant("unlabelled weight: two answers need not agree", "training/pseudo_label_monitor.py", "self.limit * min(self.trusted, self._trust)", "self.limit * self.trusted", ("tests/training/test_unlabelled_weight.py",)),
    Mutant("unlabelled weight: networks that taught each other are trusted more", "training/pseudo_label_monitor.py", "min(self.trusted, self._trust)", "self._trust", ("tests/training/test_unlabelled_weight.py",)),
    Mutant("unlabelled weight: begins while two networks disagree", "training/pseudo_label_monitor.py", "self.agreement >= AGREED", "True", ("tests/training/test_unlabelled_weight.py",)),
    Mutant("unlabelled weight: labelled crops may be forgotten", "training/pseudo_label_monitor.py", "self.known < self.known_before - FORGOTTEN", "False", ("tests/training/test_unlabelled_weight.py",)),
    Mutant("unlabelled weight: the structure agreed on most decides", "training/pseudo_label_monitor.py", "return min(found) if found", "return max(found) if found", ("tests/training/test_unlabelled_weight.py",)),
    Mutant("crops: mirrored whatever the plan says", "data/crop_pair.py", '"plan": self.mirror_axes', '"plan": everywhere', DATA),
    Mutant("masked autoencoder: padding counts", MASKED, "crops, hidden & valid", "crops, hidden", OF_MASKED),
    Mutant("masked autoencoder: what is seen counts", MASKED, "crops, hidden & valid", "crops, valid", OF_MASKED),
    Mutant("masked autoencoder: nothing is hidden", MASKED, "crops.masked_fill(hidden.unsqueeze(1), 0)", "crops", OF_MASKED),
    Mutant("masked autoencoder: all crops alike", MASKED, "torch.rand(count, total, device=device)", "torch.rand(1, total, device=device).expand(count, -1)", OF_MASKED),
    Mutant("noisy student: unsure voxels count", STUDENT, "valid[unlabelled] & ~ignored", "valid[unlabelled]", OF_STUDENT),
    Mutant("noisy student: its weight ignored", STUDENT, "self._weight * loss", "loss", OF_STUDENT),
    Mutant("self-training: threshold ignored", ROUNDS, "probability < threshold", "probability < 0", OF_ROUNDS),
]  # fmt: skip


def is_caught(mutant: Mutant) -> bool:
    """Whether the tests fail on a copy of the package with the fault."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source)
        path = source / "tracoco" / mutant.file
        text = path.read_text(encoding="utf-8")
        if mutant.old not in text:
            sys.exit(
                f"{mutant.fault}: {mutant.file} has no {mutant.old!r} any more; correct the list"
            )
        path.write_text(text.replace(mutant.old, mutant.new, 1), encoding="utf-8")
        return not tests_pass(source, mutant.tests)


def tests_pass(source: Path, tests: Iterable[str]) -> bool:
    """Whether these tests pass on the package in `source`."""
    command = [sys.executable, "-m", "pytest", "--exitfirst", "--quiet", "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(
        [*command, *tests], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if result.returncode not in (0, 1):
        sys.exit(f"the tests did not run\n{result.stdout}{result.stderr}")
    return result.returncode == 0


def main() -> None:
    """Try every mutant; fail if one survives."""
    if not tests_pass(ROOT / "src", dict.fromkeys(test for m in MUTANTS for test in m.tests)):
        sys.exit("the tests fail without any fault; correct them first")
    survivors = []
    for number, mutant in enumerate(MUTANTS, start=1):
        caught = is_caught(mutant)
        print(
            f"{number:2} of {len(MUTANTS)}  {'caught' if caught else 'SURVIVED':8}  {mutant.fault}"
        )
        survivors += [] if caught else [mutant.fault]
    print(f"{len(MUTANTS) - len(survivors)} of {len(MUTANTS)} caught")
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()
