import pytest
import torch
from torch import nn

from tracoco.networks.network import Decoder, Encoder


def double() -> nn.Module:
    return nn.Upsample(scale_factor=2, mode="nearest")


def test_encoder_gives_the_map_behind_each_stage() -> None:
    features = Encoder([nn.Identity(), nn.AvgPool2d(2), nn.AvgPool2d(2)])(torch.ones(1, 1, 4, 4))
    assert [f.shape[-1] for f in features] == [4, 2, 1]


def test_decoder_adds_from_coarse_to_fine() -> None:
    # Values 1, 10, 100 from fine to coarse: 100 + 10 = 110, then 110 + 1 = 111.
    features = [torch.full((1, 1, n, n), value) for n, value in ((4, 1.0), (2, 10.0), (1, 100.0))]
    decoder = Decoder([double(), double()], [nn.Identity()] * 2, merge=torch.add)
    coarse, fine = decoder(features)
    assert coarse.unique().tolist() == [110]
    assert fine.unique().tolist() == [111]


def test_dropout_touches_the_last_map_only() -> None:
    features = [torch.ones(1, 1, n, n) for n in (4, 2, 1)]
    ups = [double(), double()]
    decoder = Decoder(ups, [nn.Identity()] * 2, merge=torch.add, dropout=nn.Dropout(1.0))
    coarse, fine = decoder(features)
    assert coarse.unique().tolist() == [2]
    assert fine.unique().tolist() == [0]


def test_decoder_refuses_features_of_another_depth() -> None:
    decoder = Decoder([double()], [nn.Identity()], merge=torch.add)
    with pytest.raises(ValueError, match="shorter"):
        decoder([torch.ones(1, 1, 2, 2)])
