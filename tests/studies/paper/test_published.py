import subprocess
import sys
from collections import Counter
from dataclasses import astuple

import pytest

from tracoco.errors import UserError
from tracoco.studies.paper.published import (
    Published,
    published,
    published_figure,
    published_figures,
    published_gradients,
    published_tables,
)

METHODS = """
    supervised tracoco ua-mt ict sassnet lg-er-mt duwm urpc cac cac-co ps-mt dtc mc-net mc-net-plus
    cps scc unimatch bcp caml mc-caussl bcp-caussl tri-u-mt ss-net dcnet cross-ald dmd patchcl
"""
RESULTS = [result for table in published_tables() for result in published(table)]


def only(table: str, labelled: int, row: str, **facts: object) -> Published:
    """The one result that is meant."""
    found = [
        result
        for result in published(table)
        if (result.labelled, result.row) == (labelled, row)
        and all(getattr(result, name) == value for name, value in facts.items())
    ]
    assert len(found) == 1
    return found[0]


def test_every_line_of_every_table_is_there() -> None:
    assert Counter(result.table for result in RESULTS) == {
        "la": 31,
        "pancreas": 23,
        "brats19": 23,
        "acdc": 40,
        "component-ablation": 6,
        "loss-ablation": 8,
        "cct": 20,
        "cac-comparison": 12,
        "backbones": 3,
        "overlap": 4,
    }
    assert published_tables()[:4] == ["la", "pancreas", "brats19", "acdc"]


# Read off the printed tables, not off the file.
@pytest.mark.parametrize(
    ("table", "labelled", "row", "facts", "measures"),
    [
        ("la", 8, "UA-MT", {}, (86.28, 76.11, 4.63, 18.71)),
        ("la", 8, "DUWM", {}, (85.91, 75.75, 3.31, 12.67)),
        ("la", 8, "CAML", {"best": True}, (89.62, 81.28, 2.02, 8.76)),
        ("la", 8, "TraCoCo (ours)", {"best": False}, (89.29, 80.82, 2.28, 6.92)),
        ("la", 16, "SCC", {"best": False}, (89.81, 81.64, 1.82, 7.15)),
        ("la", 16, "TraCoCo (ours)", {"best": True}, (91.51, 84.40, 1.79, 5.63)),
        ("pancreas", 6, "MC-Net+", {"multiscale": False}, (70.00, 55.66, 3.87, 16.03)),
        ("pancreas", 6, "MC-Net+", {"multiscale": True}, (74.01, 60.02, 3.34, 12.59)),
        ("pancreas", 12, "UniMatch", {"best": True}, (82.35, 70.58, 2.63, 7.66)),
        ("pancreas", 12, "TraCoCo (ours)", {"best": True}, (83.36, 71.70, 1.74, 7.34)),
        ("brats19", 25, "ICT", {}, (83.71, 73.62, 2.65, 12.09)),
        ("brats19", 25, "MCCauSSL", {}, (83.54, 73.46, 1.98, 12.53)),
        ("brats19", 50, "URPC", {}, (85.38, 76.14, 1.87, 8.36)),
        ("acdc", 70, "UNet (fully supervised)", {}, (92.10, 85.45, 0.43, 1.72)),
        ("acdc", 3, "DMD", {}, (66.23, 55.84, 2.40, 8.66)),
        ("acdc", 7, "PatchCL", {}, (89.10, None, 1.80, 4.98)),
        ("acdc", 14, "TraCoCo (ours)", {}, (91.24, 84.32, 0.36, 1.29)),
        ("component-ablation", 12, "CPS + CutMix", {}, (79.68, 67.04, 2.58, 7.22)),
        ("component-ablation", 16, "TraCo", {}, (90.50, 82.71, 1.84, 6.74)),
        ("loss-ablation", 16, "KL", {}, (90.01, 81.88, 1.86, 7.83)),
        ("loss-ablation", 12, "MSE", {}, (80.29, 67.71, 1.21, 6.10)),
        ("cct", 16, "With CCT", {"best": True}, (91.62, 84.59, 1.45, 5.36)),
        ("cct", 14, "With CCT", {}, (91.29, 84.40, 0.33, 1.28)),
        ("cac-comparison", 50, "CAC (Co)", {}, (85.92, 76.94, 2.09, 8.22)),
        ("backbones", 25, "TransUNet*", {}, (87.13, 77.36, 1.57, 6.06)),
        ("overlap", 25, "quarter", {}, (84.82, 74.99, 2.76, 9.88)),
        ("overlap", 25, "full", {}, (84.76, 74.93, 2.36, 9.24)),
    ],
)
def test_results_are_as_printed(
    table: str,
    labelled: int,
    row: str,
    facts: dict[str, object],
    measures: tuple[float | None, ...],
) -> None:
    found = only(table, labelled, row, **facts)
    assert (found.dice, found.jaccard, found.asd, found.hd95) == measures


# Added up from the printed tables; a digit that is mistyped anywhere changes a sum.
@pytest.mark.parametrize(
    ("table", "sums"),
    [
        ("la", (2757.40, 2490.51, 73.88, 268.10)),
        ("pancreas", (1756.64, 1449.31, 61.83, 256.47)),
        ("brats19", (1958.10, 1739.98, 51.62, 218.25)),
        ("acdc", (3271.09, 2741.33, 82.01, 255.85)),
        ("component-ablation", (513.85, 453.05, 11.33, 37.53)),
        ("loss-ablation", (685.51, 604.22, 13.34, 51.44)),
        ("cct", (1754.29, 1576.01, 31.45, 114.58)),
        ("cac-comparison", (1047.86, 943.12, 27.65, 96.01)),
        ("backbones", (259.78, 230.93, 5.80, 22.89)),
        ("overlap", (340.29, 301.95, 10.23, 38.33)),
    ],
)
def test_the_columns_add_up_to_the_printed_ones(table: str, sums: tuple[float, ...]) -> None:
    rows = [(r.dice, r.jaccard or 0.0, r.asd, r.hd95) for r in published(table)]
    assert [sum(column) for column in zip(*rows, strict=True)] == pytest.approx(sums, abs=1e-6)


def test_complexity_and_time_are_as_printed_also_where_they_contradict() -> None:
    scc = only("la", 16, "SCC")
    assert (scc.parameters_m, scc.macs_g, scc.seconds) == (12.35, 95.15, None)
    assert only("pancreas", 6, "MC-Net").macs_g == 83.88
    assert only("pancreas", 12, "MC-Net").macs_g == 83.80
    assert only("acdc", 7, "BCPCauSSL").parameters_m == 3.62
    assert only("acdc", 7, "BCPCauSSL").macs_g is None
    seconds = {(result.dataset, result.cct): result.seconds for result in published("cct")}
    assert seconds["pancreas", False] == 9.892
    assert seconds["brats19", True] == 3.587
    assert seconds["acdc", True] == 0.052


def test_no_result_is_there_twice() -> None:
    keys = Counter(astuple(result)[:8] for result in RESULTS)
    assert keys.most_common(1)[0][1] == 1


def test_overlaps_and_distances_are_plausible() -> None:
    for result in RESULTS:
        if result.jaccard is not None:
            # J = D / (2 - D) holds for a single case, and near enough for means of the same cases.
            dice = result.dice / 100
            assert result.jaccard < result.dice
            assert result.jaccard / 100 == pytest.approx(dice / (2 - dice), abs=0.07)
        assert 0 < result.asd < result.hd95 < 30


def test_the_same_result_has_the_same_figures_in_every_table() -> None:
    def ours(table: str, **facts: object) -> set[tuple[object, ...]]:
        return {
            (r.dataset, r.labelled, r.best, r.dice, r.jaccard, r.asd, r.hd95)
            for r in published(table)
            if all(getattr(r, name) == value for name, value in facts.items())
        }

    main = set().union(*(ours(name, method="tracoco") for name in published_tables()[:4]))
    assert ours("cct", cct=False) <= main
    assert ours("cac-comparison", row="TraCo (Co)") <= main
    assert ours("component-ablation", row="TraCo + CRC") <= main
    assert ours("loss-ablation", row="CRC") <= main
    assert ours("backbones", row="3DUNet") <= main
    assert ours("overlap", row="random") <= main


def test_the_printed_gains_over_cac_follow_from_the_lines() -> None:
    printed = {
        8: (1.01, 0.94, -0.45, -0.82),
        16: (0.67, 0.58, -0.23, -0.35),
        25: (1.26, 1.10, -0.19, -0.17),
        50: (0.77, 0.75, -0.16, -0.18),
    }
    for labelled, gains in printed.items():
        ours = only("cac-comparison", labelled, "TraCo (Co)")
        theirs = only("cac-comparison", labelled, "CAC (Co)")
        assert ours.jaccard is not None
        assert theirs.jaccard is not None
        found = (
            ours.dice - theirs.dice,
            ours.jaccard - theirs.jaccard,
            ours.asd - theirs.asd,
            ours.hd95 - theirs.hd95,
        )
        assert found == pytest.approx(gains, abs=1e-6)


def test_the_protocols_are_those_of_the_tables() -> None:
    assert {result.best for result in published("acdc")} == {True}
    assert {result.best for result in published("brats19")} == {False}
    assert {result.row for result in published("pancreas") if result.multiscale} == {
        "URPC",
        "MC-Net+",
    }
    assert {result.table for result in RESULTS if result.cct} == {"cct"}
    assert sum(result.cct for result in RESULTS) == 10
    assert {result.table for result in RESULTS if result.seconds is None} == {
        *published_tables()
    } - {"cct"}


def test_the_methods_have_our_names() -> None:
    names = {result.row: result.method for result in RESULTS}
    assert names["LG-ER"] == "lg-er-mt"
    assert names["Tri-U-Net"] == "tri-u-mt"
    assert names["MC-Net+"] == "mc-net-plus"
    assert names["CAC (Co)"] == "cac-co"
    assert names["UNet (fully supervised)"] == "supervised"
    assert {result.method for result in RESULTS} == set(METHODS.split())


def test_numbers_of_the_text_about_figures() -> None:
    gains = {
        (point.dataset, point.labelled): point.value
        for point in published_figure("supervised-by-labels")
        if point.quantity == "dice_gain_over_supervised_percent"
    }
    assert gains["la", 8] == 8.26
    assert gains["pancreas", 6] == 24.28
    assert gains["brats19", 125] == 1.49
    thresholds = {point.series: point.value for point in published_figure("thresholds")}
    assert thresholds == {
        "gamma=0.3": 84.93,
        "gamma=0.65": 86.69,
        "beta=0": 85.20,
        "beta=0.05": 86.08,
        "beta=0.1": 86.69,
    }
    late = {(p.series, p.quantity): p.value for p in published_figure("divergence")}
    assert late["mean-teacher", "late_overlap_ratio_percent"] == 98.8
    assert late["tracoco", "late_distance_voxels"] == 5526
    assert {point.labelled for point in published_figure("divergence")} == {None}


def test_no_number_of_a_figure_is_there_twice() -> None:
    points = [point for figure in published_figures() for point in published_figure(figure)]
    assert len({astuple(point)[:5] for point in points}) == len(points) == 27


def test_the_gradients_are_three_losses_for_each_of_six_pairs() -> None:
    gradients = published_gradients()
    pairs = Counter((line.pseudo_label, line.prediction) for line in gradients)
    assert pairs == {
        (label, prediction): 3 for label in (0.55, 0.65, 0.95) for prediction in (0.2, 0.8)
    }
    assert [line.gradient for line in gradients[-3:]] == [-0.1, -1.25, -2.37]


def test_an_unknown_table_or_figure_names_the_nearest() -> None:
    with pytest.raises(UserError, match="no table 'pancres'; did you mean 'pancreas'"):
        published("pancres")
    with pytest.raises(UserError, match="no figure 'treshold'; did you mean 'thresholds'"):
        published_figure("treshold")


def test_reading_the_tables_imports_no_torch() -> None:
    program = (
        "import sys; from tracoco.studies.paper.published import published; "
        "published('la'); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
