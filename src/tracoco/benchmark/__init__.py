"""Grids of runs: each trained or resumed, then tested, and kept as one small file."""
