# %% [markdown]
# # Quick start
#
# From scans to a prediction in a few minutes on a CPU. The scans here are synthetic: 26 to
# train on, of which only 4 have a label, and 12 to test on. For your own scans, replace
# `scans.data` by their folder: `images/` with all scans and `labels/` with the labels of some
# of them, under the same names.
#
# Everything is written to the folder `quick_start`. Delete it to start again.

# %%
import tracoco as tc

scans = tc.demo_scans("quick_start")
sorted(path.name for path in scans.data.iterdir())

# %% [markdown]
# ## A project
#
# `init` pairs images and labels, splits the cases and plans the training. Two of the labelled
# scans are for validation: they decide which weights the run ends with.

# %%
project = "quick_start/project"
tc.init(scans.data, project, validation=2)
tc.check(project)  # every problem and warning; two labels to learn from are few

# %% [markdown]
# The plan says how scans are resampled and normalised, and how large crops and network are.
# Edit `quick_start/project/plan.yaml` to change a value.

# %%
tc.plan(project)

# %% [markdown]
# ## Training
#
# `prepare` normalises and resamples the scans once. `train` uses the method `tracoco` by default.
# 200 steps with the settings of the demo give a first impression; on your own scans leave out the
# preset and the steps, and the plan decides. `run` has the folder, the settings and the scores of
# the training.

# %%
tc.prepare(project)
run = tc.train(project, preset="demo", settings={"training.steps": 200})
run

# %% [markdown]
# ## Prediction
#
# A predictor is a function from a scan to its labels. The scan may be a path, an image of
# nibabel or SimpleITK, or an array with its spacing. `prediction.write("labels.nii.gz")` writes
# the labels on the grid of the scan.

# %%
predictor = run.predictor()
prediction = predictor(sorted(scans.test_images.iterdir())[0])
prediction

# %% [markdown]
# ## Evaluation and report
#
# All test scans at once, their scores, and one HTML page about the run.

# %%
predictions = run.folder / "predictions" / "test"
cases = run.predict(scans.test_images, predictions)
scores = tc.evaluate(predictions, scans.test_labels)
scores

# %%
run.report()
