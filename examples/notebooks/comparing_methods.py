# %% [markdown]
# # Comparing methods
#
# Do unlabelled scans help, and with which method? Three methods train on the same synthetic
# scans: 2 with a label, 2 for validation, and 22 without a label. 12 other scans test them. The
# runs are short, so the numbers show how to compare, and not which method is best.

# %%
import tracoco as tc

scans = tc.demo_scans("comparing_methods")
project = "comparing_methods/project"
tc.init(scans.data, project, validation=2)
store = tc.prepare(project)

# %% [markdown]
# ## Which methods there are
#
# The time of a step is relative to supervised learning. `tracoco methods` lists all of them.

# %%
for entry in tc.list_methods(family="co-training").entries:
    print(f"{entry.name:20} time {entry.cost_cells['time']:>5}  {entry.row.idea}")

# %% [markdown]
# ## Train, predict and score
#
# Everything is the same for all methods but the method itself: scans, split, network, steps and
# seed.

# %%
runs = []
for method in ("supervised", "mean-teacher", "tracoco"):
    run = tc.train(project, method=method, preset="demo", settings={"training.steps": 120})
    predictions = run.folder / "predictions" / "test"
    run.predict(scans.test_images, predictions)
    tc.evaluate(predictions, scans.test_labels)
    runs.append(run)

# %% [markdown]
# ## One table
#
# Dice is a mean over the test cases; a structure that was not found at all counts as 0. A run of
# 120 steps on these scans is far from its end.

# %%
rows = tc.compare(runs).rows
for row in rows:
    print(f"{row.method:13} Dice {row.dice:5.1f} %  structures missed: {row.missed}")

# %% [markdown]
# ## Case by case
#
# A mean hides which scans a method fails on. The scores of each run have a row for each case.

# %%
import numpy as np
from matplotlib import pyplot as plt

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for index, run in enumerate(runs):
    (test,) = run.scores
    dice = np.array([row.dice for row in test.evaluation.rows])
    axes.plot(np.full(len(dice), index), dice, "o", alpha=0.5)
    axes.plot([index - 0.2, index + 0.2], [dice.mean()] * 2, "k-")
axes.set(ylabel="Dice, %", xticks=range(len(runs)), xticklabels=[row.method for row in rows])
plt.show()

# %% [markdown]
# For a result that counts, train several seeds, and let `tracoco benchmark` run the grid: it
# resumes after an interruption and keeps one small file for each run.
