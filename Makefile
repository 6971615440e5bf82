# One-word commands. Each sets up what it needs, says what it does, and does nothing of it a second time:
# Debian packages and .venv by tools/provision_system.py, third-party sources by tools/provision.py, the rest by CMake.
#
#   make demo      two real models from torch.export to the C++ runtime
#   make test      what CI runs                      make quick     C++ tests and a smoke set: 90 seconds
#   make test-all  the same with all sweeps whole (tests/sweeps.txt)
#   make bench     figures, beside the peers          make interop   both ways with the published package
#                  (bench-all: every model; bench-isa: with older instruction sets)
#   make conformance   PyTorch's databases of operators, modules and exported programs, all of them
#                  (conformance-isa: with older instruction sets)
#   make replay BASE=commit      what differs from another tree: IR of all stages, files, outputs (QUICK=1: a few)
#   make compilers the runtime with each gcc and clang that Debian has, -Wconversion
#   make lint      ruff, mypy, layers                make format    ruff format, clang-format
#   make tidy      clang-tidy over the C++ sources
#   make size      bytes of the runtime by target    make mcu       the runtime on a Cortex-M55 in QEMU
#   make mcu-table     firmware of four networks, beside the peers: docs/reference/microcontroller_figures.md
#   make sanitize  C++ tests and the sweep over      make fuzz      libFuzzer targets, FUZZ_SECONDS=60 each
#                  all kernels under sanitizers
#                  (SANITIZE=thread: the other kind)
#   make tosa      the TOSA and Ethos-U backend against Arm's reference model and compiler, whole
#   make targets   the runtime and small networks on Arm, RISC-V and WebAssembly in emulators: docs/reference/targets.md
#   make example-NAME   keywords, vibration, digits or photographs, from data to a Cortex-M in QEMU or Linux
#   make wheel     build the wheel and try it in a clean environment (wheel-aarch64: for 64-bit Arm, sdist: the
#                  sources, package-sizes: how large they are)
#   make docs      the documentation site           make notebooks   the tutorials, in Jupyter

PYTHON  ?= $(shell command -v python3.11 || command -v python3)
JOBS    ?= $(shell nproc)
VENV    := .venv
BUILD   := build/dev
BIN     := $(VENV)/bin
PY      := $(BIN)/python
SETUP   := $(PYTHON) tools/provision_system.py
CMAKE   := $(BIN)/cmake
CONFIGURE = $(CMAKE) -S . -B $(BUILD) -G Ninja \
            -DPython_EXECUTABLE=$(abspath $(PY)) --log-level=WARNING
PYTEST  := $(PY) -m pytest -q
TIMED   := $(PYTHON) tools/timed.py
SANITIZE  ?= address,undefined
# What reads bytes that it must not trust: `make test` runs these sanitized; `make sanitize` runs all.
HOSTILE   := base schema runtime robustness backend_tosa
# Python tests that run every kernel.
SWEPT     := tests/ops/every_kernel tests/ops/test_kernels_without_samples.py
# Those of operators, targets and conformance: about half of the time of all Python tests.
OF_OPERATORS := tests/ops tests/bench tests/interop tests/targets tests/tosa tests/conformance
# Of the files in tests/sweeps.txt `make test` runs a part, `make test-all` everything.
PARTS ?= --parts
FUZZED    := data_file ir_parser program_loader
SANITIZED := build/$(if $(findstring thread,$(SANITIZE)),tsan,asan)
FUZZ_SECONDS ?= 60
export PATH := $(abspath $(BIN)):$(PATH)

.PHONY: demo test test-all python-tests-of-operators other-python-tests quick conformance replay bench bench-all \
        bench-isa conformance-isa lint tidy format fuzz compilers size mcu mcu-table interop sanitize armhf-setup \
        wheel wheel-aarch64 sdist package-sizes docs notebooks setup tools packages compiled build sanitized-build \
        interop-setup browser-setup viewers-setup bench-setup builds environments mcu-setup java-setup targets \
        targets-setup tosa tosa-setup applications-setup clean help
.DEFAULT_GOAL := help

help:
	@sed -n '/^$$/q; s/^# \{0,1\}//p' Makefile

# What every target stands on: a compiler, the Python environment, the C++ build with its Python tree.
setup: tools packages

tools:
	@$(TIMED) "system packages" -- $(SETUP) debian compiler tests
	@$(TIMED) "build tools" -- $(SETUP) venv $(VENV) build --tree $(BUILD)/python

packages: tools
	@$(TIMED) "Python packages" -- $(SETUP) venv $(VENV) torch test models models-no-deps

# Ninja configures again when a CMake file changes; the other files that a configuration depends on stand here.
$(BUILD)/build.ninja: pyproject.toml tools/third_party.txt tools/provision.py | tools
	@$(TIMED) "configure, third-party builds" -- \
	    $(CONFIGURE) $(if $(PRESET),-C $(PRESET),-DET_BUILD_TESTS=ON)
	@touch $@

# What the demo left out is built when anything else needs it.
compiled: $(BUILD)/build.ninja
	@if [ -z "$(PRESET)" ] && grep -qs ET_INSTRUCTION_SETS:STRING=native $(BUILD)/CMakeCache.txt; then \
	    $(CONFIGURE) -DET_BUILD_TESTS=ON -UET_INSTRUCTION_SETS -UET_KERNEL_FAMILIES -UET_BACKENDS > /dev/null; fi
	@$(TIMED) "build" -- $(BIN)/ninja -C $(BUILD) -j$(JOBS) --quiet $(TARGETS)

# Packages are downloaded while the compiler works: nothing of the build imports them.
build:
	@$(MAKE) --no-print-directory -j2 packages compiled

# What `make test` stands on: the compiler works while packages are downloaded. Debian's are installed in one step.
builds: compiled
	@$(MAKE) --no-print-directory sanitized-build

environments: packages
	@$(TIMED) "system packages of the tests" -- $(SETUP) debian mcu java browser docs $(MORE_PACKAGES)
	@$(TIMED) "Python packages of the tests" -- $(SETUP) venv $(VENV) photographs-no-deps docs
	@$(TIMED) "interop environment" -- $(SETUP) venv .venv-interop interop interop-no-deps
	@$(TIMED) "TOSA reference model and Vela" -- $(SETUP) venv .venv-tosa tosa

# The extension module is all that the demo runs, and of that what its two models call (cmake/demo.cmake).
demo:
	@$(MAKE) --no-print-directory -j2 packages compiled TARGETS=_core PRESET=cmake/demo.cmake
	@$(PY) examples/demo.py

test: export SANITIZED_TARGETS = $(HOSTILE:%=et_test_%) $(FUZZED:%=et_fuzz_%)
test: tools
	@$(MAKE) --no-print-directory -j2 builds environments
	@$(TIMED) "C++ tests" -- $(BIN)/ctest --test-dir $(BUILD) --output-on-failure -j$(JOBS) --no-tests=error
	@$(TIMED) "C++ tests, sanitized" -- \
	    $(BIN)/ctest --test-dir $(SANITIZED) --output-on-failure -j$(JOBS) --no-tests=error \
	    -R '^($(subst $(eval) ,|,$(HOSTILE))|fuzz_.*)$$'
	@$(TIMED) "Python tests, documentation" -- \
	    $(MAKE) --no-print-directory -j$(JOBS) python-tests-of-operators other-python-tests docs

test-all: export PARTS =
test-all: export MORE_PACKAGES = armhf speech
test-all: test
	@$(PY) -m tests.conformance --group special

# Two processes: most tests compute on one core, and the others wait for those of the published package.
python-tests-of-operators:
	@$(PYTEST) $(PARTS) --junitxml=build/tests-of-operators.xml $(OF_OPERATORS)

other-python-tests:
	@$(PYTEST) $(PARTS) --junitxml=build/other-tests.xml tests $(addprefix --ignore=,$(OF_OPERATORS))

quick: build
	@$(TIMED) "C++ tests" -- $(BIN)/ctest --test-dir $(BUILD) --output-on-failure -j$(JOBS)
	@$(TIMED) "Python tests, a smoke set" -- $(PYTEST) --smoke tests

conformance: build
	@$(PY) -m tests.conformance $(ARGS)

# The same under each instruction set of x86 below this machine's.
conformance-isa: build
	@sets="$$($(PY) -c 'from executorch_py.cli import instruction_sets as x86; print(*x86.older_isas())')" || exit 1; \
	    for isa in $$sets; do $(PY) -m tests.conformance --isa $$isa $(ARGS) || exit 1; done

# BASE: a commit (built once for it), a built tree or the folder of a record; without it the record is only written.
replay: build
	@$(PY) -m tests.replay $(if $(BASE),--base $(BASE)) $(if $(QUICK),--quick) $(ARGS)

bench-setup: interop-setup
	@$(TIMED) "peers" -- $(SETUP) venv .venv-interop peers
	@$(TIMED) "plots" -- $(SETUP) venv $(VENV) bench

# A third of the networks: ten minutes, and at the first time as much again for the peers' files.
bench: build bench-setup
	@$(PY) -m benchmarks.peers --peer-python .venv-interop/bin/python \
	    --engines ours ours+xnnpack executorch onnxruntime openvino $(ARGS)

lint: setup
	@$(SETUP) venv $(VENV) lint
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@git ls-files '*.h' '*.cpp' | xargs $(BIN)/clang-format --dry-run --Werror
	@$(PY) tools/check_layers.py

tidy: build
	@$(SETUP) venv $(VENV) lint
	@$(PY) $(BIN)/run-clang-tidy.py -clang-tidy-binary $(BIN)/clang-tidy -p $(BUILD) -quiet \
	    -j$(JOBS) $(ARGS) '^$(CURDIR)/(src/cpp|backends)/'

format: setup
	@$(SETUP) venv $(VENV) lint
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .
	@git ls-files '*.h' '*.cpp' | xargs $(BIN)/clang-format -i

docs: build
	@$(SETUP) debian docs
	@$(TIMED) "Sphinx" -- $(SETUP) venv $(VENV) docs
	@$(TIMED) "documentation site" -- $(PY) tools/docs_site.py build/docs $(ARGS)

notebooks: build
	@$(TIMED) "Jupyter" -- $(SETUP) venv $(VENV) notebooks
	@$(BIN)/jupyter lab notebooks

# Every model, batches of eight and dynamic int8, too, every operator of these models, products of matrices by shape,
# what lowering takes, and the rest: hours.
bench-all: build bench-setup
	@$(PY) -m benchmarks.peers --peer-python .venv-interop/bin/python --all --precisions fp32 int8 dynamic $(ARGS)
	@$(PY) -m benchmarks.operators --peer-python .venv-interop/bin/python
	@for what in products lowering models kernels spelled_out integer_weights; \
	    do $(PY) -m benchmarks.$$what || exit 1; done
	@$(PY) -m benchmarks.overhead --peer .venv-interop/bin/python

# What older processors would do: each instruction set of x86 below this machine's, one thread.
bench-isa: build bench-setup
	@$(PY) -m benchmarks.peers --peer-python .venv-interop/bin/python --isa --threads 1 $(ARGS)

interop-setup:
	@$(TIMED) "interop environment" -- $(SETUP) venv .venv-interop interop interop-no-deps

# A missing peer is a failure here, not a skipped test.
test test-all interop tosa: export ET_REQUIRE_PEER = 1

browser-setup: setup
	@$(TIMED) "headless browser" -- $(SETUP) debian browser

viewers-setup: browser-setup
	@$(TIMED) "Netron and Model Explorer" -- $(SETUP) venv .venv-viewers viewers

# The zoo in int8, too: minutes of the official exporter.
interop: export ET_INTEROP_ZOO = 1
interop: build interop-setup viewers-setup
	@$(PYTEST) tests/interop

tosa-setup: setup
	@$(TIMED) "TOSA reference model and Vela" -- $(SETUP) venv .venv-tosa tosa

# Graphs of each kind of operator; `make test` runs 4.
tosa: export ET_TOSA_CASES = 60
tosa: build mcu-setup tosa-setup
	@$(PYTEST) tests/tosa

mcu-setup: setup
	@$(TIMED) "Arm compiler and emulator" -- $(SETUP) debian mcu

mcu: build mcu-setup
	@$(PYTEST) -m mcu tests/targets

applications-setup: setup
	@$(TIMED) "speech synthesisers" -- $(SETUP) debian speech
	@$(TIMED) "photographs" -- $(SETUP) venv $(VENV) photographs-no-deps

# ARGS="--target cortex-m4" for another one.
example-%: build mcu-setup applications-setup
	@$(PY) examples/$*/run.py $(ARGS)

mcu-table: build mcu-setup
	@$(PY) -m benchmarks.microcontrollers

java-setup: setup
	@$(TIMED) "Java compiler" -- $(SETUP) debian java

compilers: compiled
	@$(TIMED) "other compilers" -- $(SETUP) debian compiler compilers
	@$(PY) tools/compilers.py $(BUILD)

# What `make test-all` runs of `make targets`: 32 bits, and char without a sign. Cortex-M has both, too.
armhf-setup: setup
	@$(TIMED) "compiler and emulator of 32-bit Arm" -- $(SETUP) debian armhf

targets-setup: setup
	@$(TIMED) "compilers and emulators of other processors" -- $(SETUP) debian aarch64 armhf riscv64 wasm

# ARGS="armhf --suites int8" for a part; the other cells of the page stay.
targets: build targets-setup browser-setup
	@$(PY) -m tests.targets.processors $(ARGS)
	@$(PYTEST) tests/targets/test_wasm.py

# ARGS="--base main": what changed since then.
size: setup
	@$(PY) tools/size_report.py $(ARGS)

sanitized-build: tools
	@$(CMAKE) -S . -B $(SANITIZED) -G Ninja -DET_BUILD_TESTS=ON -DET_BUILD_PYTHON=OFF -DET_BUILD_TOOLS=OFF \
	    -DET_SANITIZE=$(SANITIZE) -DPython_EXECUTABLE=$(abspath $(PY)) --log-level=WARNING
	@$(TIMED) "build with sanitizers" -- $(BIN)/ninja -C $(SANITIZED) -j$(JOBS) --quiet $(SANITIZED_TARGETS)

# Python itself is not built with sanitizers: their library is loaded before it, and the C++ library with it, whose
# throw it wraps; Python's own leaks are not looked for. Reports go to the descriptor, which pytest would keep to
# itself. The sweep needs the package's sources and the library of kernels, no extension module.
sanitize: packages sanitized-build
	@$(BIN)/ctest --test-dir $(SANITIZED) --output-on-failure -j$(JOBS) --no-tests=error
ifneq ($(findstring address,$(SANITIZE)),)
	@LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	    ASAN_OPTIONS=detect_leaks=0 ET_BUILD_DIR=$(SANITIZED) PYTHONPATH=src \
	    $(PYTEST) --capture=sys $(SWEPT)
endif

fuzz: setup
	@$(SETUP) debian fuzz
	@$(PY) tests/fuzz/run.py --seconds $(FUZZ_SECONDS)

wheel: setup
	@$(SETUP) venv $(VENV) wheels
	@$(PY) tools/wheel_smoke.py

wheel-aarch64: setup
	@$(TIMED) "Arm compiler and emulator" -- $(SETUP) debian aarch64
	@$(SETUP) venv $(VENV) wheels
	@$(PY) tools/packages.py wheel

sdist: setup
	@$(PY) tools/packages.py sdist

package-sizes: setup
	@$(PY) tools/packages.py sizes

clean:
	rm -rf build dist
