"""The paper: its published figures, its case lists, and what it says beside the experiments."""
