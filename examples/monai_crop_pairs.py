"""Crop pairs as a MONAI transform: in a Compose, a Dataset and a DataLoader.

python examples/monai_crop_pairs.py
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import torch
from monai.data import DataLoader, Dataset
from monai.networks.nets import UNet
from monai.transforms import Compose, EnsureTyped, MapTransform, Randomizable, ScaleIntensityd
from torch import Tensor

import tracoco as tc


class RandCropPaird(Randomizable, MapTransform):  # type: ignore[misc]  # MONAI has no types here
    """Two overlapping crops of each volume, in the same two places for all keys.

    The first crop stays under its key and the second is under `KEY_second`. `overlap` has the box
    of their overlap as seen from the first and from the second crop.
    """

    def __init__(self, keys: Sequence[str], size: Sequence[int]) -> None:
        """Say which volumes [C, ...] are cropped, and to how many voxels along each axis."""
        super().__init__(keys)
        self.size = tuple(size)
        self.seed = 0

    def randomize(self, data: Any = None) -> None:  # noqa: ARG002 - MONAI passes it
        """Draw what decides the two places."""
        self.seed = int(self.R.randint(2**31))

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Crop all keys of one case."""
        self.randomize()
        cropped = dict(data)
        for key in self.key_iterator(cropped):
            volume = torch.as_tensor(data[key])
            generator = torch.Generator().manual_seed(self.seed)
            first, second, overlap = tc.crop_pair(volume, self.size, generator)
            cropped |= {key: first, f"{key}_second": second, "overlap": overlap}
        return cropped


def collate_pairs(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Stack the crops of several cases; their overlaps as the losses take them."""
    names = [name for name in cases[0] if name != "overlap"]
    batch: dict[str, Any] = {name: torch.stack([case[name] for case in cases]) for name in names}
    batch["overlap"] = tc.losses.Overlap([case["overlap"] for case in cases])
    return batch


def make_loader(cases: Sequence[Mapping[str, Tensor]], size: Sequence[int]) -> Any:
    """Batches of two crop pairs."""
    crop = RandCropPaird(["image", "label"], size)
    crop.set_random_state(seed=0)
    # MetaTensors would keep the place of the whole volume, which crops no longer have.
    ensure = EnsureTyped(["image", "label"], track_meta=False)
    transform = Compose([ensure, ScaleIntensityd("image"), crop])
    return DataLoader(Dataset(cases, transform), batch_size=2, collate_fn=collate_pairs)


def main() -> list[float]:
    """One loss of each batch: a network learns labels, and the same prediction in both crops."""
    cases = [
        {"image": torch.rand(1, 24, 24, 24), "label": torch.randint(2, (1, 24, 24, 24))}
        for _ in range(4)
    ]
    network = UNet(3, 1, 2, channels=(4, 8), strides=(2,), norm="instance")
    losses = []
    for batch in make_loader(cases, (16, 16, 16)):
        first, second = network(batch["image"]), network(batch["image_second"])
        supervised = tc.losses.supervised_loss(first, batch["label"][:, 0])
        view = (first.log_softmax(dim=1), second.log_softmax(dim=1))
        terms = tc.losses.translation_terms([view], batch["overlap"])
        loss = supervised + terms["translation"] + terms["entropy"]
        loss.backward()
        losses.append(loss.item())
        print(f"supervised {supervised.item():.3f}  translation {terms['translation'].item():.4f}")
    return losses


if __name__ == "__main__":
    main()
