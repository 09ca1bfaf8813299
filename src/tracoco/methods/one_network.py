"""Methods with a single network, with heads beside it or without."""

from torch import nn

from tracoco.methods.method import Method


class OneNetwork(Method):
    """The network that learns is the one that predicts; what else learns serves it alone."""

    network: nn.Module

    def inference_network(self) -> nn.Module:
        """The only one."""
        return self.network

    def trained_networks(self) -> list[nn.Module]:
        """The only one."""
        return [self.network]
