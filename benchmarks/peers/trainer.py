"""A trainer of nnU-Net that ends after so many minutes, as text: nnU-Net is not installed here."""

TRAINER = "nnUNetTrainerMinutes"
PROGRESS = "minutes.json"
"""Seconds and steps so far, and the peak of memory; beside the checkpoints."""
SAVE_SECONDS = 120.0

TEXT = '''"""Trains for PEER_MINUTES on one thread; made by benchmarks/peers, do not edit."""

import json
import os
import random
import resource
import time
from pathlib import Path

import numpy as np
import torch
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer


class TRAINER(nnUNetTrainer):
    """The default trainer, but for its length: the learning rate falls with the time."""

    def run_training(self):
        torch.set_num_threads(1)
        seed = int(os.environ["PEER_SEED"])
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        limit = 60 * float(os.environ["PEER_MINUTES"])
        self.on_train_start()
        folder = Path(self.output_folder)
        progress, latest = folder / "PROGRESS", folder / "checkpoint_latest.pth"
        seconds, steps = 0.0, 0
        if latest.exists() and progress.exists():
            known = json.loads(progress.read_text())
            seconds, steps = known["seconds"], known["steps"]
        saved = seconds
        self.network.train()
        while seconds < limit:
            began = time.perf_counter()
            for group in self.optimizer.param_groups:
                group["lr"] = self.initial_lr * (1 - seconds / limit) ** 0.9
            loss = self.train_step(next(self.dataloader_train))["loss"]
            seconds += time.perf_counter() - began
            steps += 1
            if seconds - saved > SAVE_SECONDS:
                saved = seconds
                self.save_checkpoint(str(latest))
                self._note(progress, seconds, steps)
                self.print_to_log_file(f"{steps} steps, {seconds:.0f} s, loss {float(loss):.4f}")
        self._note(progress, seconds, steps)
        self.on_train_end()

    @staticmethod
    def _note(path, seconds, steps):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
        path.write_text(json.dumps({"seconds": seconds, "steps": steps, "peak_mb": peak}))

    def perform_actual_validation(self, save_probabilities=False):
        """Nothing: all labelled scans are trained on, and the test cases are predicted later."""
'''


def trainer_text() -> str:
    """The file that goes into nnU-Net's folder of trainers."""
    text = TEXT.replace("class TRAINER", f"class {TRAINER}").replace('"PROGRESS"', f'"{PROGRESS}"')
    return text.replace("SAVE_SECONDS", f"{SAVE_SECONDS:g}")
