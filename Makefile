# Every target does the set-up it needs, and nothing where nothing has changed.

TOPOLOGY ?= topologies/default.yaml
PROFILE ?= quick
SYSTEMS := $(patsubst %,topologies/%.yaml,msquic-datapath winverbs-qp-modify vioscsi-sendsrb hn-transmit)

# A stamp's name carries the digest of what its set-up depends on, so that neither a fresh
# checkout's times nor a changed branch mislead make.
digest = $(shell cat $(1) | sha256sum | cut -c1-16)
PYTHON := .venv/stamp-python-$(call digest,requirements.lock pyproject.toml ansible/bootstrap.sh)
HOST := .venv/stamp-host-$(call digest,ansible/host.yml)
BROWSER := .venv/stamp-browser

.PHONY: help lab-up lab-down validate test lint clean setup

help:
	@echo 'make lab-up     set up, bring up $$TOPOLOGY ($(TOPOLOGY)) and measure it'
	@echo 'make lab-down   remove that lab'
	@echo 'make validate   the verdict on each of the four systems ($$PROFILE: $(PROFILE))'
	@echo 'make test       all tests, with and without guests'
	@echo 'make lint       ruff and mypy'
	@echo 'make setup      only set up: .venv and the host packages'
	@echo 'make clean      remove .venv and everything built here'

lab-up: setup
	.venv/bin/lab up $(TOPOLOGY)
	.venv/bin/lab check $(TOPOLOGY)

lab-down: setup
	.venv/bin/lab down $(TOPOLOGY)

validate: setup
	.venv/bin/lab validate --profile $(PROFILE) $(SYSTEMS)

test: setup $(BROWSER)
	.venv/bin/pytest

lint: $(PYTHON)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

clean:
	rm -rf .venv build .mypy_cache .pytest_cache .ruff_cache .hypothesis

setup: $(PYTHON) $(HOST)

# The lock keeps two makes in one checkout from setting up at the same time.
$(PYTHON):
	@mkdir -p build
	@flock build/lock sh -c 'test -e $@ || { sh ansible/bootstrap.sh python && touch $@; }'

$(HOST): | $(PYTHON)
	@flock build/lock sh -c 'test -e $@ || { sh ansible/bootstrap.sh host && touch $@; }'

$(BROWSER): | $(PYTHON)
	@flock build/lock sh -c 'test -e $@ || { sh ansible/bootstrap.sh browser && touch $@; }'
