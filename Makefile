# Membrane. `make demo` and `make test` need Python 3.11 or later, make and a C compiler; they set up everything else
# themselves, in .venv and .cache, and nothing global.

PYTHON ?= python3
export BUF_CACHE_DIR := $(CURDIR)/.cache/buf
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV_READY := $(VENV)/.dev-ready
BENCHMARK_READY := $(VENV)/.benchmark-ready
DATALESS := resume temporal
SUITES := $(basename $(notdir $(wildcard benchmark/configs/*.yaml)))

.PHONY: help demo test test-full check serve bench benchmark known-suite proto format clean
.DEFAULT_GOAL := help

help: ## Say what there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /|/' | awk -F'|' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: $(READY) ## Run a job larger than any window, end to end, killed in the middle
	@$(BIN)/mn-context-engine demo $(ARGS)

test: $(DEV_READY) ## Run the tests (a sample of kills, races and random cases; under ten minutes)
	@echo "running the tests"
	@$(BIN)/python -m pytest -n 2 -m "not full" $(ARGS)

test-full: $(DEV_READY) ## Run the tests with the full counts of kills, races and random cases
	@echo "running every test at its full count; this takes a while"
	@$(BIN)/python -m pytest -n 2 $(ARGS)

check: $(DEV_READY) ## Check format, lint, types, import rules and the wire contract
	@echo "format and lint" && $(BIN)/ruff format --check . && $(BIN)/ruff check .
	@echo "types" && $(BIN)/mypy
	@echo "import rules" && $(BIN)/lint-imports
	@echo "wire contract" && $(BIN)/buf lint && proto/breaking.sh && proto/generate.sh --check

serve: $(READY) ## Serve a record over gRPC on 127.0.0.1:50052
	@$(BIN)/mn-context-engine serve $(ARGS)

bench: $(READY) ## Measure speed, each figure beside a floor or a peer in the same run
	@$(BIN)/python -m mn_benchmark.foundation $(ARGS)

benchmark: known-suite $(BENCHMARK_READY) ## Measure a suite on data of yours: SUITE=locomo DATA=DIR (OUTPUT=build/SUITE)
	@$(BIN)/mn-context-benchmark --config benchmark/configs/$(SUITE).yaml --data "$(or $(DATA),.)" \
		--output "$(or $(OUTPUT),build/$(SUITE))" $(ARGS)

known-suite:
	@test -n "$(SUITE)" -a -n "$(DATA)$(filter $(DATALESS),$(SUITE))" || \
		{ echo "say SUITE=... ($(SUITES)) and DATA=DIR, the folder of your data; none is needed for $(DATALESS)" >&2; exit 2; }
	@test -f "benchmark/configs/$(SUITE).yaml" || { echo "there is no suite $(SUITE); suites are $(SUITES)" >&2; exit 2; }

proto: ## Regenerate proto/gen
	@proto/generate.sh

format: $(DEV_READY) ## Format the code
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

clean: ## Remove what the other targets set up
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .hypothesis build

$(READY): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "no $(PYTHON) here: install Python 3.11 or later, or say PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than 3.11: say PYTHON=python3.11 or later" >&2; exit 1; }
	@echo "setting up $(VENV) (once; a minute or two)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(DEV_READY): $(READY)
	@echo "adding the tools for tests and checks to $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,benchmark]'
	@touch $@

$(BENCHMARK_READY): $(READY)
	@echo "adding the peers that suites compare with to $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[benchmark]'
	@touch $@
