# `make run` and `make test` need nothing but python3, make and a Debian-like system.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PYTHONUTF8 := 1
export NO_MKDOCS_2_WARNING := 1
# Tests start hundreds of processes: they need not compile the same modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run tour explore test coverage test-slow lint bench bench-audit bench-explore bench-heat bench-schedule bench-simulate bench-slurm bench-trace docs pictures reference browser slurm slurm-demo lock clean
.DEFAULT_GOAL := help

help:  ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# One stamp a set of extras: `make run` installs no more than it needs.
$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "drfh needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { rm -rf $(VENV); \
	    echo "installing python3-venv"; apt-get update -qq && apt-get install -y -qq python3-venv && \
	    $(PYTHON) -m venv $(VENV); }
	@touch $@

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/.python
	@echo "setting up $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

# Machine code of the hot loops, made when they are new or changed: the first command starts warm.
$(VENV)/.warm: $(VENV)/.run $(wildcard src/drfh/kernels/*.py src/drfh/kernels/*/*.py)
	@echo "compiling the hot loops (once, a minute)"
	@$(BIN)/python -m drfh.precompile
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/.warm
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs,web]'
	@touch $@

$(VENV)/.web: pyproject.toml constraints.txt | $(VENV)/.warm
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check -c constraints.txt -e '.[web]'
	@touch $@

$(VENV)/.bench: pyproject.toml constraints.txt | $(VENV)/.warm
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@

run: ARGS ?= --quick
run: $(VENV)/.warm  ## Set up, then reproduce the paper's evaluation (quick; ARGS= for all of it)
	@$(BIN)/drfh reproduce $(ARGS) --force -o reproduction
	@echo "(the command is $(BIN)/drfh; $(BIN)/drfh tour shows around)"

tour: $(VENV)/.warm  ## Set up, then take the guided tour
	@$(BIN)/drfh tour

explore: $(VENV)/.web  ## Set up, then open the explorer in a browser (ARGS= for a file, a port, …)
	@$(BIN)/drfh explore $(ARGS)

browser:  ## Install Debian's chromium for the tests of pages, where that is possible
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; } || \
	    echo "no chromium and no way to install it: the tests of pages will be skipped"

# The packages' daemons stay asleep: where nothing says so already, policy-rc.d does for as long as
# it takes.
slurm:  ## Install Debian's Slurm for the tests with a real cluster, where that is possible
	@PATH="$$PATH:/usr/sbin:/sbin"; \
	for program in munged slurmctld slurmd sbatch; do \
	    command -v $$program >/dev/null || absent="$$absent $$program"; \
	done; \
	[ -z "$$absent" ] || { [ "$$(id -u)" = 0 ] && apt-get update -qq && { \
	    policy=/usr/sbin/policy-rc.d; \
	    [ -e $$policy ] || { trap "rm -f $$policy" EXIT; trap 'exit 1' INT TERM; \
	        printf '#!/bin/sh\nexit 101\n' >$$policy && chmod 755 $$policy; }; \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	        slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins >/dev/null; }; } || \
	    echo "no Slurm and no way to install it: the tests with a real Slurm will be skipped"

slurm-demo: $(VENV)/.web slurm  ## A 16-node Slurm cluster on this machine, shared by three users
	@$(BIN)/drfh slurm demo $(ARGS)

# One more process than processors: tests with a browser or a real Slurm wait for much of their time.
WORKERS ?= $(shell expr $$(nproc) + 1)

test: $(VENV)/.dev $(VENV)/.warm browser slurm  ## Set up, lint, type-check, build the docs and run the tests
	@$(MAKE) --no-print-directory -j2 --output-sync=target lint docs QUIET=--quiet
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not slow' --durations=30

coverage: $(VENV)/.dev $(VENV)/.warm  ## The tests again, with the lines that none of them reaches
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not slow' --cov --cov-report=term

test-slow: $(VENV)/.dev $(VENV)/.warm browser slurm  ## Tests that take minutes, and random ones with all their examples
	@$(BIN)/python -m pytest -n $(shell nproc) --dist worksteal -m 'slow or hypothesis' --hypothesis-profile slow --durations=30

lint: $(VENV)/.dev  ## ruff and mypy --strict
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: $(VENV)/.bench  ## Us against cvxpy, HiGHS and OR-tools, as ratios
	@$(BIN)/python benchmarks/allocate.py

bench-audit: $(VENV)/.bench  ## How long audits and mechanisms take
	@$(BIN)/python benchmarks/audit.py

bench-schedule: $(VENV)/.bench  ## Placements a second against numpy scans, as ratios
	@$(BIN)/python benchmarks/schedule.py

bench-simulate: $(VENV)/.bench  ## A simulated day against simpy models, as ratios
	@$(BIN)/python benchmarks/simulate.py $(ARGS)

bench-slurm: $(VENV)/.bench slurm  ## Jobs a second on a real Slurm, against its own scheduler
	@$(BIN)/python benchmarks/slurm.py $(ARGS)

bench-trace: $(VENV)/.bench  ## Google's trace against a pandas reader, as a ratio
	@$(BIN)/python benchmarks/trace_reading.py $(ARGS)

bench-explore: $(VENV)/.dev browser  ## First paint of the explorer, and edits from key to paint
	@$(BIN)/python benchmarks/explore.py $(ARGS)

bench-heat: $(VENV)/.dev browser  ## The heat map: milliseconds a frame, against a page of plain elements
	@$(BIN)/python benchmarks/heat.py $(ARGS)

docs: $(VENV)/.dev  ## Build the documentation into site/
	@$(BIN)/mkdocs build --strict $(QUIET)

pictures: $(VENV)/.dev  ## Draw the pictures of README and docs again
	@$(BIN)/python docs/pictures.py
	@$(BIN)/python docs/slurm_pictures.py
	@$(BIN)/python docs/explore_pictures.py
	@$(BIN)/python docs/live_pictures.py

reference: $(VENV)/.dev  ## Write the pages of mechanisms, properties and JSON, and the notebook, again
	@$(BIN)/python docs/reference.py
	@$(BIN)/python docs/notebook.py

lock: $(VENV)/.python  ## Pin the newest versions that fit pyproject.toml
	@$(BIN)/python -m pip install --quiet --quiet uv
	@$(BIN)/uv pip compile --quiet --universal --all-extras --no-emit-index-url --no-header \
	    --no-annotate --upgrade pyproject.toml -o constraints.txt

clean:  ## Remove the environment and everything built
	rm -rf $(VENV) site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
