# Targets explain themselves: `make` lists them. Everything lives in .venv; `make clean` forgets it.
PYTHON ?= python3
VENV   ?= .venv
REPO   ?= .
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check lint types house generated format pytest slow again bench crash crash-mutations scale fuzz worktree-fuzz wire-fuzz questions sandbox-attacks live real tokens pictures docs wheel-test clean

# Tests start the program thousands of times. Without cached bytecode each start compiles the sources again.
unexport PYTHONDONTWRITEBYTECODE

# SANDBOX=mode sets the mode of the sandbox in the demo, the tests and the kills. The default is auto in the demo, else off.
ifdef SANDBOX
$(if $(filter off auto required,$(SANDBOX)),,$(error SANDBOX is '$(SANDBOX)'; it must be off, auto or required))
export TEAMWRIGHT_SANDBOX := $(SANDBOX)
endif

help:  ## list what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "SANDBOX=off, auto or required sets the mode of the sandbox in demo, test, test-all and crash: make test SANDBOX=required"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "teamwright needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 3; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) has no module venv or ensurepip: apt install python3-venv (Debian, Ubuntu), or make PYTHON=/path/to/another/python3"; exit 3; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 3; }

$(VENV)/.runtime: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@

# The other product's locks are npm's proper-lockfile: tests meet the real one. Without npm they say that they skip.
$(VENV)/.npm: $(BIN)/python
	@if ! command -v npm >/dev/null; then echo "npm is not installed: tests against proper-lockfile will be skipped"; \
	elif npm install --prefix $(VENV)/npm --no-save --no-package-lock --no-audit --no-fund --ignore-scripts \
		--loglevel=error --fetch-retries=1 proper-lockfile@4; then touch $@; \
	else echo "proper-lockfile could not be installed: tests against it will be skipped"; fi

# In a fresh checkout the tests are compiled once, before each worker imports all of them.
$(VENV)/.tests: $(VENV)/.dev
	$(BIN)/python -m tests.support.compile_tests
	@touch $@

demo: $(VENV)/$(if $(MACHINES)$(WORKTREES),.dev,.runtime)  ## a team reads a repository and reports (REPO=path, default: this one; PANES=1 shows each member in a tmux pane; KILL=1 kills it three times; ASK=1 asks for a call; MODEL=name for a real model; MACHINES=1 runs a team over two machines, one of which is killed; WORKTREES=1 integrates the work of three members)
	$(if $(MACHINES),$(BIN)/python -m tests.crash.machines,$(if $(WORKTREES),$(BIN)/python -m tests.session.worktrees.demo,$(BIN)/teamwright demo --repo $(REPO) $(if $(KILL),--kill,) $(if $(PANES),--panes,) $(if $(ASK),--ask --yes,) $(if $(MODEL),--model $(MODEL),)))

# The check of the types uses one core for a minute: the tests begin on the other one.
test: lint  ## formatter, linter, types and the tests: run it before each commit
	$(MAKE) -j 2 types pytest

test-all: slow  ## what `make test` leaves out: slow tests, all examples of Hypothesis, kills at random, fuzzes (CI: with fewer examples and kills)
	$(MAKE) crash CRASH_KILLS=100 CRASH_MEMBER_KILLS=30
	$(MAKE) fuzz SECONDS=60
	$(MAKE) fuzz SECONDS=60 ARGS=--surroundings
	$(MAKE) worktree-fuzz SECONDS=60 SEED=1
	$(MAKE) wire-fuzz SECONDS=60

check: lint types  ## formatter, linter and types only

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/pyright --pythonpath $(BIN)/python

house: $(VENV)/.dev  ## figures of the code's structure, and why larger pieces are large (ARGS=--write shortens the lists of exceptions)
	$(BIN)/python -m tests.structure.figures $(ARGS)

generated: $(VENV)/.dev  ## write the files that are made from the code: names and schemas of the tools, the help, completion
	$(BIN)/python -m teamwright.tools.generate_built_in_tools
	$(BIN)/python -m teamwright.ui.cli.generate_help_files
	$(BIN)/python -m tests.permissions.verdict_page
	$(BIN)/python -m tests.real.outcomes

format: $(VENV)/.dev  ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Four workers for two cores: tests wait for processes. A file stays with one worker, so that it makes its fixtures once.
pytest: $(VENV)/.dev $(VENV)/.npm $(VENV)/.tests  ## the tests of `make test` alone (ARGS='-k name' for some)
	$(BIN)/python -m pytest -n 4 --dist loadfile -m 'not slow' $(ARGS)

slow: $(VENV)/.dev $(VENV)/.npm $(VENV)/.tests  ## the tests of `make test-all` alone (ARGS='-k name' for some; SLOW=slow without all examples of Hypothesis)
	$(BIN)/python -m pytest -n 3 --dist loadfile -m '$(or $(SLOW),slow or hypothesis)' --hypothesis-profile=full $(ARGS)

again: $(VENV)/.dev  ## what failed last, one after the other
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none -n 0 -v

bench: $(VENV)/.dev  ## the benchmarks, with floors (ARGS='w4 w7' for some)
	$(BIN)/python -m bench $(ARGS)

crash: $(VENV)/.dev  ## a team is killed hundreds of times and must lose nothing, then one with members in processes, one in a database, one over several machines, and an integration queue (CRASH_KILLS=400, CRASH_MEMBER_KILLS=100, CRASH_WORKER_KILLS=30, CRASH_SEED=… to replay)
	$(BIN)/python -m tests.crash.run $(ARGS)
	$(BIN)/python -m tests.crash.processes
	$(BIN)/python -m tests.crash.database --kills 60
	$(BIN)/python -m tests.crash.workers
	$(BIN)/python -m tests.crash.integration

scale: $(VENV)/.dev  ## three leads and eight members work for 15 minutes and are killed: nothing is lost, memory and CPU stay flat (ARGS='--minutes 60'; MACHINES=8: a team over so many machines instead, ARGS='--members 10 --tasks 200')
	$(BIN)/python -m $(if $(MACHINES),tests.scale.machines --workers $(MACHINES),tests.scale.run) $(ARGS)

crash-mutations: $(VENV)/.dev  ## the same without each of its safeties: it must notice (ARGS='guard owed' for some)
	$(BIN)/python -m tests.crash.mutants $(ARGS)

fuzz: $(VENV)/.dev  ## shell lines that are allowed without a question run in a sandbox; none may change or show what it must not (SECONDS=300, SEED=… to replay; ARGS='--shell zsh', '--shell bash': in a user's shell with options; ARGS=--sandbox-read: every line, in the policy *read*; ARGS=--surroundings: real calls with programs and files of the project on the PATH, in variables and in git settings)
	$(BIN)/python -m tests.permissions.fuzz --seconds $(or $(SECONDS),300) $(if $(SEED),--seed $(SEED),) $(ARGS)

worktree-fuzz: $(VENV)/.dev  ## lines at random in worktrees of agents, with deletions and renames: the person's repository must be as before (SECONDS=300, SEED=… to replay)
	$(BIN)/python -m tests.worktrees.fuzz --seconds $(or $(SECONDS),300) $(if $(SEED),--seed $(SEED),) $(ARGS)

wire-fuzz: $(VENV)/.dev  ## damaged answers of each model API: read right, or an error that names what was missing (SECONDS=300, SEED=… to replay)
	$(BIN)/python -m tests.models.formats.wire_fuzz --seconds $(or $(SECONDS),300) $(if $(SEED),--first $(SEED),) $(ARGS)

questions: $(VENV)/.dev  ## how many common lines of developers ask with a sandbox
	$(BIN)/python -m tests.permissions.common_lines

sandbox-attacks: $(VENV)/.dev  ## hostile commands run in the sandbox: a table of attacks and implementations
	$(BIN)/python -m tests.sandbox.attacks

live: $(VENV)/.dev  ## the tests against a real service, with the key that is set; costs money, at most what it says first (TEAMWRIGHT_LIVE_MODEL=name for another model)
	TEAMWRIGHT_LIVE=1 $(BIN)/python -m pytest tests/live -n 0 -v -rs $(ARGS)

$(VENV)/real/.packages: $(BIN)/python tests/real/requirements.txt
	$(PYTHON) -m venv $(VENV)/real
	$(VENV)/real/bin/python -m pip install -q --no-deps -r tests/real/requirements.txt
	@touch $@

$(VENV)/litellm/.packages: $(BIN)/python tests/real/requirements-litellm.txt
	$(PYTHON) -m venv $(VENV)/litellm
	$(VENV)/litellm/bin/python -m pip install -q -r tests/real/requirements-litellm.txt
	@touch $@

real: $(VENV)/.dev $(VENV)/real/.packages $(if $(LITELLM),$(VENV)/litellm/.packages)  ## the tests with a real, small model on a llama.cpp server, in an environment of its own (130 MB; one core; LITELLM=1: with LiteLLM in front too, 756 MB; OUTCOMES=1 stores the results for the docs)
	TEAMWRIGHT_REAL_PYTHON=$(abspath $(VENV)/real/bin/python) TEAMWRIGHT_REAL_OUTCOMES=$(OUTCOMES) \
	$(if $(LITELLM),TEAMWRIGHT_REAL_LITELLM=$(abspath $(VENV)/litellm/bin/python)) $(BIN)/python -m pytest tests/real -n 0 -v -s $(ARGS)

$(VENV)/tokens/.packages: $(BIN)/python
	$(PYTHON) -m venv $(VENV)/tokens
	$(VENV)/tokens/bin/python -m pip install -q bpe-openai==0.1.4
	-$(VENV)/tokens/bin/python -m pip install -q ctok==1.3.0
	-npm install --silent --prefix $(VENV)/tokens gpt-tokenizer@4.0.0
	@touch $@

tokens: $(VENV)/.dev $(VENV)/tokens/.packages $(VENV)/real/.packages  ## the prefix of each agent in tokens, by four tokenizers (ctok needs Python 3.12; one that does not install is skipped)
	TEAMWRIGHT_TOKENIZER_PYTHONS=$(abspath $(VENV)/tokens/bin/python) NODE_PATH=$(abspath $(VENV)/tokens/node_modules) TEAMWRIGHT_REAL_PYTHON=$(abspath $(VENV)/real/bin/python) $(BIN)/python -m pytest tests/session/test_prefix_tokens.py -n 0 -rs $(ARGS)

$(VENV)/.docs: $(VENV)/.runtime
	$(PIP) install -c constraints.txt -e '.[docs]'
	@touch $@

pictures: $(VENV)/.dev $(VENV)/.docs  ## make docs/pictures again, from real runs in tmux with scripted models, and from the site (ARGS='team demo' for some)
	$(BIN)/python -m tests.ui.make_pictures $(ARGS)
	$(BIN)/python -m tests.docs.site_browser

docs: $(VENV)/.docs  ## build the documentation site into site/, with every warning as an error
	$(BIN)/zensical build --clean --strict

wheel-test: $(VENV)/.dev  ## build the wheel, install it into a clean environment, run the demo from it
	bash .ci/wheel_test $(PYTHON) $(BIN)/python

clean:  ## forget the environment and all that was built
	rm -rf $(VENV) dist site .cache .ruff_cache .hypothesis bench/results
