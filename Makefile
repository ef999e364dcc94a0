# make demo    set everything up and run the main job on the testbed
# make test    set everything up and run all tests
# Both may be run again at any time; what is there already is not done again.

PYTHON ?= python3
VENV := .venv
TIERBENCH := $(VENV)/bin/tierbench

.PHONY: demo test unit lint setup clean

demo: setup
	trap '$(TIERBENCH) testbed down --name demo' EXIT; trap 'exit 130' INT TERM; \
	$(TIERBENCH) testbed up --name demo && $(TIERBENCH) testbed run quick --name demo

test: setup lint
	TIERBENCH_DAMAGES=1200 $(VENV)/bin/pytest

unit: setup
	$(VENV)/bin/pytest tests/unit

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

setup: $(VENV)/installed
	@sh testbed/files/install-needs

$(VENV)/installed: pyproject.toml setup.py
	@sh testbed/files/install-needs
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
