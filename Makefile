# Every target sets up .venv first: a fresh clone needs nothing but Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow lint coverage mutants docs notebooks dist gpu-check bench storms real real-plan real-collect real-peer real-page clean

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,dicom,monai,mlflow,tensorboard,serve,slurm]'
	touch $@

demo: .venv/installed
	$(BIN)/tracoco demo --out demo

# Two processes side by side: one thread each, or they would wait for each other.
test: .venv/installed
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 --dist worksteal

test-slow: .venv/installed
	$(BIN)/pytest -m slow

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation as a site in site/; warnings and broken links are errors.
docs: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt zensical
	$(BIN)/python -m scripts.site.build

# The notebooks of examples/notebooks, executed, as pages; NAMES="quick_start" does these alone.
notebooks: .venv/installed
	$(BIN)/python -m scripts.site.notebooks $(NAMES)

# The suite with a table of lines that no test executes.
coverage: .venv/installed
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 --dist worksteal --cov --cov-report term:skip-covered

# The wheel and the sdist in dist/, tried in an empty virtual environment.
dist: .venv/installed
	$(BIN)/python scripts/check_dist.py

mutants: .venv/installed
	$(BIN)/python scripts/mutants.py

# Kills, full disks, two writers at once and mutated files, for so many seconds; see docs/how-to/reliability.md.
SECONDS ?= 1200
storms: .venv/installed
	$(BIN)/python scripts/run_storms.py --seconds $(SECONDS) $(FLAGS)

# For a machine with a GPU: a few minutes, and a table in gpu-check.txt to send back.
gpu-check: .venv/installed
	$(BIN)/python scripts/gpu_check.py

# Everything is timed, so nothing else should run on the machine meanwhile.
bench: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.page

# DATA: the folder of public scans; OUT: a folder for projects, runs and results. Says first how long
# it will take; resumes if interrupted. GRIDS="la acdc" runs these alone, and FLAGS=--anew trains also
# what has a committed result.
real: .venv/installed
	$(BIN)/python -m benchmarks.real.run $(FLAGS) $(DATA) $(OUT) $(GRIDS)
	$(BIN)/python -m benchmarks.real.page

real-plan: .venv/installed
	$(BIN)/python -m benchmarks.real.run --plan $(FLAGS) $(DATA) $(OUT) $(GRIDS)

# While runs are under way: what has ended, into the committed files and the page.
real-collect: .venv/installed
	$(BIN)/python -m benchmarks.real.collect $(OUT)
	$(BIN)/python -m benchmarks.real.page

# nnU-Net on the same scans for the same minutes, in a virtual environment of its own below OUT.
real-peer: .venv/installed
	$(BIN)/python -m benchmarks.peers.nnunet $(OUT)
	$(BIN)/python -m benchmarks.real.page

real-page: .venv/installed
	$(BIN)/python -m benchmarks.real.page

clean:
	rm -rf .venv demo dist site .site .mypy_cache .ruff_cache .pytest_cache .hypothesis
