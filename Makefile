# Everything that a person or CI does here. Each target sets up what it needs; warm, that costs nothing.

.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
CONFIGS := sandbox example
# The tests mostly wait, for clouds, jobs and polls: three processes keep two cores busy.
TEST_PROCESSES := 3

# The tools of this project before any other of the same name, also for what `cdk` starts.
export PATH := $(CURDIR)/$(VENV)/bin:$(CURDIR)/node_modules/.bin:$(PATH)
# CDK's Python bindings and CLI run on Node 20 as on 22 and 24, and would say in a large box that it is out of support.
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 20
export CDK_DISABLE_VERSION_CHECK := 1
# What npm and CDK's bindings would keep in the home folder stays here, where `make clean` finds it.
export JSII_RUNTIME_PACKAGE_CACHE_ROOT := $(CURDIR)/.build/jsii
export npm_config_cache := $(CURDIR)/.build/npm

.PHONY: help setup demo sandbox test check lint types imports synth template-check deploy clean

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

setup: $(VENV)/.complete node_modules/.complete ## Python and Node packages, pinned, in this folder

demo: setup ## A run that hangs, is noticed and finishes, on the embedded cloud
	python -m sandbox.demo

sandbox: setup ## The embedded cloud, for manifests of your own; Ctrl-C ends it
	python -m sandbox

test: setup ## All tests
	python -m pytest --numprocesses $(TEST_PROCESSES) --dist loadscope --no-loadscope-reorder

check: lint types imports template-check ## Lint, types, import contracts, templates

lint: setup
	ruff check .
	ruff format --check .

types: setup
	mypy

imports: setup
	lint-imports --no-logo

synth: setup ## Templates of the sandbox and the example, or of one account: make synth ACCOUNT=<name of config/<name>.yaml>
	@test -z "$(ACCOUNT)" || test -f "config/$(ACCOUNT).yaml" \
	  || { echo "config/$(ACCOUNT).yaml is missing; config/example.yaml is one to copy"; exit 2; }
	$(call synthesize,$(or $(ACCOUNT),$(CONFIGS)))

# Twice, into two folders: the same input has to give the same templates, byte for byte.
define synthesize
@for config in $(1); do \
	  rm -rf .build/synth/$$config && mkdir -p .build/synth/$$config && \
	  for time in first second; do \
	    cdk synth --quiet -c config=config/$$config.yaml --output .build/synth/$$config/$$time || exit 1; \
	  done && \
	  diff -r -x '*.zip' .build/synth/$$config/first .build/synth/$$config/second || exit 1; \
	  echo "config/$$config.yaml: .build/synth/$$config/first"; \
	done
endef

# What is ignored, and why, stands in .cfnlintrc; for the sandbox alone: it runs the functions on whatever Python is at
# hand, which AWS may have retired.
template-check: setup
	$(call synthesize,$(CONFIGS))
	cfn-lint .build/synth/example/first/*.template.json
	cfn-lint --ignore-checks W3005 E2531 E2533 W2531 --template .build/synth/sandbox/first/*.template.json

deploy: setup ## Bootstrap and deploy to an account: make deploy ACCOUNT=<name of config/<name>.yaml>
	@test -n "$(ACCOUNT)" || { echo "Say which account: make deploy ACCOUNT=<name>, for config/<name>.yaml"; exit 2; }
	@test -f "config/$(ACCOUNT).yaml" || { echo "config/$(ACCOUNT).yaml is missing; config/example.yaml is one to copy"; exit 2; }
	cdk bootstrap -c config=config/$(ACCOUNT).yaml
	cdk deploy --all -c config=config/$(ACCOUNT).yaml

clean: ## Everything that was built or installed here
	rm -rf $(VENV) node_modules .build .sandbox cdk.out *.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.complete: requirements.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "Holdfast needs Python 3.11 or newer; there is no $(PYTHON)"; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Holdfast needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Another one: make PYTHON=..."; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	  || { echo "This Python has no venv module (on Debian and Ubuntu: apt install python3-venv)"; exit 2; }
	@echo "Installing the Python packages into $(VENV): about 2 GB, some minutes the first time"
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements.txt
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

node_modules/.complete: package.json package-lock.json
	@command -v node >/dev/null && command -v npm >/dev/null || { echo "Holdfast needs Node 20 or newer, with npm"; exit 2; }
	@node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)' \
	  || { echo "Holdfast needs Node 20 or newer; this is $$(node --version)"; exit 2; }
	npm ci --silent --no-audit --no-fund
	@touch $@
