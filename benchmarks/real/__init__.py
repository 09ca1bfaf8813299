"""Real scans on two CPU cores: projects made the same way each time, and grids of runs on them."""
