# `make demo` and `make test` need Python 3.11 or newer, git and make, and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Tests start hundreds of processes, which find their modules compiled.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo test lint test-backends test-slow test-oldest test-ui test-long pictures-ui bench dist sbom audit docs notebooks pictures clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml papers/pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("copriv needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; try make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable '.[network,sql,model,onnx,mlflow,approximate,ui,metrics]' --editable ./papers --group dev
	touch $@

demo: setup
	$(BIN)/copriv demo --out out/demo

test: lint
	$(BIN)/python -m pytest -m "not slow and not browser" -n 3 --dist worksteal

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test-backends: setup
	$(BIN)/python -m pip install --quiet --editable . --editable './papers[ray,dask]'
	$(BIN)/python -m pytest tests/papers/test_experiments_runner.py -k "ray or dask"

test-slow: setup
	$(BIN)/python -m pytest -m "slow and not browser" -n 3 --dist worksteal

# The pages in a real browser. Chromium is the one of the system: CHROMIUM=/path names another.
CHROMIUM ?= $(shell command -v chromium)
export CHROMIUM

test-ui: setup
	@test -x "$(CHROMIUM)" || { echo "no chromium here: apt-get install chromium, or make test-ui CHROMIUM=/path/to/it"; exit 1; }
	$(BIN)/python -m pip install --quiet --group browser
	$(BIN)/python -m pytest tests/ui -m browser -n 2 --dist worksteal

HOURS ?= 1
test-long: setup
	$(BIN)/python -m pip install --quiet --group fuzz
	HISTORIES=10000 $(BIN)/python -m pytest tests/privacy/test_ledger_histories.py tests/network/test_masked_sum.py tests/network/test_missing_owners.py
	$(BIN)/python -m tests.long --hours $(HOURS)

pictures-ui: setup
	$(BIN)/python -m pip install --quiet --group browser
	PYTHONPATH=tests $(BIN)/python tests/ui/pictures.py docs/ui

# The site, into out/site: it opens from the disk.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

notebooks: setup
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python documentation/notebooks.py

# The picture of the first page and the README.
pictures: setup
	$(BIN)/copriv demo --out out/demo
	cp out/demo/demo.png docs/pictures/demo.png

# The oldest versions that pyproject.toml allows, where each is used: tables, commands, noise, solvers, wire, estimators.
OLDEST := .venv-oldest
# Shapes are checked by `make test`: the oldest jaxtyping compiles a function for each value of a dataclass.
test-oldest: setup
	mkdir -p out
	$(BIN)/uv pip compile --quiet --resolution lowest-direct --python-version 3.11 -o out/oldest.txt \
	  --extra network --extra sql --extra model --extra approximate --extra ui --extra metrics pyproject.toml
	$(BIN)/uv venv --quiet --clear $(OLDEST) --python $(BIN)/python
	$(BIN)/uv pip install --quiet --python $(OLDEST)/bin/python -r out/oldest.txt pytest pytest-xdist hypothesis beartype pandas polars
	$(BIN)/uv pip install --quiet --python $(OLDEST)/bin/python --no-deps --editable . --editable ./papers
	JAXTYPING_DISABLE=1 $(OLDEST)/bin/python -m pytest -n 3 --dist worksteal -m "not slow" README.md tests/test_public_surface.py tests/data tests/privacy \
	  tests/model/test_solvers.py tests/test_owner.py tests/network/test_transports.py tests/estimators tests/cli/test_commands.py tests/formatting

# The wheels and sources of a release, copriv's and the papers' plug-in's, checked: contents and licences, and each extra
# alone in an empty environment.
dist: setup
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python -m build --no-isolation --outdir dist papers
	$(BIN)/twine check --strict dist/*
	$(BIN)/python -m pytest tests/distribution

# What is installed, and what is known against it; the tools have an environment of their own. SECURITY.md says more.
SUPPLY := .venv-supply
$(SUPPLY)/.ready: pyproject.toml | setup
	$(BIN)/python -m venv $(SUPPLY)
	$(SUPPLY)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(SUPPLY)/bin/python -m pip install --quiet --group supply
	touch $@

sbom: setup $(SUPPLY)/.ready
	$(SUPPLY)/bin/python -m tests.supply sbom --of $(BIN)/python --out out/sbom.cdx.json

audit: setup $(SUPPLY)/.ready
	$(SUPPLY)/bin/python -m tests.supply audit --of $(BIN)/python

bench: setup
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) $(OLDEST) $(SUPPLY) out dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
