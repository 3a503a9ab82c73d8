# The commands of the project; `make help` lists them. PYTHON= chooses the interpreter that .venv is made with.
#
# cmake and ninja come from .venv, so that every machine builds with the same ones.
SHELL := /bin/bash
.DEFAULT_GOAL := help
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export PYTHON
jobs ?= $(shell nproc)
python := .venv/bin/python
release := build/release
configure := cmake --preset

cpp_files = $(shell find include src cli python tests bench examples -name '*.cc' -o -name '*.h' | grep -v /data/)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# With CUDA=1 an nvcc is available: the machine's, or a pinned one in .venv.
cuda := $(filter-out 0 OFF,$(CUDA))
cuda_options = -DPENSTOCK_CUDA=ON -DPENSTOCK_NVCC_PROGRAM=$$(tools/find_nvcc.sh)

build: ## the library, the command line program and the Python package in .venv; CUDA=1 installs nvcc if there is none
	@tools/setup.sh core $(if $(cuda),cuda)
	@$(MAKE) -s --no-print-directory $(release)/build.ninja
	@$(if $(cuda),cmake $(cuda_options) $(release) >/dev/null)
	@cmake --build $(release) --target product -j $(jobs)
	@tools/say_device_code.sh $(release)

$(release)/build.ninja:
	@$(configure) release -DPENSTOCK_PYTHON=ON -DPython_EXECUTABLE=$(CURDIR)/$(python)

test: ## all tests, under sanitizers too; STAGES="unit lint python asan tsan" chooses
	@tools/setup.sh core test
	@$(python) tools/run_tests.py --jobs $(jobs) $(STAGES)

test-long: ## the same with all cases, and all C++ tests in both builds; `make test` runs a sample
	@PENSTOCK_ALL_CASES=1 $(MAKE) --no-print-directory test

test-peers: build ## suites and benchmarks of zarr-python, xarray, h5py, GDAL and others with Penstock in place (an hour); ARGS="zarr:pipeline" chooses
	@tools/setup.sh core test
	@$(python) tools/test_peers.py $(ARGS)

test-legate: build ## loads into cuPyNumeric, if there is a Python 3.12 (nearly 2 GB to download once); ARGS= go to pytest
	@tools/test_legate.sh $(ARGS)

test-appends: build ## 10,000 appends by processes that are killed and stopped, twice (minutes, PID namespaces need root)
	@tools/setup.sh core test
	@PENSTOCK_APPENDS=10000 $(python) -m pytest -rs -s python/tests/test_append_processes.py $(ARGS)

test-torch: build ## tensors, data sets and DTensors of PyTorch (about 3 GB to download once); ARGS= go to pytest
	@tools/setup.sh core test
	@tools/test_torch.sh $(ARGS)

test-power: build ## power cuts on loop devices with ext4 and xfs, for root; ARGS="--cuts 200 --scenarios zip"
	@tools/setup.sh core test
	@$(python) tools/power_cuts.py $(ARGS)

test-gpu: build ## tests that need a GPU; skipped with a message without one
	@tools/setup.sh core test
	@$(python) -m pytest -rs tests/gpu $(ARGS)

test-emulator: ## the kernels in the emulator with more seeds, and with inserted faults (an hour); SEEDS="2 3 4"
	@tools/setup.sh core test
	@$(configure) release >/dev/null
	@cmake --build $(release) --target test_emulator -j $(jobs)
	@for seed in $(or $(SEEDS),2 3 4); do for switch in 3 17 0; do \
	  PENSTOCK_ALL_CASES=1 PENSTOCK_EMULATOR_SEED=$$seed PENSTOCK_EMULATOR_SWITCH=$$switch GTEST_BRIEF=1 $(release)/tests/emulator/test_emulator || exit; \
	done; done
	@PENSTOCK_ALL_CASES=1 $(python) tests/emulator/mutations.py --jobs $(jobs) $(ARGS)

demo: build ## write, read and compare the benchmark array; pictures in build/demo
	@tools/setup.sh demo
	@.venv/bin/penstock demo --output build/demo $(ARGS)

bench: build ## measure against ceilings and peers; ARGS= goes to the runner
	@tools/setup.sh core bench
	@$(configure) release -DPENSTOCK_BENCH=ON >/dev/null
	@cmake --build $(release) -j $(jobs) --target product micro_benchmarks
	@$(python) bench/run.py $(ARGS)

check: ## format, lint, types, layers; changes nothing
	@tools/setup.sh core test
	@$(python) tools/check_layers.py
	@$(python) tools/check_words.py
	@$(python) tools/check_imports.py
	@$(python) tools/check_threads.py
	@$(python) tools/check_loops.py
	@$(python) tools/check_dispatch.py
	@clang-format --dry-run -Werror $(cpp_files)
	@ruff format --check --quiet
	@ruff check --quiet
	@mypy
	@mypy --strict --no-warn-unused-configs tools/*.py

docs: ## the documentation site in build/site: all pages, references of Python and C++; broken links are errors
	@tools/setup.sh core docs
	@NO_MKDOCS_2_WARNING=1 $(python) -m mkdocs build --quiet
	@echo "build/site/index.html; with search: $(python) -m http.server -d build/site"

format: ## reformat C++ and Python
	@tools/setup.sh core test
	@clang-format -i $(cpp_files)
	@ruff format --quiet
	@ruff check --fix --quiet

tidy: ## clang-tidy on all sources (slow)
	@tools/setup.sh core test tidy
	@$(configure) asan -B build/tidy -DPENSTOCK_UNITY=0 >/dev/null
	@find src cli -name '*.cc' -not -name '*_test.cc' | xargs -r -P $(jobs) -n 1 clang-tidy --quiet -p build/tidy

fuzz: ## search for crashes; SECONDS_EACH=60 or RUNS=1000000, and TARGETS="fuzz_..." choose
	@tools/setup.sh core test
	@$(configure) fuzz >/dev/null
	@$(python) tools/fuzz.py --build build/asan --jobs $(jobs) \
	  $(if $(RUNS),--runs $(RUNS) $(if $(SECONDS_EACH),--seconds $(SECONDS_EACH)),--seconds $(or $(SECONDS_EACH),60)) $(TARGETS)

wheel: ## a self-contained wheel in build/dist; CUDA=1 as for build
	@tools/setup.sh core wheel $(if $(cuda),cuda)
	@rm -rf build/dist build/wheel build/wheel-*/device_code
	@$(if $(cuda),CMAKE_ARGS="$(cuda_options)") $(python) -m pip wheel --quiet --disable-pip-version-check \
	  --no-build-isolation --no-deps --wheel-dir build/wheel .
	@auditwheel repair --wheel-dir build/dist build/wheel/penstock-*.whl
	@ls -l build/dist
	@tools/say_device_code.sh build/wheel-*/

# All that these need from the package index is in an environment of their own: .venv stays as it is.
wheels_env := build/wheels/venv
ARCH ?= $(shell uname -m)
wheels: ## a wheel for glibc 2.28 or later in build/dist, checked and tried, on Debian 12; ARCH="x86_64 aarch64", CUDA=1 as for build
	@VENV=$(wheels_env) tools/setup.sh core wheels $(ARCH:%=wheels-%) $(if $(cuda),cuda)
	@set -e; for arch in $(ARCH); do \
	  $(wheels_env)/bin/python tools/wheels/make_wheels.py --arch $$arch --jobs $(jobs) \
	    $(if $(cuda),--define=PENSTOCK_CUDA=ON --define=PENSTOCK_NVCC_PROGRAM=$$(tools/find_nvcc.sh $(wheels_env))); done

clean: ## remove build/ and the compiled module; keeps .venv
	@rm -rf build python/penstock/_core*.so

.PHONY: help build test test-long test-emulator test-gpu test-power test-peers test-legate test-torch demo bench check docs format tidy fuzz wheel wheels clean
