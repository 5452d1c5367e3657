# Every target sets up what it needs: each works as the first command after a checkout.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
SEEDS ?= 2000
JOBS ?= 2
ROUNDS ?= 200

.PHONY: help setup setup-dev up down run test check unit sim conformance record system soak test-compose bench bench-cluster clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 16

setup: .venv/.run ## build .venv with what a node needs

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

.tools/.ready: .venv/.dev scripts/debian-packages scripts/apache-kafka tests/kafka.py
	@scripts/debian-packages peers
	@scripts/debian-packages stores
	$(BIN)/python scripts/apache-kafka fetch
	@mkdir -p .tools && touch $@

up: setup ## the whole platform over three regions on this machine; `make down` ends it
	$(BIN)/isthmus up

down: setup ## end what `make up` started
	$(BIN)/isthmus down

run: setup ## start a node with the embedded defaults on 127.0.0.1:9092
	exec $(BIN)/isthmus node

test: .tools/.ready check ## everything CI runs
	$(BIN)/pytest tests --ignore tests/compose --ignore tests/soak -n $(JOBS) --dist loadfile

check: .venv/.dev ## style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --config pyproject.toml
	$(BIN)/mypy

unit: .venv/.dev ## the tests that start no process
	$(BIN)/pytest tests/unit tests/sim tests/edge -n $(JOBS)

sim: .venv/.dev ## the simulation, SEEDS=100000 for a campaign
	$(BIN)/python -m tests.sim --seeds $(SEEDS)

conformance: .tools/.ready ## real clients and recorded answers against a node
	$(BIN)/pytest tests/conformance

record: .tools/.ready ## ask Apache Kafka again and keep its answers
	$(BIN)/python -m tests.conformance.record

system: .tools/.ready ## processes killed under load
	$(BIN)/pytest tests/system

soak: .tools/.ready ## ROUNDS=200 times SIGKILL under load, a tenth of that of every fault of a cluster; wants root for full volumes
	ISTHMUS_KILL_ROUNDS=$(ROUNDS) $(BIN)/pytest tests/system/test_sigkill.py --timeout 7200
	ISTHMUS_FAULT_ROUNDS=$$(($(ROUNDS) / 10)) $(BIN)/pytest tests/system/test_faults.py tests/soak --timeout 7200

test-compose: .tools/.ready ## the platform in containers, from nothing to nothing; wants docker with compose
	@scripts/debian-packages containers
	$(BIN)/pytest tests/compose --timeout 1800

bench: .tools/.ready ## Isthmus beside Apache Kafka; results land in bench/results
	$(BIN)/python -m bench

bench-cluster: .tools/.ready ## three nodes of each, failover, 100,000 partitions
	$(BIN)/python -m bench.cluster
	$(BIN)/python -m bench.partitions

clean: ## remove what the targets made
	rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis
