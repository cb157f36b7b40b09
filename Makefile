# Everything a person does with a checkout. What is installed goes into .venv, from the two lock files, once.
# `make help` lists the targets; ARGS='...' reaches the program behind a target.

MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help

VENV := .venv
PY := $(VENV)/bin/python
RUNTIME := $(VENV)/runtime.stamp
DEV := $(VENV)/dev.stamp
PIP_INSTALL := $(PY) -m pip --disable-pip-version-check install --quiet --no-input
MINORS := 1.34 1.36 1.37
ARGS ?=

.PHONY: browser help demo demo-cluster test test-fast test-kwok test-matrix check format bench docs lock clean distclean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name text; do \
	  printf '  make %-13s %s\n' "$$name" "$$text"; done

demo: $(RUNTIME) ## the story of free 2,2,1,1 on bundled snapshots; no cluster, no Go
	@$(PY) -m planner demo --output-dir artifacts/demo $(ARGS)

demo-cluster: $(DEV) ## the same story on a real kube-scheduler over KWOK nodes
	@$(PY) -m tests.kwok.demo $(ARGS)

test: $(DEV) browser ## every test, the real control plane included (built once, then cached)
	@echo "== tests without a control plane"
	@$(PY) -m pytest -m "not bench and not kwok" --cov --cov-report=term $(ARGS)
	@echo "== tests on the real control plane"
	@$(PY) -m pytest -m "kwok and not bench" $(ARGS)

test-fast: $(DEV) ## every test that needs no control plane
	@$(PY) -m pytest -m "not bench and not kwok" $(ARGS)

test-kwok: $(DEV) ## tests on the real control plane; ARGS='-k preemption' runs some
	@$(PY) -m pytest -m "kwok and not bench" $(ARGS)

test-matrix: $(DEV) ## tests on the real control plane of each supported Kubernetes minor
	@for minor in $(MINORS); do \
	  echo "== Kubernetes $$minor"; \
	  ISLANDER_KUBE_MINOR=$$minor $(PY) -m pytest -m "kwok and not bench" $(ARGS) || exit 1; done

check: $(DEV) ## format, lint, types, import contracts; changes nothing
	@echo "== format" && $(PY) -m ruff format --check .
	@echo "== lint" && $(PY) -m ruff check .
	@echo "== types" && $(PY) -m mypy
	@echo "== imports" && $(VENV)/bin/lint-imports

format: $(DEV) ## format, and mend what the linter can mend
	@$(PY) -m ruff format . && $(PY) -m ruff check --fix .

bench: $(DEV) ## speed and memory; prints the tables of docs/benchmarks.md
	@$(PY) -m pytest tests/bench -m bench -s -o python_files='bench_*.py' $(ARGS)

docs: $(DEV) ## write the reference pages that come from code
	@$(PY) -m docs.generate

lock: $(DEV) ## resolve the two lock files anew
	@test -x $(VENV)/bin/uv || $(PIP_INSTALL) uv
	@$(VENV)/bin/uv --quiet pip compile --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
	  --custom-compile-command "make lock" --group build pyproject.toml -o requirements.lock >/dev/null
	@$(VENV)/bin/uv --quiet pip compile --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
	  --custom-compile-command "make lock" --group build --group dev pyproject.toml -o requirements-dev.lock >/dev/null

# The test of the review page needs a browser; without one it is skipped, or fails where CI=true.
browser:
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "== installing chromium, which opens the review page in a test"; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } \
	    >/dev/null 2>&1 || echo "make: chromium could not be installed; its test is skipped" >&2; \
	else echo "make: no chromium here; its test is skipped (Debian: apt install chromium)" >&2; fi

clean: ## remove caches and build results, keep .venv
	@rm -rf build dist artifacts htmlcov .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find islander extender planner tests docs -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove .venv too; the next target installs it again
	@rm -rf $(VENV)

# PYTHON=... chooses the interpreter. The loop runs each candidate, because a shim on PATH may lead nowhere.
$(VENV)/pyvenv.cfg:
	@found=; for candidate in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
	  if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    found=$$candidate; break; fi; done; \
	if [ -z "$$found" ]; then \
	  echo "make: no Python 3.11 or later found; install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; \
	  exit 1; fi; \
	if ! $$found -c 'import venv, ensurepip' 2>/dev/null; then \
	  echo "make: $$found cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2; \
	  exit 1; fi; \
	echo "== setting up $(VENV) with $$($$found --version)"; \
	rm -rf $(VENV) && $$found -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# Order-only: the interpreter's own files may change their times without anything to install.
$(RUNTIME): requirements.lock pyproject.toml | $(VENV)/pyvenv.cfg
	@echo "== installing what the programs need"
	@$(PIP_INSTALL) --require-hashes -r requirements.lock
	@$(PIP_INSTALL) --no-deps --no-build-isolation --no-index -e .
	@touch $@

$(DEV): requirements-dev.lock $(RUNTIME)
	@echo "== installing what tests and checks need"
	@$(PIP_INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@
