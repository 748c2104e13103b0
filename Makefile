# Two commands do everything: `make lab` and `make test`. Both set the environment up first, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.sfi-lab-ready

.PHONY: help setup lab voila test lint bench-ui figures clean
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

lint: setup  ## ruff: style and formatting
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

bench-ui: setup  ## the panels' latencies in headless Chromium against their limits (records a 4,096 x 500 trace once)
	$(BIN)/python scripts/bench_ui.py

figures: setup  ## the paper-style figures and tables from data/ into build/figures
	$(BIN)/sfi-lab figures data/traces/demo --results data/results -o build/figures

clean:  ## removes the environment and caches
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache
