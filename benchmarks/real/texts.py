"""What the page says that does not come from results: names, data sets, how to read the tables."""

from dataclasses import dataclass

DATA = {
    "la": "the Left Atrium",
    "hippocampus": "the hippocampus",
    "acdc": "ACDC",
    "brats19": "BraTS 2019",
    "btcv-pancreas": "the BTCV pancreas",
}
"""The data sets as sentences call them, in the order of the page; each has a main grid so named."""
COLUMNS = {
    "la": "Left Atrium, 8 labels",
    "hippocampus": "hippocampus, 3",
    "acdc": "ACDC, 7 patients",
    "brats19": "BraTS 2019, 10",
    "btcv-pancreas": "BTCV pancreas, 4",
}
"""The same as columns of the first table."""
ROWS = {
    "supervised": "supervised learning",
    "supervised-minutes": "supervised learning for TraCoCo's minutes",
    "bcp": "BCP",
    "cps": "CPS",
    "tracoco-ce": "TraCoCo with cross-entropy",
    "tracoco": "TraCoCo",
    "supervised-all": "supervised learning with all labels",
    "nnunet": "nnU-Net for TraCoCo's minutes",
}
"""The rows of the first table, as sentences call them."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """A part of the page below the first table, and the grids that it shows."""

    title: str
    kind: str
    """How the names of its grids end; the main grids have the names of data sets."""
    question: str


MAIN, COMPONENTS, METHODS, LABELS = "", "-components", "-methods", "-labels"
PARTIAL = "-partial"
DRAWN = {"hippocampus-slices": "every fourth slice of 8 scans", "hippocampus": "2 whole scans"}
"""What is drawn of each data set of a partial grid."""
CHAPTERS = (
    Chapter("The main table in full", MAIN, "Distances, times, memory, and every comparison."),
    Chapter(
        "What each part of TraCoCo is worth",
        COMPONENTS,
        "Parts are added one after the other, as in the paper's component table. Its Dice stands "
        "beside ours: the paper has the Left Atrium at full resolution with 16 labels, a larger "
        "network and ten times the steps, so compare the differences between rows alone.",
    ),
    Chapter(
        "All methods",
        METHODS,
        "Every method of the package with the common recipe, on the same scans, network, crops and "
        "number of steps: what is left is the idea. One seed each; the ten best of seed 0 and "
        "TraCoCo have two more. Seed 0 on the reported cases has chosen which rows have more "
        "seeds, so the Dice of seed 0 of these rows is a little too high. Ranked by the mean "
        "over seeds; differences are to supervised learning. Minutes are those of one core with "
        "other work beside it; docs/reference/methods.md has what a step costs, measured alone.",
    ),
    Chapter(
        "How many labels the unlabelled scans save",
        LABELS,
        "Dice by the number of labelled scans. The last column is the number of labels with which "
        "supervised learning would have the Dice of TraCoCo with the labels of that line: on the "
        "line between two measured numbers of labels, by their logarithm, with a 95 % interval "
        "from the same bootstrap over seeds and cases. Where the supervised curve falls, its "
        "largest value so far counts.",
    ),
    Chapter(
        "Some slices of many scans, or few whole scans",
        PARTIAL,
        "The same number of drawn slices, spent in two ways, tested on the same cases. What is not "
        "drawn of a scan counts as unlabelled: supervised learning leaves it out, TraCoCo learns "
        "from it as from unlabelled scans. `python -m benchmarks.real.partial DATA` counts slices "
        "and voxels of either.",
    ),
)
CONTEXT = "What translation consistency changes"
PEER = "Beside nnU-Net"
ABOUT_PEER = """nnU-Net 2.8.1 by its own code and plans, on the same labelled scans as our runs, on
the grid that our networks see, for the minutes that our runs took, on one core, and scored on the
same cases. It does not use unlabelled scans. It is made for a GPU and for 250,000 steps, and takes
far fewer here: these rows say what it gives on such a machine, and nothing of what it gives on
another one. On the pancreas two minutes are 32 of its steps, too few to learn anything.
`python -m benchmarks.peers.nnunet --help` tells how they are made."""

HEAD = """# Results

Do unlabelled scans help where there are few labels and no GPU? How much, with which method, at what
cost, and when do they not? Public scans, cut down so that two CPU cores can learn from them; the
same few labels for every row, but for the one that has all of them; and the other scans of the
training part without their labels, for the rows that can use them. This page is made by
`make real-page` from the files in `benchmarks/real/results`.

A part of these runs is older than a change in the training: unlabelled crops now begin to count
later, and their weight is limited ([recipe.md](recipe.md#when-unlabelled-scans-count)). CPS and
TraCoCo were measured after it in the main table, and so was the number of labels that unlabelled
scans save. BCP, TraCoCo with cross-entropy, and the tables of parts and of slices were measured
before it. TraCoCo takes a half to two thirds of the time since then, and less on the pancreas.
`supervised-minutes` was trained anew on the pancreas alone: elsewhere it trained for as long as
TraCoCo took before.

On the pancreas the two networks never agreed enough for unlabelled crops to count, in any seed
(0.62 to 0.69 at the end; they begin at 0.75). So CPS and TraCoCo are supervised trainings there,
and what they differ by is chance.

"""

RULES = """These are not the paper's numbers: networks, steps and scans are smaller, so compare rows
of one table with each other and nothing else.

- **Training.** All rows of a table have the same network and the same number of steps, but for
  *supervised-minutes*, which trains as long as TraCoCo does. TraCoCo and CPS train two networks, so
  their steps cost more. Minutes are those of one CPU core with another run beside it.
- **Testing.** The last checkpoint of every run is tested, and no setting is chosen on the reported
  cases: for choices, the projects `NAME-tuning` divide the training scans anew.
- **Figures.** Dice and Jaccard in percent, distances in the unit that stands above them: means over
  structures, then over cases, then mean ± standard deviation over seeds. *Missed* counts structures
  that the prediction does not have at all, in all cases of all seeds together: they have
  Dice 0 and no distance. *Minutes* are those of one training.
- **Differences** are paired: same case, same seed. Their 95 % intervals are percentiles of 10,000
  draws of a bootstrap that draws seeds and cases, both with replacement, and takes all drawn cases
  of all drawn seeds. The p value is twice the fraction of draws on the rarer side of 0. It is
  corrected by Holm's method for the number of comparisons of its table, and a difference is called
  significant where the corrected value is below 0.05. Intervals are not corrected. Two or three
  seeds are few to draw from, so a p value just below 0.05 is weak evidence.
"""

ABOUT = {
    "acdc": """Heart, short-axis MR, right ventricle, myocardium and left ventricle, slice by slice
in 2D at half the resolution. The lists are those of the field: 7 of its 70 training patients have
labels, and its 10 validation patients are reported on. A patient has two scans, which are drawn as
if they were independent, so the intervals are rather too narrow. The spacing of these files is
lost, so their distances count voxels of half the resolution, whatever unit the table names.""",
    "brats19": """Brain tumours, MR, whole tumour, coarse voxels of 4 mm. 50 of the public training
cases: 40 to learn from, the first 10 of them with labels, and 10 to report on.""",
    "btcv-pancreas": """Pancreas in abdominal CT, from the BTCV scans: a stand-in with 20 scans, 16
to learn from and the last 4 by name to report on. It is another data set than the one of the
literature on the pancreas, and four cases carry little.""",
    "hippocampus": """Anterior and posterior hippocampus in small MR volumes. 220 scans by name: 3
of the first 180 have labels, the last 40 are reported on.""",
    "la": """Left atrium, MR, cropped to the heart as in the field's files, in voxels of 1.875 mm.
Of the 80 training scans in the order of the field's list, the first 8 of 64 have labels, and the
last 16 are reported on.""",
}
"""What is to be known of each data set."""
