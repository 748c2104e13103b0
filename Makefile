# Two commands do everything: `make lab` and `make test`. Both set the environment up first, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.sfi-lab-ready
FLOOR := .venv-floor

.PHONY: help setup lab voila test floor lint bench-ui figures clean
.DEFAULT_GOAL := help

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' Makefile

setup: $(STAMP)  ## .venv with the exact tested versions and the sfi-lab command (nothing to do the second time)

# torch first and alone: with the version pinned, pip can take a CPU build where one is at hand
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt setuptools torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable '.[dev]'
	touch $@

lab: setup  ## JupyterLab on the workbench notebook
	$(BIN)/sfi-lab lab

voila: setup  ## the workbench notebook as a page without code, at http://localhost:8866
	$(BIN)/python -m sfi_widgets.voila notebooks/01_workbench.ipynb --no-browser

test: setup  ## every test: units, kernels under Triton's interpreter, notebooks by nbval, browser
	$(BIN)/python -m pytest

floor: $(FLOOR)/.sfi-lab-ready  ## the tests that touch transformers, under the oldest one that pyproject.toml allows (.venv-floor)
	$(FLOOR)/bin/python -c "import torch, transformers as t; print('transformers', t.__version__, '- torch', torch.__version__)"
	$(FLOOR)/bin/python -m pytest tests/decoder tests/methods tests/compat tests/attention tests/evaluate

# constraints.txt, but pyproject's least transformers; huggingface_hub is what that release asks for
$(FLOOR)/.sfi-lab-ready: pyproject.toml constraints.txt
	test -x $(FLOOR)/bin/python || $(PYTHON) -m venv $(FLOOR)
	sed '/^transformers==/d; /^huggingface_hub==/d' constraints.txt > $(FLOOR)/constraints.txt
	sed -n 's/^ *"transformers>=\([0-9.]*\)",/transformers==\1/p' pyproject.toml >> $(FLOOR)/constraints.txt
	grep -q '^transformers==' $(FLOOR)/constraints.txt
	$(FLOOR)/bin/python -m pip install --quiet --disable-pip-version-check -c $(FLOOR)/constraints.txt setuptools torch
	$(FLOOR)/bin/python -m pip install --quiet --disable-pip-version-check -c $(FLOOR)/constraints.txt --editable '.[dev]'
	touch $@

lint: setup  ## ruff: style and formatting
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

bench-ui: setup  ## the panels' latencies in headless Chromium against their limits (records a 4,096 x 500 trace once)
	$(BIN)/python scripts/bench_ui.py

figures: setup  ## the paper-style figures and tables from data/ into build/figures
	$(BIN)/sfi-lab figures data/traces/demo --results data/results -o build/figures

clean:  ## removes the environment and caches
	rm -rf $(VENV) $(FLOOR) build *.egg-info .pytest_cache .ruff_cache
