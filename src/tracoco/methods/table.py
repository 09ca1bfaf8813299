"""The table of methods, in order of year, and what a row tells without importing the method."""

from dataclasses import dataclass
from typing import Final, Literal

Faithful = Literal[
    "released recipe reproduced",
    "published formulas, common recipe",
    "no public code: from the paper",
    "no public code: reconstruction",
]
"""How near the package is to a publication; each method is exactly one of these.

The recipe is reproduced where `--recipe released` states all that matters for a data set of the
field. It is the common one where the release is for other data, or cannot be stated in full.
"""
RELEASED_RECIPE: Final = "released recipe reproduced"
COMMON_RECIPE: Final = "published formulas, common recipe"
FROM_PAPER: Final = "no public code: from the paper"
RECONSTRUCTION: Final = "no public code: reconstruction"


@dataclass(frozen=True, slots=True)
class MethodRow:
    """What is known of a method without building it."""

    target: str
    """`module:Class`."""
    idea: str
    trained_by_unlabelled: tuple[str, ...]
    """Modules that unlabelled crops teach; a method without any is given no unlabelled crops."""
    pairs: bool = False
    """Whether it uses the second crop of each pair; if not, those crops are not read."""
    year: int | None = None
    """Of the publication; none for what is older than the field, or not published."""
    venue: str = ""
    """Where it was published."""
    faithful: Faithful | None = None
    """None for a method that a user has registered."""
    caution: str = ""
    """What a run of this method tells its user before it starts, if anything."""


METHODS: dict[str, MethodRow] = {
    "supervised": MethodRow(
        target="tracoco.methods.supervised:Supervised",
        year=None,
        venue="",
        faithful=RELEASED_RECIPE,
        idea="Learn from the labelled scans alone: the bound that the others must beat.",
        trained_by_unlabelled=(),
    ),
    "entropy-minimisation": MethodRow(
        target="tracoco.methods.entropy_minimisation:EntropyMinimisation",
        year=2004,
        venue="NeurIPS",
        faithful=RELEASED_RECIPE,
        idea="Be ever surer of what you predict on unlabelled crops.",
        trained_by_unlabelled=("network",),
    ),
    "mean-teacher": MethodRow(
        target="tracoco.methods.mean_teacher:MeanTeacher",
        year=2017,
        venue="NeurIPS",
        faithful=RELEASED_RECIPE,
        idea="Predict on unlabelled crops what the running average of yourself does.",
        trained_by_unlabelled=("student",),
    ),
    "ua-mt": MethodRow(
        target="tracoco.methods.ua_mt:UAMT",
        year=2019,
        venue="MICCAI",
        faithful=RELEASED_RECIPE,
        idea="Predict what your running average does, where it is sure in several noisy passes.",
        trained_by_unlabelled=("student",),
    ),
    "ict": MethodRow(
        target="tracoco.methods.ict:ICT",
        year=2019,
        venue="IJCAI",
        faithful=RELEASED_RECIPE,
        idea="Predict for a blend of two crops the blend of your running average's predictions.",
        trained_by_unlabelled=("student",),
    ),
    "sassnet": MethodRow(
        target="tracoco.methods.sassnet:SASSNet",
        year=2020,
        venue="MICCAI",
        faithful=RELEASED_RECIPE,
        idea="Draw shapes in unlabelled crops that a discriminator takes for labelled ones.",
        trained_by_unlabelled=("network.encoder", "network.decoder", "distance_head"),
    ),
    "lg-er-mt": MethodRow(
        target="tracoco.methods.lg_er_mt:LGERMT",
        year=2020,
        venue="MICCAI",
        faithful=RELEASED_RECIPE,
        idea="Mean teacher that also compares which voxels are alike, with little entropy.",
        trained_by_unlabelled=("student",),
    ),
    "duwm": MethodRow(
        target="tracoco.methods.duwm:DUWM",
        year=2020,
        venue="MICCAI",
        faithful=RECONSTRUCTION,
        idea="Agree with the teacher in prediction and features, the more the surer it is of each.",
        trained_by_unlabelled=("student",),
        caution="no public code, and the paper was not consulted: this is a reconstruction",
    ),
    "fixmatch": MethodRow(
        target="tracoco.methods.fixmatch:FixMatch",
        year=2020,
        venue="NeurIPS",
        faithful=COMMON_RECIPE,
        idea="What you are sure of in a crop must hold when its intensities change.",
        trained_by_unlabelled=("network",),
    ),
    "dtc": MethodRow(
        target="tracoco.methods.dtc:DTC",
        year=2021,
        venue="AAAI",
        faithful=RELEASED_RECIPE,
        idea="Draw a mask and the distances to its surface, and have both say the same.",
        trained_by_unlabelled=("network", "distance_head"),
    ),
    "tri-u-mt": MethodRow(
        target="tracoco.methods.tri_u_mt:TriUMT",
        year=2021,
        venue="MICCAI",
        faithful=COMMON_RECIPE,
        idea="Mean teacher of masks, distances and reconstructions, each as far as it is sure.",
        trained_by_unlabelled=("student",),
    ),
    "cac": MethodRow(
        target="tracoco.methods.cac:CAC",
        year=2021,
        venue="CVPR",
        faithful=COMMON_RECIPE,
        idea="See a voxel alike in two crops that overlap, and unlike voxels of another class.",
        trained_by_unlabelled=("network.encoder", "network.decoder", "contrast.projector"),
        pairs=True,
    ),
    "cps": MethodRow(
        target="tracoco.methods.cps:CPS",
        year=2021,
        venue="CVPR",
        faithful=COMMON_RECIPE,
        idea="Two networks supervise each other with their hard labels, on mixed crops.",
        trained_by_unlabelled=("networks.0", "networks.1"),
    ),
    "urpc": MethodRow(
        target="tracoco.methods.urpc:URPC",
        year=2021,
        venue="MICCAI",
        faithful=RELEASED_RECIPE,
        idea="Agree at every level of a decoder, where a level is near their mean.",
        trained_by_unlabelled=("pyramid",),
    ),
    "mc-net": MethodRow(
        target="tracoco.methods.mc_net:MCNet",
        year=2021,
        venue="MICCAI",
        faithful=RELEASED_RECIPE,
        idea="Two decoders on one encoder, each a sharpened target of the other.",
        trained_by_unlabelled=("decoders",),
    ),
    "cross-teaching": MethodRow(
        target="tracoco.methods.cross_teaching:CrossTeaching",
        year=2022,
        venue="MIDL",
        faithful=COMMON_RECIPE,
        idea="A convolutional network and a transformer supervise each other with hard labels.",
        trained_by_unlabelled=("networks.0", "networks.1"),
    ),
    "ps-mt": MethodRow(
        target="tracoco.methods.ps_mt:PSMT",
        year=2022,
        venue="CVPR",
        faithful=COMMON_RECIPE,
        idea="Learn what two averages of yourself are sure of, under noise on crops and features.",
        trained_by_unlabelled=("student",),
    ),
    "mc-net-plus": MethodRow(
        target="tracoco.methods.mc_net:MCNetPlus",
        year=2022,
        venue="MedIA",
        faithful=RELEASED_RECIPE,
        idea="Three decoders on one encoder, each a sharpened target of the others.",
        trained_by_unlabelled=("decoders",),
    ),
    "scc": MethodRow(
        target="tracoco.methods.scc:SCC",
        year=2022,
        venue="CMIG",
        faithful=RELEASED_RECIPE,
        idea="Have each class of unlabelled crops resemble that class of labelled ones.",
        trained_by_unlabelled=("decoders",),
    ),
    "ss-net": MethodRow(
        target="tracoco.methods.ss_net:SSNet",
        year=2022,
        venue="MICCAI",
        faithful=RELEASED_RECIPE,
        idea="Predictions withstand the worst small change, and features lie close to their class.",
        trained_by_unlabelled=(
            *("network", "separation.projector"),
            *("separation.predictor", "separation.selectors"),
        ),
    ),
    "ac-mt": MethodRow(
        target="tracoco.methods.ac_mt:ACMT",
        year=2023,
        venue="MedIA",
        faithful=RELEASED_RECIPE,
        idea="Predict what your running average does, where you are unsure yourself.",
        trained_by_unlabelled=("student",),
    ),
    "bcp": MethodRow(
        target="tracoco.methods.bcp:BCP",
        year=2023,
        venue="CVPR",
        faithful=RELEASED_RECIPE,
        idea="Learn from labelled crops pasted into unlabelled ones, and the other way round.",
        trained_by_unlabelled=("student",),
    ),
    "unimatch": MethodRow(
        target="tracoco.methods.unimatch:UniMatch",
        year=2023,
        venue="CVPR",
        faithful=RELEASED_RECIPE,
        idea="What you are sure of must hold in two changed views and without half the features.",
        trained_by_unlabelled=("network",),
    ),
    "dmd": MethodRow(
        target="tracoco.methods.dmd:DMD",
        year=2023,
        venue="MICCAI",
        faithful=RELEASED_RECIPE,
        idea="Two networks must give alike predictions once these are softened.",
        trained_by_unlabelled=("networks.0", "networks.1"),
    ),
    "dhc": MethodRow(
        target="tracoco.methods.dhc:DHC",
        year=2023,
        venue="MICCAI",
        faithful=COMMON_RECIPE,
        idea="Two networks teach each other; one favours hard classes, the other rare ones.",
        trained_by_unlabelled=("networks.0", "networks.1"),
    ),
    "patchcl": MethodRow(
        target="tracoco.methods.patchcl:PatchCL",
        year=2023,
        venue="CVPR",
        faithful=RECONSTRUCTION,
        idea="See patches of a class alike, cut out by labels or by your running average.",
        trained_by_unlabelled=("student",),
        caution="the public code cannot be run, and the paper was not consulted: this is a "
        "reconstruction",
    ),
    "dcnet": MethodRow(
        target="tracoco.methods.dcnet:DCNet",
        year=2023,
        venue="MICCAI",
        faithful=RELEASED_RECIPE,
        idea="Two decoders: hard labels where both are sure, else follow the surer one.",
        trained_by_unlabelled=("decoders",),
    ),
    "cross-ald": MethodRow(
        target="tracoco.methods.cross_ald:CrossALD",
        year=2023,
        venue="MICCAI",
        faithful=RECONSTRUCTION,
        idea="SS-Net with several worst changes of each crop, mixed with those of another crop.",
        trained_by_unlabelled=(
            *("network", "separation.projector"),
            *("separation.predictor", "separation.selectors"),
        ),
        caution="no public code, and the paper was not consulted: this is a reconstruction",
    ),
    "mc-caussl": MethodRow(
        target="tracoco.methods.mc_caussl:MCCauSSL",
        year=2023,
        venue="ICCV",
        faithful=RELEASED_RECIPE,
        idea="Three decoders agree, while none may be a linear combination of the others.",
        trained_by_unlabelled=("decoders",),
        caution="it suits networks with 3x3 convolutions in their decoders, such as vnet and unet; "
        "filters of 1x1, as in light-unet, are too short to become independent",
    ),
    "bcp-caussl": MethodRow(
        target="tracoco.methods.bcp_caussl:BCPCauSSL",
        year=2023,
        venue="ICCV",
        faithful=RECONSTRUCTION,
        idea="Bidirectional copy-paste whose student is no linear combination of its teacher.",
        trained_by_unlabelled=("student",),
        caution="no public code, and the paper was not consulted: this is a reconstruction after "
        "the authors' mean teacher",
    ),
    "caml": MethodRow(
        target="tracoco.methods.caml:CAML",
        year=2023,
        venue="MICCAI",
        faithful=RELEASED_RECIPE,
        idea="A plain network and one that compares crops agree in predictions and in likenesses.",
        trained_by_unlabelled=(
            "plain",
            "attentive",
            "relations.projectors",
            "relations.predictors",
        ),
    ),
    "cac-co": MethodRow(
        target="tracoco.methods.cac_co:CACCo",
        year=2024,
        venue="IEEE TMI",
        faithful=RECONSTRUCTION,
        idea="Cross pseudo supervision on mixed crops, with the contrast of `cac` in each network.",
        trained_by_unlabelled=(
            "networks.0",
            "networks.1",
            "contrasts.0.projector",
            "contrasts.1.projector",
        ),
        pairs=True,
    ),
    "tracoco": MethodRow(
        target="tracoco.methods.tracoco:TraCoCo",
        year=2024,
        venue="IEEE TMI",
        faithful=COMMON_RECIPE,
        idea="Two networks teach each other and predict alike wherever two crops overlap.",
        trained_by_unlabelled=("networks.0", "networks.1"),
        pairs=True,
    ),
    "tracoco-as-released": MethodRow(
        target="tracoco.methods.tracoco_as_released:TraCoCoAsReleased",
        year=2024,
        venue="IEEE TMI",
        faithful=RELEASED_RECIPE,
        idea="TraCoCo as its authors' release computes it, which gave the published numbers.",
        trained_by_unlabelled=("networks.0", "networks.1"),
        pairs=True,
        caution="the release's translation loss compares logits along a spatial axis, not "
        "between classes, and is nearly without effect; `tracoco` is the method of the paper",
    ),
}
