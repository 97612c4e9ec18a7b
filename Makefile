# Everything here needs only make, and a Python 3.10 or later with venv; `make help` lists the targets.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Tests start thousands of processes: each would compile all modules anew where this is set, as in many containers.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help demo test test-mpi test-reliability test-tutorials test-samples from-mindspore stubs site pictures command-line lint check test-slow test-browser test-cluster test-gpu test-interop test-interop-mindspore soak mutants bench release clean

CANDIDATES := python3.13 python3.12 python3.11 python3.10 python3 /usr/bin/python3
IS_FIT := -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))'
# A version manager compiles Python without the optimisations that distributions use, unless it is asked: tests take a quarter more.
IS_OPTIMISED := -c 'import sys, sysconfig as build; sys.exit(sys.base_prefix != "/usr" and "--enable-opt" not in build.get_config_var("CONFIG_ARGS"))'
PYTHON ?= $(shell for python in $(CANDIDATES); do $$python $(IS_FIT) && $$python $(IS_OPTIMISED) && echo $$python && exit; done 2>/dev/null; \
	for python in $(CANDIDATES); do $$python $(IS_FIT) 2>/dev/null && echo $$python && break; done)
CUDA ?= cuda12x
METADATA := setup.cfg setup.py pyproject.toml
# Which of the tests on real ranks `make test` runs; none (SAMPLED=) where test-mpi and test-reliability run all of them after it.
SAMPLED = $(EMPTY) or sampled
TESTED = (not mpi$(SAMPLED)) and not gpu and not interop and not mindspore and not slow and not cluster and not tutorial and not samples and not browser
SOAKED := tests/reliability $(addprefix tests/unit/, train/persistence/test_resume.py reshard/test_any_reshard.py cluster/test_hostile_files.py \
	train/pipelines/test_equal_one_device.py parallel/test_every_strategy.py parallel/test_any_combination.py \
	graph/expression/test_cuda_kernels.py graph/test_written_kernels.py search/test_search.py train/full_search/test_compared_plans.py \
	$(addprefix checkpoint/, formats/test_damaged_files.py strategy/test_mutations.py shard/test_damage.py shard/test_hostile.py))

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-22s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: .venv/.demo ## train on eight ranks, go on with four, in place; results in mpiparallel_demo/
	@.venv/bin/mpiparallel demo

test: .venv/.test .venv-mpich/.test ## run the tests: all on threads, a sample under Open MPI and MPICH
test: export MPIPARALLEL_TEST_PYTHONS := $(CURDIR)/.venv/bin/python:$(CURDIR)/.venv-mpich/bin/python
test: export OPENBLAS_NUM_THREADS := 1
test:
	.venv/bin/python -m pytest -n auto --dist worksteal -m "$(TESTED)"

test-mpi: .venv/.test .venv-mpich/.test ## run all tests on real ranks, with Open MPI and with MPICH
test-mpi: export MPIPARALLEL_TEST_PYTHONS := $(CURDIR)/.venv/bin/python:$(CURDIR)/.venv-mpich/bin/python
test-mpi: export OPENBLAS_NUM_THREADS := 1
test-mpi:
	.venv/bin/python -m pytest -n 2 --dist worksteal -m "mpi and not slow" tests/mpi

test-reliability: .venv/.test .venv-mpich/.test ## let real ranks die, hang and differ, with Open MPI and with MPICH
test-reliability: export MPIPARALLEL_TEST_PYTHONS := $(CURDIR)/.venv/bin/python:$(CURDIR)/.venv-mpich/bin/python
test-reliability: export OPENBLAS_NUM_THREADS := 1
test-reliability:
	.venv/bin/python -m pytest -n 2 --dist worksteal -m "mpi and not slow" tests/reliability

test-tutorials: .venv/.test .venv-mpich/.test ## follow every listing of MindSpore's tutorials on real ranks; they are not in this repository
test-tutorials: export MPIPARALLEL_TEST_PYTHONS := $(CURDIR)/.venv/bin/python:$(CURDIR)/.venv-mpich/bin/python
test-tutorials: export OPENBLAS_NUM_THREADS := 1
test-tutorials: export MPIPARALLEL_TUTORIALS_RESULTS := $(CURDIR)/build/tutorials.jsonl
test-tutorials:
	@mkdir -p build && rm -f $(MPIPARALLEL_TUTORIALS_RESULTS)
	.venv/bin/python -m pytest -n 2 --dist loadfile -m tutorial tests/tutorials

# Results are added to those of earlier calls: ONLY="r2.0 and mpich", as pytest's -k has it, runs a part.
test-samples: .venv/.test .venv-mpich/.test ## run the tutorials' sample code, as downloaded: SAMPLES=DIR/docs/sample_code [ONLY=...]
test-samples: export MPIPARALLEL_TEST_PYTHONS := $(CURDIR)/.venv/bin/python:$(CURDIR)/.venv-mpich/bin/python
test-samples: export OPENBLAS_NUM_THREADS := 1
test-samples: export MPIPARALLEL_TUTORIALS_RESULTS := $(CURDIR)/build/samples.jsonl
test-samples: export MPIPARALLEL_SAMPLES := $(SAMPLES)
test-samples:
	@mkdir -p build
	.venv/bin/python -m pytest -m samples $(if $(ONLY),-k "$(ONLY)") tests/tutorials

from-mindspore: .venv/.test ## make the tables of docs/lookup/from_mindspore.md from the results of both
	@for results in build/tutorials.jsonl build/samples.jsonl; do test ! -f $$results || \
		.venv/bin/python -m tests.tutorials.report $$results docs/lookup/from_mindspore.md || exit; done

stubs: .venv/.test ## write the stubs of names that are put together at import
	.venv/bin/python -m tests.conformance.documents.public_stubs

site: .venv/.docs ## build the site and its reference; warnings are errors: build/site/index.html
	.venv/bin/python -m sphinx -W --keep-going -n -q -b html docs build/site

# NAMES="gpt auto" draws some alone.
pictures: .venv/.test ## follow the pages of the examples, and draw their pictures from what the programs find [NAMES=...]
	.venv/bin/python -m tests.conformance.documents.example_pictures $(NAMES)

command-line: .venv/.test ## write the page of docs that lists all commands and options
	.venv/bin/python -m tests.conformance.documents.command_line_page

lint: .venv/.test ## check style, types and layers
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo

check: lint test test-mpi test-reliability ## lint, then all tests but those of several hosts

test-gpu: .venv/.$(CUDA) ## run the tests that need a CUDA device (CUDA=cuda12x or cuda13x)
	.venv/bin/python -m pytest -m gpu

# Any build of PyTorch will do. On Linux pip takes that for CUDA, unless PIP_EXTRA_INDEX_URL names an index of those for CPUs.
test-slow: .venv/.test ## train the image example to over 95 % test accuracy, in a few minutes
	.venv/bin/python -m pytest -m slow

test-browser: .venv/.browser ## open the pages of mpiparallel show, and the site where make site has built it, in a headless Chromium; installs that on Debian
	@tests/browser/packages.sh || echo "make: without a Chromium the tests are skipped" >&2
	.venv/bin/python -m pytest -m browser tests/browser

test-cluster: .venv/.test .venv-mpich/.test ## run jobs on several hosts, and let those fail; needs root on Debian
test-cluster: export MPIPARALLEL_TEST_PYTHONS := $(CURDIR)/.venv/bin/python:$(CURDIR)/.venv-mpich/bin/python
test-cluster:
	@tests/cluster/packages.sh || echo "make: the tests whose packages are missing are skipped" >&2
	.venv/bin/python -m pytest -m cluster tests/cluster

test-interop: .venv-torch/.interop ## compare with PyTorch, in an environment of its own
	OPENBLAS_NUM_THREADS=1 .venv-torch/bin/python -m pytest -m interop tests/interop

test-interop-mindspore: .venv-mindspore/.interop ## compare files with MindSpore's own, in an environment of its own
	.venv-mindspore/bin/python -m pytest -m mindspore tests/interop/mindspore

soak: .venv/.test .venv-mpich/.test ## kill, damage and fill up checkpoints for an hour or more; figures in docs/background/reliability.md
soak: export MPIPARALLEL_TEST_PYTHONS := $(CURDIR)/.venv/bin/python:$(CURDIR)/.venv-mpich/bin/python
soak: export OPENBLAS_NUM_THREADS := 1
soak: export MPIPARALLEL_SOAK ?= 1
soak: export MPIPARALLEL_SOAK_FIGURES := $(CURDIR)/build/reliability.jsonl
soak:
	@mkdir -p build && rm -f $(MPIPARALLEL_SOAK_FIGURES)
	@tests/cluster/packages.sh || true
	.venv/bin/python -m pytest $(SOAKED)
	.venv/bin/python -m pytest -m cluster tests/cluster
	.venv/bin/python -m tests.reliability.report $(MPIPARALLEL_SOAK_FIGURES) docs/background/reliability.md

# ONLY="mpiparallel/layout ..." changes files there alone, TESTS="tests/unit/layout ..." asks those alone which lines they reach.
mutants: .venv/.mutants .venv-mpich/.test ## change the code in drawn places, list what no test notices; an hour, goes on where it ended: [N=150] [SEED="0 1"] [LIMIT=40] [MINUTES=60]
mutants: export MPIPARALLEL_TEST_PYTHONS := $(CURDIR)/.venv/bin/python:$(CURDIR)/.venv-mpich/bin/python
mutants: export OPENBLAS_NUM_THREADS := 1
mutants:
	.venv/bin/python -m tests.mutants --count $(or $(N),150) --seed $(or $(SEED),0) --marked "$(TESTED)" \
		$(if $(LIMIT),--limit $(LIMIT)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(ONLY),--only $(ONLY)) $(if $(TESTS),--tests $(TESTS))

bench: .venv/.demo ## run every program in benchmarks/
	@for program in benchmarks/*.py; do echo "==> $$program"; .venv/bin/python "$$program" || exit; done

release: .venv/.release ## build the archive and the wheel, check both, and train with the wheel in a fresh environment of each Python
	rm -rf build/release
	.venv/bin/python -m build --outdir build/release
	.venv/bin/python -m twine check --strict build/release/*
	.venv/bin/check-wheel-contents build/release/*.whl
	.venv/bin/python -m tests.release.fresh_install build/release/*.whl

clean: ## remove the virtual environments, the caches and the demo's results
	rm -rf .venv .venv-mpich .venv-torch .venv-mindspore mpiparallel_demo build mpiparallel.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

# uv installs in a tenth of pip's time. It does not read pip's settings, so pip installs where those name an index in place of
# the default one, where uv fails, and where INSTALL says so: which build of PyTorch is taken is a matter of pip's settings.
BY_PIP = $(@D)/bin/python -m pip --quiet --disable-pip-version-check install --no-compile
INSTALL = { ! $(@D)/bin/python -m pip config list | grep '\.index-url=' >/dev/null && $(BY_PIP) uv && \
	$(@D)/bin/uv pip install --quiet --python $(@D)/bin/python --editable '.[$(EXTRAS)]'; } || \
	{ echo "pip sets it up, not uv ..." && $(BY_PIP) --editable '.[$(EXTRAS)]'; }
.venv-torch/.interop: INSTALL = $(BY_PIP) --editable '.[$(EXTRAS)]'

# A virtual environment is up to date when the stamp in it is newer than the metadata. The wheels of Open MPI and MPICH
# hold files of the same names, so each has an environment of its own.
.venv/.demo: EXTRAS := demo
.venv/.test: EXTRAS := demo,test,dev
.venv/.docs: EXTRAS := demo,test,dev,docs
.venv/.browser: EXTRAS := demo,test,dev,browser
.venv/.mutants: EXTRAS := demo,test,dev,mutants
.venv/.release: EXTRAS := demo,test,dev,release
.venv/.ci: EXTRAS := demo,test,dev,docs,browser,release
.venv/.ci: HOLDS := .demo .test .docs .browser .release
.venv/.$(CUDA): EXTRAS := demo,test,$(CUDA)
.venv-mpich/.test: EXTRAS := mpich,test
.venv-torch/.interop: EXTRAS := test,interop
.venv-mindspore/.interop: EXTRAS := test,interop-mindspore

.venv/.demo .venv/.test .venv/.docs .venv/.browser .venv/.mutants .venv/.release .venv/.ci .venv/.$(CUDA) .venv-mpich/.test .venv-torch/.interop .venv-mindspore/.interop: $(METADATA)
	@$(@D)/bin/python -m pip --version >/dev/null 2>&1 || { \
		"$(PYTHON)" $(IS_FIT) 2>/dev/null || { \
			echo "make: no Python 3.10 or later with venv: $(or $(PYTHON),$(CANDIDATES));" \
				"install one (Debian: python3-venv), or name it: make PYTHON=/path/to/python3" >&2; exit 1; }; \
		"$(PYTHON)" -m venv --clear $(@D); }
	@echo "Setting up $(@D) for $(EXTRAS): only the first time, a minute or two ..."
	@$(INSTALL)
	@touch $@ $(addprefix $(@D)/,$(HOLDS))
