"""Whether this machine's bf16 can be relied upon; some CPUs leave small gradients unwritten."""

import pytest
import torch

from tracoco.training.acceleration import computes

BF16_IS_RIGHT = computes(torch.bfloat16, torch.device("cpu"))
needs_bf16 = pytest.mark.skipif(not BF16_IS_RIGHT, reason="bf16 gradients are wrong on this CPU")
