# Two commands: `make demo` and `make test`. Each first makes the environment if it is missing or
# out of date, and needs nothing but make and Python >= 3.11.

VENV ?= .venv
PY = $(VENV)/bin/python
STAMP = $(VENV)/.installed
DEMO_ARGS ?=
# Workers of the test run; a file's tests stay with one worker, and the longest file starts early.
TEST_ARGS ?= -n 2 --dist loadfile --no-loadscope-reorder
# How many errors, and drawn by which seed; see tests/mutation/run.py.
MUTANTS_ARGS ?= --n 100 --seed 0 --jobs 2

# The first interpreter that starts (a pyenv shim may be on PATH and refuse to), is new enough and
# can make environments. Expanded on use only: nothing is probed while the stamp is fresh.
PROBE = import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
    "$$python" -c '$(PROBE)' >/dev/null 2>&1 && { echo "$$python"; break; }; done)

# Half an environment must not pass for one.
.DELETE_ON_ERROR:
.PHONY: help env demo lint test slow mutants bench clean

help:
	@echo 'make demo   install, then train and cluster on the built-in digits (DEMO_ARGS="--small")'
	@echo 'make test   install, ruff, mypy, then the whole test suite'
	@echo 'make lint   ruff and mypy only'
	@echo 'make slow   the tests that take minutes'
	@echo 'make mutants  small errors in a copy of the library: do the tests notice? (an hour)'
	@echo 'make bench  the benchmark programs, on small sizes'
	@echo 'make clean  remove what the build and the tools left (not $(VENV), not runs/)'
	@echo 'Variables:  PYTHON=python3.12  VENV=.venv  DEMO_ARGS=...  TEST_ARGS="-n 2"'

env: $(STAMP)

# Where the interpreter is missing or its link leads nowhere, the environment is made anew; a folder
# that is no environment is never cleared.
$(PY):
	@python="$(PYTHON)"; \
	"$$python" -c '$(PROBE)' >/dev/null 2>&1 || { \
	  echo "make: no Python >= 3.11 with ensurepip and venv (tried: $${python:-what is on PATH})" >&2; \
	  echo 'make: install one (on Debian and Ubuntu: python3 and python3-venv),' >&2; \
	  echo 'make: or name it: make PYTHON=/path/to/python3' >&2; \
	  exit 1; }; \
	if [ -f "$(VENV)/pyvenv.cfg" ]; then clear=--clear; else clear=; fi; \
	"$$python" -m venv $$clear "$(VENV)"

# A new environment is installed into, whatever the stamp of the old one said.
ifneq ($(shell test -x "$(PY)" || echo missing),)
.PHONY: $(STAMP)
endif

# setuptools comes first and the build is not isolated: an isolated build would ignore
# constraints.txt and fetch whatever setuptools is newest.
$(STAMP): $(PY) pyproject.toml constraints.txt
	"$(PY)" -m pip install --disable-pip-version-check --quiet -c constraints.txt setuptools
	"$(PY)" -m pip install --disable-pip-version-check --quiet -c constraints.txt \
	  --no-build-isolation -e '.[dev]'
	@touch "$(STAMP)"

demo: $(STAMP)
	"$(PY)" -m dualclust demo $(DEMO_ARGS)

lint: $(STAMP)
	"$(PY)" -m ruff check .
	"$(PY)" -m ruff format --check .
	"$(PY)" -m mypy

# pytest is last, so that what `make test` prints last is its summary.
test: lint
	"$(PY)" -m pytest $(TEST_ARGS)

slow: $(STAMP)
	"$(PY)" -m pytest -m slow

mutants: $(STAMP)
	"$(PY)" -m tests.mutation.run $(MUTANTS_ARGS)

bench: $(STAMP)
	"$(PY)" benchmarks/assign_stream.py --small
	"$(PY)" benchmarks/assignment.py --n 20000 --k 50

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
