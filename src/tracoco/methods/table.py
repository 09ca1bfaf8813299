"""The table of methods, in order of year; `row.py` says what a row tells."""

from tracoco.methods.row import (
    COMMON_RECIPE,
    RECONSTRUCTION,
    RELEASED_RECIPE,
    MethodRow,
    Needs,
)

__all__ = ["METHODS"]

FEATURES = Needs(features=True)
CUTMIX = Needs(unlabelled=2, only_with="cutmix")
CUTMIX_AND_FEATURES = Needs(unlabelled=2, only_with="cutmix", features=True)
PASTED_HALVES = Needs(labelled=2, unlabelled=2, even=True)
SEPARATION = tuple(f"separation.{part}" for part in ("projector", "predictor", "selectors"))

# What a method is and needs stands in one line.
# fmt: off
METHODS: dict[str, MethodRow] = {
    "supervised": MethodRow(
        target="tracoco.methods.supervised:Supervised",
        family="baseline",
        faithful=RELEASED_RECIPE,
        idea="Learn from the labelled scans alone: the bound that the others must beat.",
        trained_by_unlabelled=(),
    ),
    "entropy-minimisation": MethodRow(
        target="tracoco.methods.entropy_minimisation:EntropyMinimisation",
        family="pseudo-labels",
        year=2004, venue="NeurIPS", faithful=RELEASED_RECIPE,
        idea="Be ever surer of what you predict on unlabelled crops.",
        trained_by_unlabelled=("network",),
    ),
    "mean-teacher": MethodRow(
        target="tracoco.methods.mean_teacher:MeanTeacher",
        family="consistency",
        year=2017, venue="NeurIPS", faithful=RELEASED_RECIPE,
        idea="Predict on unlabelled crops what the running average of yourself does.",
        trained_by_unlabelled=("student",),
    ),
    "ua-mt": MethodRow(
        target="tracoco.methods.ua_mt:UAMT",
        family="consistency",
        year=2019, venue="MICCAI", faithful=RELEASED_RECIPE,
        idea="Predict what your running average does, where it is sure in several noisy passes.",
        trained_by_unlabelled=("student",),
    ),
    "ict": MethodRow(
        target="tracoco.methods.ict:ICT",
        family="mixing", needs=Needs(unlabelled=2),
        year=2019, venue="IJCAI", faithful=RELEASED_RECIPE,
        idea="Predict for a blend of two crops the blend of your running average's predictions.",
        trained_by_unlabelled=("student",),
    ),
    "sassnet": MethodRow(
        target="tracoco.methods.sassnet:SASSNet",
        family="shape", needs=FEATURES,
        year=2020, venue="MICCAI", faithful=RELEASED_RECIPE,
        idea="Draw shapes in unlabelled crops that a discriminator takes for labelled ones.",
        trained_by_unlabelled=("network.encoder", "network.decoder", "distance_head"),
    ),
    "lg-er-mt": MethodRow(
        target="tracoco.methods.lg_er_mt:LGERMT",
        family="consistency",
        year=2020, venue="MICCAI", faithful=RELEASED_RECIPE,
        idea="Mean teacher that also compares which voxels are alike, with little entropy.",
        trained_by_unlabelled=("student",),
    ),
    "duwm": MethodRow(
        target="tracoco.methods.duwm:DUWM",
        family="consistency", needs=FEATURES,
        year=2020, venue="MICCAI", faithful=RECONSTRUCTION,
        idea="Agree with the teacher in prediction and features, the more the surer it is of each.",
        trained_by_unlabelled=("student",),
        caution="no public code, and the paper was not consulted: this is a reconstruction",
    ),
    "fixmatch": MethodRow(
        target="tracoco.methods.fixmatch:FixMatch",
        family="pseudo-labels", needs=CUTMIX,
        year=2020, venue="NeurIPS", faithful=COMMON_RECIPE,
        idea="What you are sure of in a crop must hold when its intensities change.",
        trained_by_unlabelled=("network",),
    ),
    "noisy-student": MethodRow(
        target="tracoco.methods.noisy_student:NoisyStudent",
        family="pseudo-labels",
        year=2020, venue="CVPR", faithful=COMMON_RECIPE,
        idea="Learn from labels and from what an earlier round predicts for the unlabelled scans.",
        trained_by_unlabelled=("network",),
        pseudo_labels=True,
    ),
    "dtc": MethodRow(
        target="tracoco.methods.dtc:DTC",
        family="shape", needs=FEATURES,
        year=2021, venue="AAAI", faithful=RELEASED_RECIPE,
        idea="Draw a mask and the distances to its surface, and have both say the same.",
        trained_by_unlabelled=("network", "distance_head"),
    ),
    "tri-u-mt": MethodRow(
        target="tracoco.methods.tri_u_mt:TriUMT",
        family="consistency", needs=FEATURES,
        year=2021, venue="MICCAI", faithful=COMMON_RECIPE,
        idea="Mean teacher of masks, distances and reconstructions, each as far as it is sure.",
        trained_by_unlabelled=("student",),
    ),
    "cac": MethodRow(
        target="tracoco.methods.cac:CAC",
        family="contrast", needs=FEATURES,
        year=2021, venue="CVPR", faithful=COMMON_RECIPE,
        idea="See a voxel alike in two crops that overlap, and unlike voxels of another class.",
        trained_by_unlabelled=("network.encoder", "network.decoder", "contrast.projector"),
        pairs=True,
    ),
    "cps": MethodRow(
        target="tracoco.methods.cps:CPS",
        family="co-training", needs=CUTMIX,
        year=2021, venue="CVPR", faithful=COMMON_RECIPE,
        idea="Two networks supervise each other with their hard labels, on mixed crops.",
        trained_by_unlabelled=("networks.0", "networks.1"),
    ),
    "urpc": MethodRow(
        target="tracoco.methods.urpc:URPC",
        family="decoders", needs=FEATURES,
        year=2021, venue="MICCAI", faithful=RELEASED_RECIPE,
        idea="Agree at every level of a decoder, where a level is near their mean.",
        trained_by_unlabelled=("pyramid",),
    ),
    "mc-net": MethodRow(
        target="tracoco.methods.mc_net:MCNet",
        family="decoders", needs=FEATURES,
        year=2021, venue="MICCAI", faithful=RELEASED_RECIPE,
        idea="Two decoders on one encoder, each a sharpened target of the other.",
        trained_by_unlabelled=("decoders",),
    ),
    "cross-teaching": MethodRow(
        target="tracoco.methods.cross_teaching:CrossTeaching",
        family="co-training",
        year=2022, venue="MIDL", faithful=COMMON_RECIPE,
        idea="A convolutional network and a transformer supervise each other with hard labels.",
        trained_by_unlabelled=("networks.0", "networks.1"),
    ),
    "ps-mt": MethodRow(
        target="tracoco.methods.ps_mt:PSMT",
        family="consistency", needs=CUTMIX_AND_FEATURES,
        year=2022, venue="CVPR", faithful=COMMON_RECIPE,
        idea="Learn what two averages of yourself are sure of, under noise on crops and features.",
        trained_by_unlabelled=("student",),
    ),
    "mc-net-plus": MethodRow(
        target="tracoco.methods.mc_net:MCNetPlus",
        family="decoders", needs=FEATURES,
        year=2022, venue="MedIA", faithful=RELEASED_RECIPE,
        idea="Three decoders on one encoder, each a sharpened target of the others.",
        trained_by_unlabelled=("decoders",),
    ),
    "scc": MethodRow(
        target="tracoco.methods.scc:SCC",
        family="contrast", needs=FEATURES,
        year=2022, venue="CMIG", faithful=RELEASED_RECIPE,
        idea="Have each class of unlabelled crops resemble that class of labelled ones.",
        trained_by_unlabelled=("decoders",),
    ),
    "ss-net": MethodRow(
        target="tracoco.methods.ss_net:SSNet",
        family="adversarial", needs=FEATURES,
        year=2022, venue="MICCAI", faithful=RELEASED_RECIPE,
        idea="Predictions withstand the worst small change, and features lie close to their class.",
        trained_by_unlabelled=("network", *SEPARATION),
    ),
    "ac-mt": MethodRow(
        target="tracoco.methods.ac_mt:ACMT",
        family="consistency",
        year=2023, venue="MedIA", faithful=RELEASED_RECIPE,
        idea="Predict what your running average does, where you are unsure yourself.",
        trained_by_unlabelled=("student",),
    ),
    "bcp": MethodRow(
        target="tracoco.methods.bcp:BCP",
        family="mixing", needs=PASTED_HALVES,
        year=2023, venue="CVPR", faithful=RELEASED_RECIPE,
        idea="Learn from labelled crops pasted into unlabelled ones, and the other way round.",
        trained_by_unlabelled=("student",),
    ),
    "unimatch": MethodRow(
        target="tracoco.methods.unimatch:UniMatch",
        family="pseudo-labels", needs=CUTMIX_AND_FEATURES,
        year=2023, venue="CVPR", faithful=RELEASED_RECIPE,
        idea="What you are sure of must hold in two changed views and without half the features.",
        trained_by_unlabelled=("network",),
    ),
    "dmd": MethodRow(
        target="tracoco.methods.dmd:DMD",
        family="co-training",
        year=2023, venue="MICCAI", faithful=RELEASED_RECIPE,
        idea="Two networks must give alike predictions once these are softened.",
        trained_by_unlabelled=("networks.0", "networks.1"),
    ),
    "dhc": MethodRow(
        target="tracoco.methods.dhc:DHC",
        family="co-training",
        year=2023, venue="MICCAI", faithful=COMMON_RECIPE,
        idea="Two networks teach each other; one favours hard classes, the other rare ones.",
        trained_by_unlabelled=("networks.0", "networks.1"),
    ),
    "patchcl": MethodRow(
        target="tracoco.methods.patchcl:PatchCL",
        family="contrast", needs=FEATURES,
        year=2023, venue="CVPR", faithful=RECONSTRUCTION,
        idea="See patches of a class alike, cut out by labels or by your running average.",
        trained_by_unlabelled=("student",),
        caution="the public code cannot be run, and the paper was not consulted: this is a "
        "reconstruction",
    ),
    "dcnet": MethodRow(
        target="tracoco.methods.dcnet:DCNet",
        family="decoders", needs=FEATURES,
        year=2023, venue="MICCAI", faithful=RELEASED_RECIPE,
        idea="Two decoders: hard labels where both are sure, else follow the surer one.",
        trained_by_unlabelled=("decoders",),
    ),
    "cross-ald": MethodRow(
        target="tracoco.methods.cross_ald:CrossALD",
        family="adversarial", needs=FEATURES,
        year=2023, venue="MICCAI", faithful=RECONSTRUCTION,
        idea="SS-Net with several worst changes of each crop, mixed with those of another crop.",
        trained_by_unlabelled=("network", *SEPARATION),
        caution="no public code, and the paper was not consulted: this is a reconstruction",
    ),
    "mc-caussl": MethodRow(
        target="tracoco.methods.mc_caussl:MCCauSSL",
        family="decoders", needs=FEATURES,
        year=2023, venue="ICCV", faithful=RELEASED_RECIPE,
        idea="Three decoders agree, while none may be a linear combination of the others.",
        trained_by_unlabelled=("decoders",),
        caution="it suits networks with 3x3 convolutions in their decoders, such as vnet and unet; "
        "filters of 1x1, as in light-unet, are too short to become independent",
    ),
    "bcp-caussl": MethodRow(
        target="tracoco.methods.bcp_caussl:BCPCauSSL",
        family="mixing", needs=PASTED_HALVES,
        year=2023, venue="ICCV", faithful=RECONSTRUCTION,
        idea="Bidirectional copy-paste whose student is no linear combination of its teacher.",
        trained_by_unlabelled=("student",),
        caution="no public code, and the paper was not consulted: this is a reconstruction after "
        "the authors' mean teacher",
    ),
    "caml": MethodRow(
        target="tracoco.methods.caml:CAML",
        family="co-training", needs=FEATURES,
        year=2023, venue="MICCAI", faithful=RELEASED_RECIPE,
        idea="A plain network and one that compares crops agree in predictions and in likenesses.",
        trained_by_unlabelled=(
            *("plain", "attentive", "relations.projectors", "relations.predictors"),
        ),
    ),
    "cac-co": MethodRow(
        target="tracoco.methods.cac_co:CACCo",
        family="contrast", needs=CUTMIX_AND_FEATURES,
        year=2024, venue="IEEE TMI", faithful=RECONSTRUCTION,
        idea="Cross pseudo supervision on mixed crops, with the contrast of `cac` in each network.",
        trained_by_unlabelled=(
            *("networks.0", "networks.1", "contrasts.0.projector", "contrasts.1.projector"),
        ),
        pairs=True,
    ),
    "tracoco": MethodRow(
        target="tracoco.methods.tracoco:TraCoCo",
        family="co-training", needs=CUTMIX,
        year=2024, venue="IEEE TMI", faithful=COMMON_RECIPE,
        idea="Two networks teach each other and predict alike wherever two crops overlap.",
        trained_by_unlabelled=("networks.0", "networks.1"),
        pairs=True,
    ),
    "tracoco-as-released": MethodRow(
        target="tracoco.methods.tracoco_as_released:TraCoCoAsReleased",
        family="co-training",
        year=2024, venue="IEEE TMI", faithful=RELEASED_RECIPE,
        idea="TraCoCo as its authors' release computes it, which gave the published numbers.",
        trained_by_unlabelled=("networks.0", "networks.1"),
        pairs=True,
        caution="the release's translation loss compares logits along a spatial axis, not "
        "between classes, and is nearly without effect; `tracoco` is the method of the paper",
    ),
    "masked-autoencoder": MethodRow(
        target="tracoco.methods.masked_autoencoder:MaskedAutoencoder",
        family="pre-training", needs=FEATURES,
        year=2025, venue="CVPR", faithful=COMMON_RECIPE,
        idea="Pre-train without labels: fill in hidden blocks of all scans; no segmentation yet.",
        trained_by_unlabelled=("network", "reconstruct"),
        segments=False,
    ),
}
