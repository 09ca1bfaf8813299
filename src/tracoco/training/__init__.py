"""The one loop, and what keeps it safe: checkpoints, log, health, signals, several processes."""
