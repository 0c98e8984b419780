# make lab   set up and open the notebooks       make test   set up and check everything
# make app   the explorers in a browser          make bench   the figures in tests/benchmarks
# make notebooks   run every notebook in place   make assets  the sweeps behind the explorers, anew (an hour)
# make docs  the site, in _docs/html             make test-all  the slow tests too
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
TORCH  ?= torch==2.13.0
# CPU wheels; for a CUDA build on Linux: make lab TORCH_INDEX=
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
PIP     = $(BIN)/python -m pip install -q --disable-pip-version-check
export OMP_NUM_THREADS ?= 2
WHICH ?= -m "not slow"

.PHONY: setup lab app test test-all bench export notebooks assets docs clean
setup: $(VENV)/.done

$(VENV)/.done: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Python >= 3.11 needed, found " + sys.version) if sys.version_info < (3, 11) else 0'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import torch' 2>/dev/null || { echo "installing $(TORCH)"; \
	  $(PIP) --retries 1 --timeout 15 $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) '$(TORCH)' 2>/dev/null || $(PIP) '$(TORCH)'; }
	@echo "installing gib-nb and what it needs (a minute or two)"
	$(PIP) -c constraints.txt -e '.[dev]'
	$(BIN)/python -m ipykernel install --prefix $(VENV) --name python3 >/dev/null
	touch $@

lab: setup
	$(BIN)/jupyter lab nbs/start_here.ipynb $(if $(filter 0,$(shell id -u)),--allow-root) $(LAB_FLAGS)

app: setup
	$(BIN)/gib-nb app $(APP_FLAGS)

assets: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m gib_nb.explorers --jobs 2

export: setup
	$(BIN)/nbdev_export

notebooks: setup
	$(BIN)/python tests/run_notebooks.py
	$(BIN)/nbdev_clean
	$(BIN)/nbdev_export

test: setup
	OMP_NUM_THREADS=1 $(BIN)/nbdev_test --n_workers 2
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q $(WHICH) -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart 2 tests

test-all:
	$(MAKE) test WHICH=

docs: setup
	$(BIN)/python docs/build.py

bench: setup
	$(BIN)/python -m tests.benchmarks $(BENCH)

clean:
	rm -rf $(VENV) build *.egg-info
