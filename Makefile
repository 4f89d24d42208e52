# make demo     set up and crawl the example bookshop
# make test     set up and run all tests
# make check    ruff, mypy --strict
# make bench    the benchmark table (needs nginx and curl; installs Scrapy and Crawlee for comparison)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= auto

.PHONY: demo test check bench clean

demo: $(VENV)/ready
	$(BIN)/sc demo

test: $(VENV)/ready-test
	$(BIN)/python -m pytest -n $(JOBS) $(ARGS)

check: $(VENV)/ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check stateful_crawler tests benchmarks examples
	$(BIN)/mypy

bench: $(VENV)/ready-bench
	$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) build dist *.egg-info sc-demo

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version) if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "python3 -m venv does not work here; on Debian: apt-get install python3-venv" >&2; exit 1; }

$(VENV)/ready: $(VENV)/bin/python setup.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/ready-test: $(VENV)/bin/python setup.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,dev]'
	@touch $(VENV)/ready $@

$(VENV)/ready-bench: $(VENV)/bin/python setup.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $(VENV)/ready $@
