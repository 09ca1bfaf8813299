# %% [markdown]
# # Rounds of labelling
#
# Which scans are worth a label? A model from 2 labels chooses them, writes drafts, and learns
# from the corrected labels; then it chooses again. The scans are synthetic, so their true labels
# stand in for the person who corrects. The runs are short: the numbers show how the loop works,
# and not how well.
#
# [The labelling loop](labelling-loop.md) explains how scans are chosen, and how to correct drafts
# in 3D Slicer.

# %%
import tracoco as tc

scans = tc.demo_scans("labelling_rounds")
project = "labelling_rounds/project"
tc.init(scans.data, project, validation=2)
tc.prepare(project)
first = tc.train(project, preset="demo", settings={"training.steps": 150})

# %% [markdown]
# ## The scans to label next
#
# `next_scans` predicts all 22 unlabelled scans. It chooses those that the two networks disagree
# on, and that are unlike the labelled ones and unlike each other.

# %%
chosen = tc.next_scans(project, first, count=4)
chosen

# %% [markdown]
# Each has a draft in `labelling_rounds/project/drafts`: the prediction, to be corrected in place.
# Here is the first of them with its true outline in white and that of the draft in orange.

# %%
import nibabel as nib
from matplotlib import pyplot as plt

scan = chosen.rows[0]
image = nib.load(scan.images[0]).get_fdata()
draft = nib.load(scan.draft).get_fdata()
true = nib.load(scans.all_labels / scan.draft.name).get_fdata()
middle = true.sum(axis=(0, 1)).argmax()

figure, axes = plt.subplots(figsize=(4, 4), layout="constrained")
axes.imshow(image[:, :, middle].T, cmap="gray", origin="lower")
for label, colour in ((true, "white"), (draft, "orange")):
    if label[:, :, middle].any():
        axes.contour(label[:, :, middle].T, [0.5], colors=colour)
axes.set(title=scan.choice.case, xticks=[], yticks=[])
plt.show()

# %% [markdown]
# ## Corrected labels, and the next training
#
# Copying the true labels over the drafts takes the place of your corrections. `update` takes the
# labels into the project and trains a new run, which starts from the weights of the last one. A
# draft that nobody has changed would be left out.

# %%
from shutil import copyfile


def correct(drafts: tc.NextScans) -> None:
    """What a person does with the drafts."""
    for row in drafts.rows:
        copyfile(scans.all_labels / row.draft.name, row.draft)


correct(chosen)
result = tc.update(project, labels=chosen.folder, train=True, settings={"training.steps": 150})
print(f"new labels: {', '.join(result.labels.added)}")

# %% [markdown]
# ## And again

# %%
second = tc.Run.load(f"{project}/runs/tracoco-round1")
chosen = tc.next_scans(project, second, count=4)
correct(chosen)
result = tc.update(project, labels=chosen.folder, train=True, settings={"training.steps": 150})
print(f"new labels: {', '.join(result.labels.added)}")

# %% [markdown]
# ## Has it helped?
#
# Each round scores the run before it and its own on the same validation cases, here only 2, and
# the report of the project shows both. The 12 test scans are no part of the project, and show the
# same on more cases. Longer training is a part of the gain: the weights of each run go on from
# the last one.

# %%
third = tc.Run.load(f"{project}/runs/tracoco-round2")
scores = {}
for labels, run in ((2, first), (6, second), (10, third)):
    predictions = run.folder / "predictions" / "test"
    run.predict(scans.test_images, predictions)
    scores[labels] = tc.evaluate(predictions, scans.test_labels).summary

# %%
for labels, row in scores.items():
    print(f"{labels:2} labels: Dice {row.dice:5.1f} %  structures missed: {row.missed}")

# %%
tc.report(project)
