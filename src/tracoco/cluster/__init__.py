"""Commands as jobs: of SLURM, or of a queue on this machine."""
