# Needs only Python 3.11 or newer and make. Every target sets up .venv; from the second time on that is quick.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
ARGS ?=

BIN := $(VENV)/bin
# -qq hides progress and warnings, not errors; PIP_FLAGS= shows everything.
PIP_FLAGS ?= -qq
PIP_INSTALL = $(BIN)/python -m pip install $(PIP_FLAGS) --no-input --disable-pip-version-check -c constraints.txt

export MPLBACKEND ?= Agg
# One thread per process: tests run in parallel, and small networks gain nothing from more threads.
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo playground test lint types versions lowest docs table readme notebooks reproduce bench dist clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.demo ## explain models of a table, texts and images; writes out/demo-report.html
	$(BIN)/python examples/demo.py $(ARGS)

playground: $(VENV)/.playground ## serve the demo's explainers on an interactive page; prints its address
	$(BIN)/python examples/playground.py $(ARGS)

# One worker per core. An idle worker takes tests from the others; most tests of a file stay on one worker and share
# its fixtures. PYTEST_ARGS=-n0 runs all tests in this process.
test: lint types ## everything that CI checks: lint, types, then pytest (PYTEST_ARGS='-m "not slow"': quick tests only)
	$(BIN)/python -m pytest -n auto --dist worksteal --durations=20 $(PYTEST_ARGS)

lint: $(VENV)/.test ## ruff check, ruff format --check, import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo

types: $(VENV)/.test ## mypy, strict
	$(BIN)/mypy

versions: $(VENV)/.test ## mypy for newer Python versions; compiles src with those that are installed
	@set -e; for version in 3.12 3.13 3.14; do echo "Python $$version"; $(BIN)/mypy --python-version $$version; \
	  ! python$$version -c '' 2>/dev/null || python$$version -m compileall -q -f src; done

# Tests that need packages which are left out are not collected.
lowest: ## run quick tests with the lowest supported versions of the dependencies, in .venv/lowest
	@test -x $(VENV)/lowest/bin/python || $(PYTHON) -m venv $(VENV)/lowest
	@$(PYTHON) .ci/lowest.py > $(VENV)/lowest/pins.txt
	$(VENV)/lowest/bin/python -m pip install $(PIP_FLAGS) --no-input --only-binary :all: -r $(VENV)/lowest/pins.txt
	PYTHONPATH=src $(VENV)/lowest/bin/python -m pytest -n auto -m "not slow" --continue-on-collection-errors \
	  tests/explainer tests/features tests/files tests/model tests/apps/serve tests/export $(PYTEST_ARGS)

docs: $(VENV)/.test ## build the site offline: runs the pages without a notebook (a minute), writes out/website/site/index.html
	$(BIN)/python -m website $(ARGS)

table: $(VENV)/.test ## update the tables in README and docs/ from the records
	$(BIN)/python -m website table

readme: $(VENV)/.test ## update the README: outputs, pictures, the table of results
	$(BIN)/python -m website readme

notebooks: $(VENV)/.test ## make the notebooks from their tutorials and run them; the site shows their outputs
	$(BIN)/python -m website notebooks

reproduce: $(VENV)/.experiments ## run the paper's experiments (ARGS=... is passed to `l2x reproduce`)
	$(BIN)/l2x reproduce $(ARGS)

bench: $(VENV)/.experiments ## run every benchmarks/*.py, one after the other
	@set -e; for script in $(sort $(wildcard benchmarks/[!_]*.py)); do echo "$$script"; $(BIN)/python "$$script" $(ARGS); done

dist: $(VENV)/.dist ## build wheel and sdist into dist/ and check their metadata
	rm -rf dist
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

clean: ## remove .venv, caches and builds
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Stamp files: one per set of packages, renewed when pyproject.toml or constraints.txt changes.

$(VENV)/.demo: $(VENV)/.pip pyproject.toml
	@echo "Installing l2x for the demo into $(VENV) (takes a few minutes the first time)"
	@$(PIP_INSTALL) -e '.[plots,text]' lightgbm
	@touch $@

$(VENV)/.playground: $(VENV)/.pip pyproject.toml
	@echo "Installing l2x for the playground into $(VENV) (takes a few minutes the first time)"
	@$(PIP_INSTALL) -e '.[plots,text,serve]' lightgbm
	@touch $@

$(VENV)/.test: $(VENV)/.pip pyproject.toml
	@echo "Installing l2x and the packages for its tests into $(VENV) (takes a few minutes the first time)"
	@$(PIP_INSTALL) -e '.[baselines,text,images,plots,onnx,http,ray,serve,study,mlflow]' --group test --group lint --group docs
	@touch $@

$(VENV)/.spark: $(VENV)/.test
	@echo "Installing Spark into $(VENV) for its tests, which also need Java"
	@$(PIP_INSTALL) --group spark
	@touch $@

# MLServer pins other versions of packages that l2x uses, so that it has an environment of its own.
$(VENV)/.mlserver: $(VENV)/.pip
	@echo "Installing MLServer into $(VENV)/mlserver for its tests"
	@$(PYTHON) -m venv $(VENV)/mlserver
	@$(VENV)/mlserver/bin/python -m pip install $(PIP_FLAGS) --no-input --disable-pip-version-check mlserver==1.7.1 mlserver-sklearn==1.7.1
	@touch $@

$(VENV)/.experiments: $(VENV)/.pip pyproject.toml
	@echo "Installing l2x and the packages for its experiments into $(VENV) (takes a few minutes the first time)"
	@$(PIP_INSTALL) -e '.[baselines,text,images,plots,onnx,http,ray,serve,study]' --group test
	@touch $@

$(VENV)/.dist: $(VENV)/.pip pyproject.toml
	@echo "Installing build tools into $(VENV)"
	@$(PIP_INSTALL) --group dist
	@touch $@

# First pip, pinned in constraints.txt: dependency groups need version 25.1.
$(VENV)/.pip: constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "l2x needs Python 3.11 or newer, but $(PYTHON) is %d.%d; try make PYTHON=python3.12" % sys.version_info[:2])'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) pip
	@touch $@
