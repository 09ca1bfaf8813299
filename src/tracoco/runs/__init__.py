"""Run folders: settings, checkpoints and log of a training, and its method built from them."""
