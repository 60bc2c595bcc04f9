# Needs Python 3.10 or newer, a C++17 compiler and make; the rest comes from PyPI into .venv.

PYTHON ?= python3
FUZZ_S ?= 300
SOAK_FRAMES ?= 10000
SOAK_MINUTES ?= 10
SANITIZER ?= address,undefined
ARGS ?=
# Of bench-web. Backbones: ../shared/peers/backbones.py build/web/bench/backbones
MODELS ?= $(sort $(wildcard models/*/*.palm $(filter-out %_sparse.tflite %_classifier.tflite,\
	$(wildcard ../shared/teachers/*.tflite)) build/web/bench/backbones/*.onnx))
# Debian has it in no folder of PATH.
WINE ?= $(or $(shell command -v wine64),/usr/lib/wine/wine64)

VENV := .venv/bin/python
PIP := $(VENV) -m pip --disable-pip-version-check
SOURCES := $(shell find kits engine models assets delivery demos -type f -not -path '*/__pycache__/*' \
	-not -name '* *' -not -name '*.so')
NATIVE := $(filter engine/native/%,$(SOURCES))
# Recipes (models) are trained on Linux.
ON_EACH_SYSTEM := engine kits delivery demos
SYSTEMS ?= darwin win32
# Once the development install is there it serves all.
INSTALLED := $(if $(wildcard .venv/.dev),.venv/.dev,.venv/.user)

CONFIGURE := .venv/bin/cmake -S engine/native -G Ninja -DCMAKE_MAKE_PROGRAM="$(CURDIR)/.venv/bin/ninja" \
	-DPython_EXECUTABLE="$(CURDIR)/$(VENV)"
# What is built by zig: CMake's first call takes its folders and what it is for.
ZIG_CACHE := ZIG_GLOBAL_CACHE_DIR="$(CURDIR)/build/wheels/zig"
ZIG_CONFIGURE = $(ZIG_CACHE) .venv/bin/cmake -G Ninja \
	-DCMAKE_MAKE_PROGRAM="$(CURDIR)/.venv/bin/ninja" \
	-DCMAKE_TOOLCHAIN_FILE="$(CURDIR)/engine/native/zig.cmake" -DPALM_ZIG="$$(\
	build/wheels/venv/bin/python -c 'import ziglang; print(ziglang.__path__[0])')/zig"
FOR_WASM := -DCMAKE_SYSTEM_NAME=WASI -DCMAKE_SYSTEM_PROCESSOR=wasm32 -DPALM_TARGET=wasm32-wasi
SANITIZED := build/sanitize$(if $(filter thread,$(SANITIZER)),-thread)

.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo demo-app screenshots soak-app test test-app lint docs bench fuzz fuzz-converters fuzz-plans soak soak-gpu crash-sweep fleet load sanitize fuzz-c gpu c-library c-kits arm64 windows web web-kernels bench-web wheel wheels check-wheel clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(INSTALLED) ## find the faces in a real photograph: picture, JSON and time in build/demo
	$(VENV) demos/face_photo.py -o build/demo $(ARGS)

demo-app: $(INSTALLED) ## everything in a window: camera or sample; ARGS='--page try_on'
	.venv/bin/palmkit-demo $(ARGS)

# Each process has a core: numpy's threads would wait for one another, which takes more than their work.
test: .venv/.dev ## the whole test suite, a process for each core; ARGS='-k face' runs a part
	OPENBLAS_NUM_THREADS=1 $(VENV) -m pytest -n auto --dist worksteal $(ARGS)

lint: .venv/.dev ## style and types, those of SYSTEMS (Windows and macOS) as well, and the workflows
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/mypy tests demos
	for platform in $(SYSTEMS); do .venv/bin/mypy --platform $$platform \
		--cache-dir .mypy_cache/$$platform $(ON_EACH_SYSTEM:%=-p palmkit.%) || exit 1; done
	.venv/bin/pyright --pythonpath $(VENV)
	.venv/bin/zizmor --offline --no-progress --quiet --min-severity medium .github/workflows

docs: .venv/.dev ## the site of tutorials and references, into build/site; warnings are errors
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict
	@echo "build/site/index.html"

bench: .venv/.dev ## time the kernels, and models: ours, or ARGS='a.onnx --against all --threads 1,2'
	@for bench in build/editable/bench/*; do "$$bench" || exit 1; done
	.venv/bin/palmkit bench $(or $(ARGS),$(wildcard models/*/*.palm))

fuzz: .venv/.dev ## load and run damaged models for FUZZ_S seconds
	$(VENV) -m tests.engine.format.fuzz --seconds $(FUZZ_S) $(ARGS) $(wildcard models/*/*.palm)

fuzz-converters: .venv/.dev ## convert damaged foreign models, FUZZ_S seconds each format; ARGS=onnx
	$(VENV) -m tests.engine.converters.fuzz --seconds $(FUZZ_S) $(ARGS)

soak: .venv/.dev ## every kit on SOAK_FRAMES frames of a video, in Chromium too: memory stays the same
	SOAK_FRAMES=$(SOAK_FRAMES) $(VENV) -m pytest tests/kits/test_soak.py tests/kits/web/test_try_it.py \
		-k memory_stays_the_same -o faulthandler_timeout=0 $(ARGS)

soak-gpu: .venv/.dev ## the same on backend gpu, lavapipe or GPU=hardware: what is on the device stays the same; ARGS='-k face'
	SOAK_FRAMES=$(SOAK_FRAMES) GPU=$(or $(GPU),software) $(VENV) -m pytest tests/kits/test_soak_gpu.py \
		-o faulthandler_timeout=0 $(ARGS)

test-app: .venv/.dev ## all tests of the demo application, also the long ones that `make test` leaves out
	APP_TESTS=all $(VENV) -m pytest tests/demos $(ARGS)

soak-app: .venv/.dev ## the demo application on a looped clip for SOAK_MINUTES: memory stays the same
	SOAK_MINUTES=$(SOAK_MINUTES) $(VENV) -m pytest tests/demos/test_app_soak.py -s \
		-o faulthandler_timeout=0 $(ARGS)

screenshots: .venv/.dev ## the README's pictures of the demo application; ARGS='feed face' makes some
	$(VENV) -m tests.demos.scenes $(ARGS)

crash-sweep: .venv/.dev ## end the delivery client, or fill the disk, at every change to the disk
	CRASH_POINTS=all $(VENV) -m pytest tests/delivery/test_crashes.py -s -o faulthandler_timeout=0 $(ARGS)

fleet: .venv/.dev ## how many of 100,000 simulated devices run a bad release before it is stopped
	$(VENV) -m tests.delivery.server.fleet $(ARGS)

load: .venv/.dev ## how many reports a second the server takes, on SQLite and PostgreSQL
	$(VENV) -m tests.delivery.server.load $(ARGS)

fuzz-plans: .venv/.dev ## damaged steps, kernel by kernel, under ASan with guard pages for FUZZ_S seconds
	$(CONFIGURE) -B build/sanitize -DPALM_SANITIZE=address,undefined
	.venv/bin/cmake --build build/sanitize --target palm
	$(VENV) -m tests.engine.fuzz_plans --seconds $(FUZZ_S) $(ARGS)

gpu: .venv/.dev ## all operators and networks on backend gpu: lavapipe (Debian's mesa-vulkan-drivers) or GPU=hardware
	GPU_CASES=all GPU=$(or $(GPU),software) $(VENV) -m pytest tests/engine/backends/test_gpu*.py $(ARGS)

fuzz-c: .venv/.dev ## damaged files through palm.h, in C under ASan and UBSan for FUZZ_S seconds
	$(CONFIGURE) -B build/sanitize -DPALM_SANITIZE=address,undefined
	.venv/bin/cmake --build build/sanitize --target palm
	$(VENV) -m tests.engine.native.fuzz --sanitizer address,undefined --seconds $(FUZZ_S) $(ARGS)

sanitize: .venv/.dev ## the tests of the kernels, palm.h and palm_kits.h under sanitizers; SANITIZER=thread for races
	$(CONFIGURE) -B $(SANITIZED) -DPALM_SANITIZE=$(SANITIZER)
	.venv/bin/cmake --build $(SANITIZED)
	@for test in $(SANITIZED)/test/*; do echo "$$test" && "$$test" || exit 1; done
	SANITIZER=$(SANITIZER) $(VENV) -m pytest tests/engine/native tests/kits/native

c-library: .venv/bin/ninja ## the runtime for C programs, into build/c: include/palm.h and lib/libpalm.so
	.venv/bin/cmake -S engine/native -B build/c/build -G Ninja -DPALM_PYTHON=OFF \
		-DCMAKE_MAKE_PROGRAM="$(CURDIR)/.venv/bin/ninja" -DCMAKE_INSTALL_LIBDIR=lib
	.venv/bin/cmake --build build/c/build
	.venv/bin/cmake --install build/c/build --prefix build/c --strip
	@ls -sh build/c/lib

c-kits: c-library ## kits for C programs, into build/c: include/palm_kits.h and lib/libpalm_kits.so
	.venv/bin/cmake -S kits/native -B build/c/kits -G Ninja \
		-DCMAKE_MAKE_PROGRAM="$(CURDIR)/.venv/bin/ninja" -DCMAKE_INSTALL_LIBDIR=lib
	.venv/bin/cmake --build build/c/kits
	.venv/bin/cmake --install build/c/kits --prefix build/c --strip
	@ls -sh build/c/lib

arm64: .venv/bin/ninja ## the kernels' tests on arm64: Debian's g++-aarch64-linux-gnu and qemu-user-static; KERNELS='gemm' for some
	.venv/bin/cmake -S engine/native -B build/arm64 -G Ninja -DPALM_DEV=ON \
		-DCMAKE_MAKE_PROGRAM="$(CURDIR)/.venv/bin/ninja" -DCMAKE_SYSTEM_NAME=Linux \
		-DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
		-DCMAKE_EXE_LINKER_FLAGS=-static
	.venv/bin/cmake --build build/arm64 $(if $(KERNELS),--target $(KERNELS:%=%_test))
	@for test in $(if $(KERNELS),$(KERNELS:%=build/arm64/test/%_test),build/arm64/test/*); do \
		echo "$$test" && qemu-aarch64-static "$$test" || exit 1; done

windows: .venv/.dev build/wheels/.made ## the kernels' tests on Windows: zig and Debian's wine64
	$(ZIG_CONFIGURE) -S engine/native -B build/windows -DPALM_DEV=ON -DCMAKE_BUILD_TYPE=Release \
		-DCMAKE_SYSTEM_NAME=Windows -DCMAKE_SYSTEM_PROCESSOR=AMD64 \
		-DPALM_TARGET=x86_64-windows-gnu
	$(ZIG_CACHE) .venv/bin/cmake --build build/windows
	@for test in build/windows/test/*.exe; do \
		echo "$$test" && WINEDEBUG=-all $(WINE) "$$test" || exit 1; done

web-kernels: .venv/.dev build/wheels/.made ## the kernels' tests as WebAssembly: zig and Node
	$(ZIG_CONFIGURE) -S engine/native -B build/web/kernels -DPALM_DEV=ON \
		-DCMAKE_BUILD_TYPE=Release $(FOR_WASM)
	$(ZIG_CACHE) .venv/bin/cmake --build build/web/kernels
	@for test in build/web/kernels/test/*_test; do \
		echo "$$test" && node tests/engine/web/run_kernel.mjs "$$test" || exit 1; done

web: .venv/.dev build/wheels/.made build/web/npm/.made ## PalmKit for browsers, the npm package, into build/web/palmkit: zig, Node and npm
	rm -rf build/web/new
	.venv/bin/palmkit build-runtime -q --models $(sort $(wildcard models/*/*.palm)) \
		--isa wasm,wasm_relaxed -o build/web/new
	.venv/bin/cmake -E copy_directory_if_different build/web/new build/web/sources
	$(ZIG_CONFIGURE) -S build/web/sources -B build/web/build $(FOR_WASM)
	$(ZIG_CACHE) .venv/bin/cmake --build build/web/build
	$(ZIG_CONFIGURE) -S kits/native -B build/web/kits $(FOR_WASM)
	$(ZIG_CACHE) .venv/bin/cmake --build build/web/kits
	build/web/npm/node_modules/.bin/tsc -p kits/web
	mkdir -p build/web/palmkit/models
	cp build/web/build/*.wasm build/web/palmkit/engine/web
	rm -f build/web/palmkit/kits/web/*.wasm
	cp build/web/kits/palm_kits_*.wasm build/web/palmkit/kits/web
	cp $(filter-out %/reranker.palm %/portrait_best.palm %/hair_best.palm %/held_things.palm,$(wildcard models/*/*.palm)) models/index.toml \
		build/web/palmkit/models
	cp kits/web/package.json LICENSE build/web/palmkit
	@for module in $$(find build/web/palmkit -name '*.wasm'); do \
		echo "$$module: $$(wc -c < $$module) bytes, $$(gzip -9 -c $$module | wc -c) by gzip"; done

bench-web: .venv/.dev build/wheels/.made build/web/bench/.made ## times in Chromium beside the web's other engines, after `make web`; MODELS='a.onnx' ARGS='--threads 2'
	$(VENV) -m tests.engine.web.bench.networks build/web/bench/networks $(MODELS)
	rm -rf build/web/bench/new
	.venv/bin/palmkit build-runtime -q --models build/web/bench/networks/*.palm \
		--isa wasm,wasm_relaxed -o build/web/bench/new
	.venv/bin/cmake -E copy_directory_if_different build/web/bench/new build/web/bench/sources
	$(ZIG_CONFIGURE) -S build/web/bench/sources -B build/web/bench/build $(FOR_WASM)
	$(ZIG_CACHE) .venv/bin/cmake --build build/web/bench/build
	$(VENV) -m tests.engine.web.bench build/web/bench $(MODELS) $(ARGS)

wheel: build/release/.made ## build the wheel into dist, with the tools of .ci/release-lock.txt
	rm -rf dist
	build/release/bin/pyproject-build --wheel --no-isolation --outdir dist .
	build/release/bin/python .ci/sbom.py dist
	@ls -sh dist

wheels: build/release/.made build/wheels/.made ## the sources and a wheel for each platform into dist, built by zig; ARGS='win_amd64' for some
	rm -rf dist build/wheels/base
	build/release/bin/pyproject-build --no-isolation -C wheel.cmake=false --outdir build/wheels/base .
	PATH="$(CURDIR)/build/wheels/venv/bin:$$PATH" .ci/wheels $(ARGS)
	build/wheels/venv/bin/twine check --strict dist/*

check-wheel: wheel .venv/.dev ## install the wheel in a bare environment elsewhere and find faces with it
	@set -eu; elsewhere=$$(mktemp -d); trap 'rm -rf "$$elsewhere"' EXIT; \
	wheel=$$(ls "$(CURDIR)"/dist/*.whl); \
	$(VENV) -c 'import sys, PIL.Image, skimage.data; \
	PIL.Image.fromarray(skimage.data.astronaut()).save(sys.argv[1])' "$$elsewhere/photo.png"; \
	$(VENV) -m venv "$$elsewhere/venv"; \
	"$$elsewhere/venv/bin/python" -m pip install -q --require-hashes -r .ci/release-lock.txt; \
	"$$elsewhere/venv/bin/python" -m pip install -q --no-deps "$$wheel"; \
	"$$elsewhere/venv/bin/python" -m pip check; \
	cd "$$elsewhere"; \
	venv/bin/python -W error -c 'import palmkit.kits, palmkit.engine, palmkit.models, \
	palmkit.assets, palmkit.delivery'; \
	venv/bin/palmkit face photo.png -o marked.png --json > faces.json; \
	cat faces.json; \
	venv/bin/python -c 'import json, os; assert json.load(open("faces.json"))["faces"]; \
	assert os.path.getsize("marked.png")'; \
	venv/bin/palmkit build-runtime -q --models "$(CURDIR)/models/hair/hair.palm" --isa avx2 -o runtime; \
	test -s runtime/palm.h; \
	! venv/bin/palmkit-demo --headless 2> said.txt; grep -F 'pip install "palmkit[demos]"' said.txt; \
	echo "wheel works: $$(basename "$$wheel")"

clean: ## remove .venv and all that was built
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "PalmKit needs Python 3.10")'
	$(PYTHON) -m venv .venv

build/wheels/.made: Makefile | .venv/bin/python
	$(VENV) -m venv build/wheels/venv
	build/wheels/venv/bin/python -m pip --disable-pip-version-check install -q cmake ninja \
		"ziglang==0.17.1" "pyelftools>=0.31" "pefile>=2024.8" "macholib>=1.16" "twine>=6" \
		"auditwheel>=6.4" "delvewheel>=1.10" "deflate>=0.9"
	@touch $@

build/web/npm/.made: kits/web/package.json kits/web/package-lock.json
	mkdir -p build/web/npm
	cp kits/web/package.json kits/web/package-lock.json kits/web/.npmrc build/web/npm
	npm ci --prefix build/web/npm
	@touch $@

build/web/bench/.made:
	npm install --prefix build/web/bench --no-save --ignore-scripts onnxruntime-web@1.30.0 \
		@litertjs/core@2.5.3 @mediapipe/tasks-vision@1.1.0 @tensorflow/tfjs-tflite@0.0.1-alpha.10 \
		@tensorflow/tfjs-core@4.9.0 @tensorflow/tfjs-backend-cpu@4.9.0
	@touch $@

build/release/.made: .ci/release-lock.txt | .venv/bin/python
	rm -rf build/release
	$(VENV) -m venv build/release
	build/release/bin/python -m pip --disable-pip-version-check install -q --require-hashes \
		-r .ci/release-lock.txt
	@touch $@

.venv/.user: pyproject.toml $(SOURCES) | .venv/bin/python
	@echo "installing PalmKit into .venv"
	$(PIP) install -q ".[demos]"
	@touch $@

# What builds the library.
.venv/bin/ninja: | .venv/bin/python
	$(PIP) install -q cmake ninja "scikit-build-core<2"

.venv/.dev: pyproject.toml $(NATIVE) | .venv/bin/ninja
	@echo "installing PalmKit and its tools into .venv"
	$(PIP) install -q --no-build-isolation -e ".[dev]"
	@touch $@
