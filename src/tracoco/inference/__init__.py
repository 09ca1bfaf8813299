"""From a trained run to labels on the grid of any scan."""
