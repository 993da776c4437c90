SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup kafka demo test simulate mutants check fast recut bench chaos study-quick reference format clean help

N ?= 30
SEED ?= 1
FIRST ?= 0
SEEDS ?= 10000
CORES := $(shell getconf _NPROCESSORS_ONLN)
# tests on a real Kafka wait more than they compute
WORKERS ?= $$(($(CORES) + 2))

help: ## this table
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | sort

$(VENV)/.installed: pyproject.toml requirements.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "areba needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -q -r requirements.txt
	$(BIN)/python -m pip install --disable-pip-version-check -q --no-deps --no-build-isolation -e .
	@echo "compiling (a minute, once)"
	$(BIN)/python -c 'from stream_app.config import Config; from stream_app.cli.warm_up import warm_up; warm_up(Config().task_settings())'
	touch $@

setup: $(VENV)/.installed ## virtual environment with the pinned dependencies

demo: setup ## the whole way of the data on a real Kafka, in under 3 minutes
	$(BIN)/python -m ops.demo

test: setup ## every test, Kafka included, and the first 2,000 seeds of the simulation
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not alone"
	$(BIN)/python -m pytest -m alone
	$(MAKE) --no-print-directory simulate SEEDS=2000

simulate: setup ## faults at every call of the shell: SEEDS seeds (10000), the same each time from FIRST (0) on
	$(BIN)/python -m tests.simulation --seeds $(FIRST):$$(($(FIRST) + $(SEEDS)))

mutants: setup ## break the code in known ways; the simulation, or a named test, must find each
	$(BIN)/python -m tests.simulation --mutants

fast: setup ## unit and property tests, and some seeds of the simulation
	$(BIN)/python -m pytest -q -n 2 tests/unit tests/property tests/simulation -m "not slow and not kafka"

check: setup ## format, lint, types, fast tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(MAKE) --no-print-directory fast

format: setup ## rewrite the sources in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

recut: setup ## the shipped data against the publishers' files in AREBA_DATA_DIR
	$(BIN)/python -m pytest tests/publishers

bench: setup ## the table of speeds and benchmarks/results.json (a quarter of an hour)
	$(BIN)/python -m benchmarks

study-quick: setup ## a part of the study, 10 repetitions each, held against the committed results
	rm -rf .local/study-quick
	$(BIN)/python -m study run 'sine-1-*' 'budget-circle-1-stationary' real-credit real-cervical --reps 10 --store .local/study-quick/store
	$(BIN)/python -m study report 'sine-1-*' 'budget-circle-1-stationary' real-credit real-cervical --store .local/study-quick/store \
		--results .local/study-quick/results --compare study/results

reference: setup ## write docs/reference.md from the code
	$(BIN)/python -m ops.reference

chaos: setup ## N=1000 SEED=1: kill workers and brokers so often, then compare every byte
	$(BIN)/python -m tests.chaos --kills $(N) --seed $(SEED)

clean: ## remove what the build made
	rm -rf $(VENV) .local
