"""Grids of runs: each is trained or resumed, then tested, and kept as one small file."""
