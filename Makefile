# The two commands of README: `make demo` and `make test`. Both build .venv first; Python 3.11 is all they need.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=
# Two workers with one thread each: small models gain nothing from more threads.
PYTEST := HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(BIN)/python -m pytest -n 2

.PHONY: setup demo test test-slow lint types quality clean

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Broadsheet needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: setup
	$(BIN)/broadsheet demo

test: setup
	$(PYTEST) -m "not slow" $(PYTEST_ARGS)

test-slow: setup
	$(PYTEST) -m slow $(PYTEST_ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

quality: lint types

clean:
	rm -rf $(VENV) build dist src/*.egg-info
