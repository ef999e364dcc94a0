# make demo    set everything up and run the main job on the testbed
# make test    set everything up and run the tests, but those that need a machine at rest or take longest
# make test-quiet    what is measured, and believed, while nothing else runs here
# make test-long    what takes longest on a testbed
# make docs    write what the code declares into the pages of docs/
# They may be run again at any time; what is there already is not done again.

PYTHON ?= python3
VENV := .venv
TIERBENCH := $(VENV)/bin/tierbench

# Unit tests have an old Python, as workers may have, run what is shipped: the first of these, or the one that is named.
OLD_PYTHON ?= $(firstword $(foreach v,3.6 3.7 3.8 3.9,\
	$(shell python$(v) -c 'import sys; print(sys.executable)' 2>/dev/null) \
	$(lastword $(wildcard $(HOME)/.pyenv/versions/$(v).*/bin/python3))))

SHIPPED_ON = $(if $(OLD_PYTHON),TIERBENCH_OLD_PYTHON=$(OLD_PYTHON))

.PHONY: demo test test-quiet test-long unit lint docs setup clean

demo: setup
	why=$$($(TIERBENCH) testbed status --name demo 2>&1 >/dev/null); case $$?,$$why in 2,*'there is no testbed'*) ;; \
	0,*|1,|1,*'is not running'*) echo 'demo: there is a testbed "demo" already, which may have a run; `$(TIERBENCH) testbed down --name demo` takes it down' >&2; exit 4 ;; \
	*) echo "demo: $$why" >&2; exit 3 ;; esac; \
	trap '$(TIERBENCH) testbed down --name demo' EXIT; trap 'echo "demo: broken off; its testbed goes, and the run in it" >&2; exit 130' INT TERM HUP; \
	$(TIERBENCH) testbed run quick --name demo

# Its parts run beside each other; their logs stay in build/test.
test: setup
	$(SHIPPED_ON) $(VENV)/bin/python tests/parts.py

test-quiet: setup
	$(VENV)/bin/pytest -m quiet tests

test-long: setup
	$(VENV)/bin/pytest -m long --numprocesses 3 --dist loadfile tests/testbed

unit: setup
	$(SHIPPED_ON) $(VENV)/bin/pytest --numprocesses auto tests/unit

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-cache --no-logo

docs: setup
	$(VENV)/bin/python docs/generate.py

setup: $(VENV)/installed
	@sh testbed/files/install-needs

$(VENV)/installed: pyproject.toml setup.py
	@sh testbed/files/install-needs
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
