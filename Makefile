# Needs only Python 3.11 or newer and make: every target sets up .venv by itself, and quickly the second time.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
ARGS ?=

BIN := $(VENV)/bin
# -qq hides progress and warnings, not errors; PIP_FLAGS= shows everything.
PIP_FLAGS ?= -qq
PIP_INSTALL = $(BIN)/python -m pip install $(PIP_FLAGS) --no-input --disable-pip-version-check -c constraints.txt

export MPLBACKEND ?= Agg
# One thread per process: tests run beside one another, and small networks gain nothing from more.
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo playground test lint types versions docs table readme notebooks reproduce bench dist clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.demo ## explain models of a table, of texts, of images; writes out/demo-report.html
	$(BIN)/python examples/demo.py $(ARGS)

playground: $(VENV)/.playground ## the demo's explainers on a page to play with; prints its address
	$(BIN)/python examples/playground.py $(ARGS)

# A worker on every core, which takes tests from the others when it has none left: tests of one file, and with them
# its fixtures, mostly stay together. PYTEST_ARGS=-n0 runs them one after the other, in this process.
test: lint types ## everything CI checks: lint, types, then pytest (PYTEST_ARGS='-m "not slow"' for the quick ones)
	$(BIN)/python -m pytest -n auto --dist worksteal --durations=20 $(PYTEST_ARGS)

lint: $(VENV)/.test ## ruff check, ruff format --check, import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo

types: $(VENV)/.test ## mypy, strict
	$(BIN)/mypy

versions: $(VENV)/.test ## mypy for newer Pythons, and bytecode by those that are installed
	@set -e; for version in 3.12 3.13 3.14; do echo "Python $$version"; $(BIN)/mypy --python-version $$version; \
	  ! python$$version -c '' 2>/dev/null || python$$version -m compileall -q -f src; done

docs: $(VENV)/.test ## the site, built offline: runs every tutorial (minutes), writes out/website/site/index.html
	$(BIN)/python -m website $(ARGS)

table: $(VENV)/.test ## refresh the tables of README and docs/ from the records
	$(BIN)/python -m website table

readme: $(VENV)/.test ## refresh what the README shows: outputs, pictures, the table of results
	$(BIN)/python -m website readme

notebooks: $(VENV)/.test ## make and run the notebooks from their tutorials
	$(BIN)/python -m website notebooks

reproduce: $(VENV)/.experiments ## the paper's experiments (ARGS=... goes to `l2x reproduce`)
	$(BIN)/l2x reproduce $(ARGS)

bench: $(VENV)/.experiments ## every benchmarks/*.py, one after the other
	@set -e; for script in $(sort $(wildcard benchmarks/[!_]*.py)); do echo "$$script"; $(BIN)/python "$$script" $(ARGS); done

dist: $(VENV)/.dist ## wheel and sdist into dist/, checked as an index would check them
	rm -rf dist
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

clean: ## remove .venv, caches and builds
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Stamps: one per set of packages, made again when pyproject.toml or constraints.txt change.

$(VENV)/.demo: $(VENV)/.pip pyproject.toml
	@echo "Installing l2x for the demo into $(VENV) (some minutes the first time)"
	@$(PIP_INSTALL) -e '.[plots,text]' lightgbm
	@touch $@

$(VENV)/.playground: $(VENV)/.pip pyproject.toml
	@echo "Installing l2x for the playground into $(VENV) (some minutes the first time)"
	@$(PIP_INSTALL) -e '.[plots,text,serve]' lightgbm
	@touch $@

$(VENV)/.test: $(VENV)/.pip pyproject.toml
	@echo "Installing l2x and what its tests need into $(VENV) (some minutes the first time)"
	@$(PIP_INSTALL) -e '.[baselines,text,plots,onnx,http,ray,serve,study]' --group test --group lint --group docs
	@touch $@

$(VENV)/.spark: $(VENV)/.test
	@echo "Installing Spark into $(VENV) for its tests, which need Java too"
	@$(PIP_INSTALL) --group spark
	@touch $@

$(VENV)/.experiments: $(VENV)/.pip pyproject.toml
	@echo "Installing l2x and what its experiments need into $(VENV) (some minutes the first time)"
	@$(PIP_INSTALL) -e '.[baselines,text,plots,onnx,http,ray,serve,study]' --group test
	@touch $@

$(VENV)/.dist: $(VENV)/.pip pyproject.toml
	@echo "Installing what builds l2x into $(VENV)"
	@$(PIP_INSTALL) --group dist
	@touch $@

# pip itself first, at the version of constraints.txt: dependency groups need 25.1.
$(VENV)/.pip: constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "l2x needs Python 3.11 or newer, but $(PYTHON) is %d.%d; try make PYTHON=python3.12" % sys.version_info[:2])'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) pip
	@touch $@
