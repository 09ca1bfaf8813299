"""Studies of methods: grids of runs, and the tables and figures of the paper."""
