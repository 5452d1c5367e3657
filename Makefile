# Every target sets up what it needs: each works as the first command after a checkout.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
SEEDS ?= 2000
JOBS ?= 4
ROUNDS ?= 200
MINUTES ?= 10

.PHONY: help setup setup-lag setup-dev web up down run test check unit sim conformance record console system soak test-compose bench bench-cluster clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 16

setup: .venv/.run web/dist/index.html ## build .venv with what every service needs, and the console

setup-lag: .venv/.lag ## Spark, for the reports of lag

setup-dev: .venv/.dev ## what the tests and benches need: test clients, Java, kcat, Apache Kafka's tools

.venv/.run: requirements/run.txt pyproject.toml
	@scripts/debian-packages venv
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/run.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.venv/.dev: .venv/.run requirements/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@

web: web/dist/index.html ## build the console; wants Node.js 20.19 or later, and takes it from PyPI where there is none

WEB_SOURCES := $(shell find web -type f -not -path 'web/node_modules/*' -not -path 'web/dist/*' -not -path 'web/src/generated/*')
NPM := PATH="$(CURDIR)/.venv/bin:$$PATH" npm --prefix web --no-update-notifier

web/node_modules/.ready: .venv/.run web/package-lock.json requirements/web.txt
	@node -e 'const [major, minor] = process.versions.node.split("."); process.exit(+major > 20 || (+major == 20 && +minor >= 19) ? 0 : 1)' 2>/dev/null \
	  || $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/web.txt
	$(NPM) ci --loglevel error
	@touch $@

web/dist/index.html: web/node_modules/.ready $(WEB_SOURCES) api/isthmus_api/openapi.py $(wildcard api/isthmus_api/routes/*/*.py api/isthmus_api/core/*.py)
	$(NPM) run --silent generate
	$(NPM) run --silent build -- --logLevel warn

.venv/.lag: .venv/.dev requirements/lag.txt scripts/debian-packages
	@scripts/debian-packages lag
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/lag.txt
	@touch $@

.tools/.ready: .venv/.lag scripts/debian-packages scripts/apache-kafka tests/kafka.py tests/spark_connector.py \
  tests/franz_go.py bench/mirror_maker.py requirements/go.txt $(wildcard tests/conformance/clients/franz_go/*)
	@scripts/debian-packages peers
	@scripts/debian-packages stores
	@scripts/debian-packages browser
	$(BIN)/python scripts/apache-kafka fetch
	$(BIN)/python -m tests.spark_connector >/dev/null
	$(BIN)/python -m tests.franz_go >/dev/null
	$(BIN)/python -m bench.mirror_maker
	@mkdir -p .tools && touch $@

up: setup ## the whole platform over three regions on this machine; `make down` ends it
	$(BIN)/isthmus up

down: .venv/.run ## end what `make up` started
	$(BIN)/isthmus down

run: .venv/.run ## start a node with the embedded defaults on 127.0.0.1:9092
	exec $(BIN)/isthmus node

test: .tools/.ready web/dist/index.html check ## everything CI runs
	@# Once, also where PYTHONDONTWRITEBYTECODE is set: else each of the thousand processes that tests start would compile everything.
	@$(BIN)/python -m compileall -q api lib services tests bench
	$(BIN)/pytest tests --ignore tests/compose -n $(JOBS) --no-loadscope-reorder --durations 30 --durations-min 3

check: .venv/.lag web/dist/index.html ## style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --config pyproject.toml
	$(BIN)/mypy
	$(NPM) run --silent check

unit: .venv/.lag ## the tests that start no process
	$(BIN)/pytest tests/unit tests/scripts tests/sim tests/edge -n $(JOBS) --no-loadscope-reorder

sim: .venv/.dev ## the simulation, SEEDS=100000 for a campaign
	$(BIN)/python -m tests.sim --seeds $(SEEDS)

conformance: .tools/.ready ## real clients and recorded answers against a node
	$(BIN)/pytest tests/conformance

record: .tools/.ready ## ask Apache Kafka again and keep its answers
	$(BIN)/python -m tests.conformance.record

console: .tools/.ready web/dist/index.html ## the console in a browser, against the whole platform
	$(BIN)/pytest tests/console

system: .tools/.ready ## processes killed under load
	$(BIN)/pytest tests/system

soak: .tools/.ready ## every fault of a cluster under load, MINUTES=10 of each, and ROUNDS=200 times SIGKILL of a single node
	$(BIN)/python -m bench.soak --minutes $(MINUTES)
	ISTHMUS_KILL_ROUNDS=$(ROUNDS) $(BIN)/pytest tests/system/test_sigkill.py --timeout 7200

test-compose: .tools/.ready ## the platform in containers, from nothing to nothing; wants docker with compose
	@scripts/debian-packages containers
	$(BIN)/pytest tests/compose --timeout 1800

bench: .tools/.ready ## Isthmus beside Apache Kafka; results land in bench/results
	$(BIN)/python -m bench
	$(BIN)/python -m bench.transactions
	$(BIN)/python -m bench.compaction

bench-cluster: .tools/.ready ## three nodes of each, failover, 100,000 partitions
	$(BIN)/python -m bench.cluster
	$(BIN)/python -m bench.failover
	$(BIN)/python -m bench.partitions

clean: ## remove what the targets made
	rm -rf .venv .tools web/node_modules web/dist web/src/generated .mypy_cache .ruff_cache .pytest_cache .hypothesis
