# Each target sets up .venv by itself; `make` again is quick when nothing changed.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-slow test-browser lint format bench reproduction diagnostics beyond offline dqn clean

demo: $(READY)
	$(BIN)/gaussbell evaluate mountain-car --out runs/demo --report runs/demo/report.html

# The tests, and the examples in docstrings as users run them: JAX as it comes.
test: $(READY)
	$(BIN)/python -m pytest -n 2 -m "not slow and not browser"
	$(BIN)/python -m pytest -n 2 --doctest-modules src

test-slow: $(READY)
	$(BIN)/python -m pytest -n 2 -m slow

# The report in headless Chromium; needs Debian's chromium and chromium-driver, or the like.
test-browser: .venv/.browser
	$(BIN)/python -m pytest -m browser -rs

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Half an hour on 2 cores; `make bench BENCH=docs/bench` renews what the README shows.
BENCH ?= runs/bench
bench: .venv/.bench
	$(BIN)/gaussbell bench --out $(BENCH)
	$(BIN)/python benchmarks/peers.py --out $(BENCH)
	$(BIN)/python benchmarks/minibatches.py --out $(BENCH)
	$(BIN)/python benchmarks/seeds.py --out $(BENCH)
	$(BIN)/python benchmarks/large.py --out $(BENCH)
	$(BIN)/python benchmarks/more_garbow_hillstrom.py --out $(BENCH)
	$(BIN)/python benchmarks/truth.py --out $(BENCH)
	$(BIN)/python benchmarks/paper_times.py --out $(BENCH)
	$(BIN)/python benchmarks/diagnostics.py --out $(BENCH)
	$(BIN)/python benchmarks/report.py --out $(BENCH)
	$(BIN)/python benchmarks/draw.py --out $(BENCH)

# The paper's experiments and the verdicts on its claims; interrupted, it goes on where it stopped.
# Minutes on 2 cores; SCALE=paper takes a day or two, and writes a page of its own.
SCALE ?= quick
PAGE = docs/$@$(if $(filter-out quick,$(SCALE)),-$(SCALE)).md
reproduction: $(READY)
	$(BIN)/gaussbell reproduce all --scale $(SCALE) --out docs/reproduction
	$(BIN)/gaussbell check all --scale $(SCALE) --out docs/reproduction --page $(PAGE)

# The propositions by numbers, and how well diagnostics predict errors: a quarter of an hour on 2 cores.
diagnostics: $(READY)
	$(BIN)/gaussbell reproduce diagnostics --scale $(SCALE) --out docs/diagnostics
	$(BIN)/gaussbell check diagnostics --scale $(SCALE) --out docs/diagnostics --page $(PAGE)

# Values, noise, control and endings: a quarter of an hour on 2 cores.
beyond: $(READY)
	$(BIN)/gaussbell reproduce beyond --scale $(SCALE) --out docs/beyond
	$(BIN)/gaussbell check beyond --scale $(SCALE) --out docs/beyond --page $(PAGE)

# Beside d3rlpy's FQE if FQE_PYTHON names the Python of an environment that has it.
offline: $(READY)
	$(BIN)/python benchmarks/offline.py --out $(BENCH) $(if $(FQE_PYTHON),--fqe-python $(FQE_PYTHON))

# Beside Stable-Baselines3's DQN if DQN_PYTHON names the Python of an environment that has it.
dqn: $(READY)
	$(BIN)/python benchmarks/control_peers.py --out $(BENCH) $(if $(DQN_PYTHON),--dqn-python $(DQN_PYTHON))

clean:
	rm -rf .venv runs build dist .pytest_cache .ruff_cache .hypothesis .jax_cache
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

.venv/.bench: $(READY)
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	touch $@

.venv/.browser: $(READY)
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[browser]"
	touch $@

# PIP_CONSTRAINT reaches the build back end too, which -c does not.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gaussbell needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@
