# Everything sets up what it needs: `make demo` on a machine with only Python and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Only the light extras: the benchmarks' peers are installed by `make bench`.
INSTALLED := $(VENV)/.installed
DEV_INSTALLED := $(VENV)/.installed-dev
BENCH_INSTALLED := $(VENV)/.installed-bench
BENCHMARKS := encode pretrain finetune translate vocab corpus

.PHONY: help demo page check format test test-slow docs fuzz bench clean
.DEFAULT_GOAL := help

help:  ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install --quiet -c constraints.txt -e '.[serve]'
	touch $@

$(DEV_INSTALLED): $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install --quiet -c constraints.txt -e '.[dev,zh]'
	touch $@ $(INSTALLED)

$(BENCH_INSTALLED): $(DEV_INSTALLED)
	$(PIP) install --quiet -c constraints.txt -e '.[bench]'
	touch $@

demo: $(INSTALLED)  ## Walk through most of it, on built-in text
	$(BIN)/glassbert demo

page:  ## Build the glass-box page (needs Node 20 or newer)
	cd web && npm install --no-save --no-audit --no-fund && npm run build

check: $(DEV_INSTALLED)  ## Formatting, lint, types, spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/typos

format: $(DEV_INSTALLED)  ## Let ruff put the code in order
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Bytecode is kept for the many processes. A test that runs out of time gets one more try; the summary says so.
test: $(DEV_INSTALLED)  ## The test suite: offline, on the CPU
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -q -rfEsR -n 3 --reruns 1 --only-rerun Timeout --durations 40 --durations-min 3

test-slow: $(DEV_INSTALLED)  ## The long comparisons on large corpora
	$(BIN)/pytest -q -m slow

docs: $(DEV_INSTALLED)  ## Write what comes out of the pages into them (PAGES="README 06-tasks" for some)
	PYTHONPATH=tests $(BIN)/python -m helpers.page_outputs $(PAGES)

fuzz: $(DEV_INSTALLED)  ## Hostile bytes at every door, for FUZZ_MINUTES (5)
	PYTHONPATH=tests $(BIN)/python -m fuzz

bench: $(BENCH_INSTALLED)  ## Ours and the peers, side by side (close other programs first)
	missed=0; for script in $(BENCHMARKS); do $(BIN)/python benchmarks/$$script.py || missed=1; done; exit $$missed

clean:  ## Remove what was made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
