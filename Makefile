# The two commands that matter: `make demo` and `make test`. Everything else is for those who change the code.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Tests run side by side; both halves of a small machine.
WORKERS ?= 2
# The pure core, whose coverage has a bar.
CORE := tests/api tests/admission tests/build tests/golden $(wildcard tests/slurm/test_conf*.py) tests/slurm/test_hostlist.py
# What takes minutes on real Slurm: `make test-long` runs it, CI does not.
LONG := $(addprefix tests/real/slurm/,test_keys.py test_model.py test_operated.py test_outage.py test_partitions.py test_vet.py test_worker_configs.py test_worker_trial.py) \
  $(addprefix tests/real/local/,test_config.py test_demo.py test_down_up.py test_faults.py test_images.py test_kills.py node test_partitions.py test_played.py) \
  $(addprefix tests/real/local/,test_documents.py test_seeds.py test_why.py)
EXAMPLES := $(sort $(wildcard examples/*.yaml))

.DEFAULT_GOAL := help
.PHONY: help install demo down examples test test-python e2e soak soak-hostile soak-short property forms campaigns test-slurm test-long kills storm test-kube lint format golden docs bench bench-short coverage clean kube-tools helm-tools test-helm kubelet-tools test-kubelet differential

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

$(STAMP): requirements/dev.txt pyproject.toml
	@echo "Installing into $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
# The list is complete, so nothing is resolved: a later release of a package cannot stop an install.
	@$(BIN)/pip --disable-pip-version-check -q install --no-deps --require-hashes -r requirements/dev.txt
	@$(BIN)/pip --disable-pip-version-check -q install --no-deps --no-build-isolation -e .
	@$(BIN)/pip --disable-pip-version-check -q check
	@touch $(STAMP)

install: $(STAMP) ## Make the virtual environment

demo: $(STAMP) ## Run a Slurm cluster on this machine, and a job on it (Linux, root)
	@$(BIN)/python tools/demo.py

down: $(STAMP) ## Stop the demo
	@$(BIN)/slurm-operator local down

examples: $(STAMP) ## Render and check every example
	@for file in $(EXAMPLES); do \
	  printf '%-40s' "$$file"; \
	  $(BIN)/slurm-operator render -f $$file -o json | $(BIN)/python -c 'import json,sys; items = json.load(sys.stdin)["items"]; print(f"{len(items):3} objects", end="  ")' || exit 1; \
	  $(BIN)/slurm-operator check -f $$file || exit 1; \
	done

test: test-python e2e soak-short ## Lint, type-check, every test that needs nothing but Python, and real Slurm end to end

test-python: $(STAMP) lint ## Lint, type-check and run every test that needs nothing but Python
	@$(BIN)/python -m pytest -n $(WORKERS) --cov --cov-report= $(CORE)
	@$(MAKE) --no-print-directory coverage
	@$(BIN)/python -m pytest -n $(WORKERS) --ignore=tests/real $(addprefix --ignore=,$(CORE)) tests

property: $(STAMP) ## Make 20,000 random resources, and 10,000 random lives of a NodeSet (fifteen minutes)
	@HYPOTHESIS_PROFILE=full HISTORIES=10000 $(BIN)/python -m pytest -n 0 tests/property

forms: $(STAMP) ## Bring every documented form of the charts' values to rest on the embedded API server (five minutes)
	@FORMS=all $(BIN)/python -m pytest -n $(WORKERS) tests/charts/test_converging.py

campaigns: $(STAMP) ## Crash, ambiguous-write and Slurm-fault campaigns in virtual time, every point
	@$(BIN)/python -m tests.campaigns

e2e: $(STAMP) ## Run the operator end to end with real Slurm, on each version (needs root)
	@$(BIN)/python -m pytest -n 0 tests/real/local/e2e

soak: $(STAMP) ## Change and kill everything round hundreds of jobs for SOAK_SECONDS, half an hour by default (needs root)
	@$(BIN)/python -m tests.real.local.soak

soak-hostile: $(STAMP) ## The same with hostile jobs of an ordinary user among them, on both versions of Slurm
	@$(BIN)/python -m tests.real.local.soak --hostile --slurm 24.11 26.05

soak-short: $(STAMP) ## The same for three minutes
	@$(BIN)/python -m pytest -n 0 -s tests/real/local/test_soak.py

test-slurm: $(STAMP) ## Run the other tests on real Slurm from Debian that are quick (needs root)
	@$(BIN)/python -m pytest -n 0 $(addprefix --ignore=,tests/real/local/e2e tests/real/local/test_soak.py $(LONG)) tests/real/slurm tests/real/local

test-long: $(STAMP) ## Run those that are not: bad configurations, partitions, kills, faults, documents, diagnoses (needs root; an hour)
	@$(BIN)/python -m pytest -n 0 $(LONG)

storm: $(STAMP) ## A thousand partition changes through the operator under 250 jobs, on each Slurm version (needs root; half an hour or more)
	@for version in 26.05 24.11; do $(BIN)/python -m tests.real.local.partition_storm --version $$version || exit 1; done

kills: $(STAMP) ## kill -9 any part of a local cluster fifty times, with jobs on it (needs root; fifteen minutes)
	@KILLS=50 $(BIN)/python -m pytest -n 0 -s tests/real/local/test_kills.py

test-kube: kube-tools ## Run the tests on a real kube-apiserver and with kubectl (needs Go)
	@$(BIN)/python -m pytest -n 0 tests/real/kube tests/real/kubectl
	@$(BIN)/python -m pytest -n 0 -m real_kube tests/kube_runtime tests/kube_local

coverage: $(STAMP) ## Hold the pure core at its coverage
	@$(BIN)/python tools/coverage_bar.py

lint: $(STAMP) ## Check style, types, layers and shell scripts
	@$(BIN)/ruff format --check -q .
	@$(BIN)/ruff check -q .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python tools/shell_lint.py

format: $(STAMP) ## Format the code
	@$(BIN)/ruff format -q .
	@$(BIN)/ruff check -q --fix .

golden: $(STAMP) ## Write generated and golden files anew
	@$(BIN)/python tools/embedded_types.py
	@$(BIN)/python tools/merge_keys.py
	@$(BIN)/python tools/crds.py
	@$(BIN)/python tools/reference.py
	@$(BIN)/python -m tools.condition_places
	@$(BIN)/python -m tools.charts
	@$(BIN)/python -m tools.install_manifest
	@$(BIN)/python -m tests.real.helm.command
	@$(BIN)/python -m pytest -q -n 0 tests/golden --update-golden

docs: $(STAMP) ## Build the documentation
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict -q

bench: $(STAMP) ## Run the benchmarks (half an hour; each says what it does)
	@for file in $(filter-out bench/slurmrestd_memory.py,$(wildcard bench/*.py)); do \
	  echo "== $$file"; $(BIN)/python $$file || exit 1; done
	@echo "== bench/slurmrestd_memory.py --short"; $(BIN)/python bench/slurmrestd_memory.py --short

bench-short: $(STAMP) ## Run those that take seconds, and the one of scale with forty workers (two minutes)
	@for name in startup conf_lint render diagnosis work_queue "scale --short"; do \
	  set -- $$name; echo "== bench/$$1.py $$2"; $(BIN)/python bench/$$1.py $$2 || exit 1; done

kube-tools: $(STAMP) ## Build a real kube-apiserver for the tests (needs Go; once)
	@$(BIN)/python tests/real/kube/tools.py

helm-tools: $(STAMP) ## Build the real helm 3 and 4 for the tests, and fetch promtool (needs Go; once)
	@$(BIN)/python -m tests.real.helm.tools
	@$(BIN)/python -m tests.charts.promtool

test-helm: helm-tools kube-tools ## Run the tests of charts, upgrades and roles on the real helm and kube-apiserver (needs Go; twenty minutes)
	@$(BIN)/python -m pytest -n 0 tests/charts/test_alerts.py tests/real/helm

kubelet-tools: $(STAMP) ## Bring a real kubelet, containerd and what they need into the cache (needs Go; once)
	@$(BIN)/python -m tests.real.kubelet.tools

test-kubelet: kubelet-tools ## Install the operator's own image on a real kubelet and run Slurm there (needs Go and root)
	@$(BIN)/python -m pytest -n 0 tests/real/kubelet

differential: kube-tools ## Hold the embedded API server against the real one, 300 sequences of 60 requests
	@$(BIN)/python -m tests.real.kube.differential.campaign --sequences 300

clean: ## Remove what the other targets made
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage* site
