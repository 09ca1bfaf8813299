# Every target sets up .venv first: a fresh clone needs nothing but Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin
# Two processes on two cores: waiting threads must sleep, not spin.
export OMP_WAIT_POLICY ?= passive

.PHONY: demo test test-slow lint mutants clean

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,tensorboard]'
	touch $@

demo: .venv/installed
	$(BIN)/tracoco demo --out demo

test: .venv/installed
	$(BIN)/pytest --numprocesses 2 --dist worksteal

test-slow: .venv/installed
	$(BIN)/pytest -m slow

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

mutants: .venv/installed
	$(BIN)/python scripts/mutants.py

clean:
	rm -rf .venv demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
