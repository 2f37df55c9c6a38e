# Everything a developer types. `make` alone lists the targets.

BIN   := .venv/bin
STAMP := .venv/.installed
JAR   := .venv/.jar
T     ?= tests
FAST  := not interop and not chaos and not spark
SEED  := $(or $(SEED),$(shell od -An -N4 -tu4 /dev/urandom | tr -d ' '))
PAGE  := src/headrace/console/dist/index.html
NODES := console/node_modules/.package-lock.json

.DEFAULT_GOAL := help
.PHONY: help setup run demo test fuzz chaos interop spark check format docs bench console page lint-page site pictures build lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) $(JAR) page ## make .venv, install everything, build the management page (PYTHON=... chooses the interpreter)
	@$(if $(filter setup,$(MAKECMDGOALS)),echo "setup: done; next: $(BIN)/headrace serve",:)

$(STAMP): pyproject.toml constraints.txt scripts/setup
	@scripts/setup
	@touch $@

$(JAR): $(STAMP) scripts/build_jar.py $(shell find spark-jvm/src -name '*.java')
	@$(BIN)/python scripts/build_jar.py --install
	@touch $@

run: setup ## run a broker in the foreground (ARGS="--amqp-port 5673" adds flags)
	@$(BIN)/headrace serve $(ARGS)

demo: setup page ## show what the broker does, once, and stop
	@$(BIN)/headrace demo $(ARGS)

test: setup page ## run all tests but the long ones below (T=path chooses)
	@$(BIN)/python -m pytest -q -n 4 --randomly-seed=1 -m "$(FAST)" $(T)

fuzz: setup ## try property tests with new examples, ten times as many (SEED=N repeats a run)
	@echo "fuzz: make fuzz SEED=$(SEED) repeats this run"
	@$(BIN)/python -m pytest -q -n 4 --hypothesis-profile=fuzz --hypothesis-seed=$(SEED) \
		--randomly-seed=$(SEED) --timeout=3600 -m "hypothesis and $(FAST)" $(T) || \
		{ echo "fuzz: make fuzz SEED=$(SEED) repeats this run"; exit 1; }

chaos: setup ## kill brokers and break disks for fifteen minutes (CHAOS_SEED=N repeats a run)
	@$(BIN)/python -m pytest -q -m chaos tests

interop: setup ## let foreign clients judge the broker
	@$(BIN)/python -m pytest -q -m interop tests/interop

spark: setup ## the long runs on Spark: kills, a cluster, throughput
	@$(BIN)/python -m pytest -q -m spark tests/spark

check: setup lint-page ## format, lint, types, import contracts, generated docs, the site
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python scripts/check_names.py
	@$(BIN)/python scripts/gen_docs.py --check
	@$(BIN)/python scripts/check_types.py
	@$(MAKE) --no-print-directory site

format: setup ## format the code and mend what lint can mend
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory lint-page FIX=--write; fi

docs: setup ## write the pages of docs/ that come from the code
	@$(BIN)/python scripts/gen_docs.py

site: setup ## build the documentation site into build/site, without network access
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "site: build/site; python3 -m http.server -d build/site serves it on port 8000"

pictures: setup console ## make the pictures of README and docs from a running broker
	@PYTHONPATH=scripts $(BIN)/python -m pictures $(ARGS)

bench: setup ## measure throughput and latency on this machine
	@$(BIN)/headrace bench $(ARGS)
	@$(BIN)/headrace bench client
	@$(BIN)/headrace bench topics

console: $(PAGE) ## build the management page (needs Node.js 18 or newer)

$(PAGE): $(NODES) console/build.mjs $(shell find console/src -type f)
	@cd console && node build.mjs

$(NODES): console/package-lock.json console/package.json
	@echo "setup: 4 of 4, installing what builds the management page (npm, up to a minute)"
	@cd console && npm ci --no-progress --loglevel=error
	@touch $@

# Everything else works without the management page.
page:
	@if ! command -v npm >/dev/null; then \
		echo "page: Node.js is not installed, so there is no management page (apt-get install nodejs npm)"; \
	elif ! $(MAKE) --silent --no-print-directory console; then echo "page: not built, see above"; fi

# Where Node.js is missing the page is not checked; in CI that is an error.
lint-page:
	@if command -v npm >/dev/null; then $(MAKE) --silent --no-print-directory $(NODES) && \
		cd console && node_modules/.bin/biome check --error-on-warnings $(FIX); \
	else echo "check: Node.js is not installed, so the management page is not checked"; [ -z "$$CI" ]; fi

build: setup page ## build the wheels into dist/: headrace, and the jar for Spark
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@$(BIN)/python scripts/build_jar.py
	@ls dist/*.whl

lock: setup ## renew constraints.txt with the newest versions
	@scripts/lock

clean: ## remove .venv, caches and builds (never a data directory)
	rm -rf .venv build dist console/node_modules src/headrace/console .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
