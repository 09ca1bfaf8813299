# Every target sets up .venv first: a fresh clone needs nothing but Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow lint mutants gpu-check bench real real-page clean

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,dicom,monai,tensorboard]'
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

mutants: .venv/installed
	$(BIN)/python scripts/mutants.py

# For a machine with a GPU: a few minutes, and a table in gpu-check.txt to send back.
gpu-check: .venv/installed
	$(BIN)/python scripts/gpu_check.py

# Everything is timed, so nothing else should run on the machine meanwhile.
bench: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.page

# DATA: the folder of public scans; OUT: a folder for the projects. Takes hours; goes on if killed.
real: .venv/installed
	$(BIN)/python -m benchmarks.real.projects $(DATA) $(OUT)
	for grid in hippocampus la acdc brats19 btcv-pancreas hippocampus-methods la-half-vnet acdc-unet; do \
	  data=$${grid%-methods}; data=$${data%-vnet}; data=$${data%-unet}; \
	  $(BIN)/tracoco benchmark benchmarks/real/$$grid.yaml --project $$data=$(OUT)/$$data \
	    --results benchmarks/real/results/$$grid --jobs 2 || exit 1; \
	done
	$(BIN)/python -m benchmarks.real.measure_surroundings la $(OUT)/la
	$(BIN)/python -m benchmarks.real.measure_windows la $(OUT)/la
	$(BIN)/python -m benchmarks.real.page

real-page: .venv/installed
	$(BIN)/python -m benchmarks.real.page

clean:
	rm -rf .venv demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
