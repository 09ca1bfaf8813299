"""docs/benchmarks.md out of the results in `results/`: `python -m benchmarks.real.page`."""

from pathlib import Path
from textwrap import fill

from benchmarks.real.markdown import plain, table
from benchmarks.real.notes import EARLIER, SUMMARY, read_notes, with_figures
from benchmarks.real.picture import picture
from benchmarks.real.pseudo_labels import pseudo_labels_picture, pseudo_labels_section
from benchmarks.real.rows import GridResults, read_grids
from benchmarks.real.surroundings import surroundings_section
from benchmarks.real.tables import grid_section
from benchmarks.real.windows import windows_section
from tracoco.files import write_text
from tracoco.studies.benchmark.results import over_seeds

ROOT = Path(__file__).parent
"""The folder of the grids."""
DOCS = ROOT.parents[1] / "docs"
README = DOCS.parent / "README.md"
PAGE, PICTURE = DOCS / "benchmarks.md", DOCS / "benchmarks.svg"

HEAD = """# Benchmarks

Do unlabelled scans help where there are few labels and no GPU? Public scans, cut down so that two
CPU cores can learn from them; the same few labels for every row, but for one that has all of them;
and the other scans of the training part without their labels, for the rows that can use them. This
page is made from the files in `benchmarks/real/results` by `make real-page`.

These are not the paper's numbers, and no published number is mixed in: networks, steps and
scans are smaller, so compare rows of one table with each other and nothing else.
"""

RULES = """
How to read the tables:

- **Training.** All rows of a table have the same network and the same number of steps, but for
  *supervised-minutes*, which trains as long as TraCoCo does. TraCoCo and CPS train two networks, so
  their steps cost more. Minutes are of CPU cores with other runs beside
  them, and wander by a factor of two; docs/methods.md has what a step costs, measured alone.
- **Testing.** The last checkpoint of every run is tested, and no setting is chosen on the cases
  reported on. For choices, the projects `NAME-tuning` divide the training scans anew.
- **Figures.** Dice and Jaccard in percent, distances in the unit that stands above them: means over
  structures, then over cases, then mean ± standard deviation over seeds. *Missed* counts structures
  that the prediction does not have at all, in all cases of all seeds together: they have
  Dice 0 and no distance. *Minutes* are those of one training.
- **Differences** are paired: same case, same seed. Their 95 % intervals are percentiles of 10,000
  draws of a bootstrap that draws seeds and cases, both with replacement, and takes all drawn cases
  of all drawn seeds. Where the interval holds 0, the rows are *not separated*. Two or three
  seeds are few to draw from, so an interval that barely misses 0 is weak evidence; many rows are
  compared, and nothing is corrected for that.
"""

NOTHING = "\nNothing has been run yet.\n"

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
    "hippocampus-methods": """Every method of the package with its own defaults, on the same scans,
network, crops and number of steps: what is left is the idea. One seed, so differences of less than
a point mean little. Minutes are those of one core with other work beside it, and wander by half;
docs/methods.md has what a step costs, measured alone.""",
    "acdc-unet": """The paper's 2D UNet at a quarter of its width, on ACDC: short-axis MR of
the heart, right ventricle, myocardium and left ventricle, slice by slice. 7 of the 70 training
patients of the field's lists have labels, and the 10 validation patients are reported on. Settings
are those of the paper's preset for 7 patients (`acdc-7`), learning rate, augmentation, noise and
ramp included. Crops have 96 x 96 pixels of slices of about 128 x 108, and there are 3,000 steps in
place of 50,000. A patient has two scans, which are drawn as if they were independent, so the
intervals are rather too narrow. The spacing of these files is lost, so distances count voxels of
half the resolution, whatever unit the table names.""",
    "la-half-vnet": """The paper's VNet at a quarter of its width, on MR of the left atrium, cropped
to the heart as in the field's files, in voxels of 1.25 mm, half the field's resolution. Of the 80
training scans in the order of the field's list, the first 8 of 64 have labels, and the last 16 are
reported on. Settings are those of the paper's preset for 8 labels (`la-8`), learning rate,
augmentation, noise and ramp included. The crop is about half of the paper's, and there are 3,000
steps in place of 15,000.""",
    "la": """Left atrium, MR, cropped to the heart as in the field's files, in voxels of 1.875 mm.
Of the 80 training scans in the order of the field's list, the first 8 of 64 have labels, and the
last 16 are reported on.""",
}
"""What is to be known of the data of each grid."""


BEGIN, END = "<!-- results: made by `make real-page` -->\n", "<!-- end of results -->"
"""What stands between these in the README is made from the results."""
HEADLINE = {"supervised": "supervised", "cps": "CPS", "tracoco": "TraCoCo"}
"""Rows of the README's table: methods that every reader looks for."""


def main() -> None:
    """Write the page and its picture, and the results in the README."""
    grids = read_grids(ROOT)
    write_text(PAGE, page(grids, read_notes(ROOT)))
    write_text(README, with_results(README.read_text(encoding="utf-8"), grids))
    if _shown(grids):
        write_text(PICTURE, picture(_shown(grids)))
    for grid in grids:
        if grid.pseudo_labels:
            write_text(curves(grid.name), pseudo_labels_picture(grid.pseudo_labels))


def with_results(readme: str, grids: list[GridResults]) -> str:
    """The README with the table of the results as they are now."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{readme_table(grids)}{END}{after}"


def readme_table(grids: list[GridResults]) -> str:
    """Mean Dice of each data set on which all headline methods have results."""
    lines = []
    for grid in grids:
        rows = {row.name: row for found in grid.rows.values() for row in found}
        results = {name: list(rows[name].results.values()) for name in HEADLINE if name in rows}
        if len(results) < len(HEADLINE) or not all(results.values()):
            continue
        cells = [
            f"{found.mean:.1f}" for each in results.values() if (found := over_seeds(each, "dice"))
        ]
        seeds = " or ".join(map(str, sorted({len(each) for each in results.values()})))
        lines.append([plain(grid.grid.title), *cells, seeds])
    if not lines:
        return ""
    head = ["mean Dice (%) on held-out test scans", *HEADLINE.values(), "seeds"]
    return table(head, lines)


def curves(name: str) -> Path:
    """The picture of a grid's pseudo-labels."""
    return DOCS / f"pseudo-labels-{name}.svg"


def page(grids: list[GridResults], notes: dict[str, str]) -> str:
    """The page as Markdown; `notes` are what was found, by the grid or over all."""
    shown = _shown(grids)
    parts = []
    for each in shown:
        found = f"\n{with_figures(notes[each.name], shown)}" if each.name in notes else ""
        about = fill(ABOUT.get(each.name, ""), 100)
        measured = surroundings_section(each.surroundings) + windows_section(each.windows)
        measured += pseudo_labels_section(each.pseudo_labels, curves(each.name).name)
        parts.append(f"\n{grid_section(each, about)}{measured}{found}")
    image = f"\n![Dice of every row: a dot a seed, a line at the mean]({PICTURE.name})\n"
    waiting = [plain(grid.grid.title) for grid in grids if not grid.tried]
    parts = [image, *parts] if shown else [NOTHING]
    parts += [f"\nNot run yet: {'; '.join(waiting)}.\n"] if waiting and shown else []
    summary = [f"\n{with_figures(notes[SUMMARY], shown)}"] if SUMMARY in notes else []
    earlier = [f"\n{notes[EARLIER]}"] if EARLIER in notes else []
    return "".join([HEAD, *summary, RULES, *parts, *earlier])


def _shown(grids: list[GridResults]) -> list[GridResults]:
    return [grid for grid in grids if grid.tried]


if __name__ == "__main__":
    main()
