# The entry point. `make` alone lists the targets; each target installs its missing needs (`make
# deps`). Python comes before the C++ build, so that too little disk or memory for Python is
# reported at once.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BENCHES = bench-copy bench-curve bench-disk bench-equal bench-eviction bench-gpu bench-index \
  bench-infinistore bench-lookup bench-mooncake bench-peer bench-recovery bench-remote \
  bench-remote-lookup bench-remote-outage bench-restart bench-start bench-ttft bench-ttft-disk \
  bench-ttft-remote bench-engine bench-operator bench-rivals bench-serve bench-webhook bench-weights
.PHONY: $(BENCHES) carry-gpu docs docs-map deps-docs help deps deps-build deps-tools deps-python \
  deps-wheel deps-rivals deps-cuda deps-cuda-if-possible deps-bench deps-servers deps-plugins \
  deps-vm deps-kubernetes build release image krew e2e e2e-up e2e-down demo soak test test-logs \
  timed-build test-models test-mutations test-names test-asan test-crash test-eviction test-fence \
  test-gpu test-inject test-long test-plugins test-remote test-sim test-traces test-tsan \
  test-ubuntu test-vm deps-collector \
  fuzz lint format wheel install clean pictures test-dashboards deps-kserve e2e-kserve deps-dist \
  dist deps-format deps-lint

PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
PYTHON = $(shell cd .ci && . ./paths.sh && echo $$venv/bin/python)
DOCS = $(shell cd .ci && . ./paths.sh && echo $$docs)
LINTERS = $(shell cd .ci && . ./paths.sh && echo $$linters/bin)
COLLECTOR = $(shell cd .ci && . ./paths.sh && echo $$collector/bin/collector)
RUFF = $(shell cd .ci && . ./paths.sh && echo $$ruff/bin/ruff)
RIVALS_PYTHON = $(shell cd .ci && . ./paths.sh && echo $$rivals/bin/python)
# For Python: the package, the shim, the programs.
RUN = PYTHONPATH=$(CURDIR)/shim/python:$(CURDIR)/e2e \
  LARDER_LIBRARY=$(CURDIR)/build/$(1)/lib/liblarder.so PATH=$(CURDIR)/build/$(1)/bin:$$PATH
SOURCES = $(shell git ls-files '*.cc' '*.h' '*.cu' '*.cuh')
PYTHON_SOURCES = $(shell git ls-files '*.py')

# The texts of `make help` stand in lines with two signs above the targets.
## this list
help:
	@awk '/^## / { text = text sep substr($$0, 4); sep = " "; next } \
	  text && split($$0, name, ":") { printf "  make %-11s %s\n", name[1], text } \
	  { text = sep = "" }' Makefile

## install all missing packages: Debian packages, a Python environment with CPU vLLM outside the
## checkout
deps:
	@.ci/deps.sh build tools servers python
deps-build:
	@.ci/deps.sh build
deps-tools:
	@.ci/deps.sh build tools
deps-format:
	@.ci/deps.sh build tools ruff
deps-lint: deps-format
	@.ci/deps.sh linters
deps-python:
	@.ci/deps.sh build python
deps-wheel:
	@.ci/deps.sh build wheel
deps-docs:
	@.ci/deps.sh build docs
deps-dist:
	@.ci/deps.sh build wheel helm
deps-rivals:
	@.ci/deps.sh build rivals
deps-cuda:
	@.ci/deps.sh build cuda
# Without NVIDIA's compiler the build leaves the copy kernels out: the copy engines alone serve
# GPUs.
deps-cuda-if-possible: deps-build
	@.ci/deps.sh cuda || echo "going on without CUDA kernels (make deps-cuda)"
deps-bench:
	@.ci/deps.sh build bench
deps-servers:
	@.ci/deps.sh build servers
deps-plugins:
	@.ci/deps.sh build plugins
deps-vm:
	@.ci/deps.sh build vm
deps-kubernetes:
	@.ci/deps.sh build kubernetes
deps-collector:
	@.ci/deps.sh build collector
deps-kserve:
	@.ci/deps.sh build kserve

build/%/build.ninja: CMakePresets.json | deps-build deps-cuda-if-possible
	@cmake --preset $* >/dev/null

## larderd, larderctl, liblarder.so and all tests, in build/dev
build: build/dev/build.ninja deps-build deps-cuda-if-possible
	@cmake --build --preset dev -j$(JOBS)
release: build/release/build.ninja deps-build deps-cuda-if-possible
	@cmake --build --preset release -j$(JOBS) --target larderd larderctl kubectl-larder \
	  larder_shared larder-operator

## a real vLLM answers a long prompt: recomputed, then loaded from larderd, then by a second vLLM
## (MODEL=path for yours; REMOTE=redis, REMOTE=mooncake: the second on another node)
demo: deps-python release \
  $(if $(REMOTE),$(if $(filter mooncake,$(REMOTE)),deps-plugins,deps-servers))
	@$(call RUN,release) LARDERD=$(CURDIR)/build/release/bin/larderd MODEL=$(MODEL) \
	  REMOTE=$(REMOTE) $(PYTHON) -m demo

## every test; ends in "N passed, N failed, N skipped"
test: timed-build
	@LARDER_BEFORE="$$(cat build/seconds-before)" .ci/test.sh dev
timed-build:
	@began=$$(date +%s) && $(MAKE) --no-print-directory deps-python deps-servers && \
	  ready=$$(date +%s) && $(MAKE) --no-print-directory build && built=$$(date +%s) && \
	  echo "dependencies $$((ready - began)) s, build $$((built - ready)) s" \
	    >build/seconds-before

## every model shape and engine setting on each tested vLLM (VLLM=0.33: on that one alone), half an
## hour each; writes the table of docs/reference/compatibility.md
test-models: deps-python build
	@$(call RUN,dev) LARDER_TEST_BIN=$(CURDIR)/build/dev/bin .ci/test-models.sh $(VLLM)

## each rule of tests/mutation taken out of the code, two builds each (WORDS=... for some): the
## tests of the rule must fail
test-mutations: deps-python build
	@python3 tests/mutation/mutations.py $(WORDS)

## tests that `make test` leaves out or shortens because they take long, some minutes: pytest's mark
## `long`, and every slot of the copy engines
test-long: deps-python build
	@REMOTE_SUITE=whole build/dev/bin/copy_engine_test \
	  --gtest_filter='*DigestsMatchTheProtocol*scattered'
	@$(call RUN,dev) LARDER_TEST_BIN=$(CURDIR)/build/dev/bin LARDER_LONG=1 \
	  $(PYTHON) -m pytest tests/python -m long -p no:cacheprovider --timeout 600 -v

## names of KV: real engines one after the other; no engine may hit another's KV; minutes
test-names: deps-python build
	@$(call RUN,dev) LARDER_TEST_BIN=$(CURDIR)/build/dev/bin LARDER_NAMES=all \
	  $(PYTHON) -m pytest tests/python/names -p no:cacheprovider --timeout 1500 -v
# A machine with a GPU may have no network and no compiler: a copied build/gpu without a build is
# run unchanged.
GPU_FILES = $(wildcard build/gpu/commit build/gpu-packed/gpu.tar.xz)
GPU_CARRIED = $(and $(GPU_FILES),$(if $(wildcard build/release/build.ninja),,yes))

## everything for test-gpu and bench-gpu, in build/gpu: copy it with this tree to a machine with a
## GPU; GPU_VLLM=90 (the GPU's compute capability) adds a vLLM as archives
carry-gpu: deps-python release
	@cmake --build --preset release -j$(JOBS) --target gpu_test gpu_bench gpu_arms \
	  liblarder_test.so && .ci/gpu.sh carry build/release
	@$(if $(GPU_VLLM),.ci/gpu.sh pack)

## copies between a real GPU and an arena, every way; engines with KV on the GPU; skipped without a
## GPU
test-gpu: $(if $(GPU_CARRIED),,carry-gpu)
	@.ci/gpu.sh test

## engines and larderd killed at every point and 10,000 times at random, minutes;
## tests/crash/README.md
test-crash: deps-python build
	@.ci/test-crash.sh

## Redis and Valkey of every kind, killed, stopped, full, far away, resharded at length, minutes;
## tests/component
test-remote: deps-python deps-servers deps-tools build build/fuzz/build.ninja
	@cmake --build --preset fuzz -j$(JOBS) --target resp_fuzz peer_fuzz && .ci/test-remote.sh

## the plug-ins beside real servers, killed, stopped and full, minutes; tests/python/plugins
test-plugins: deps-python deps-plugins build
	@$(call RUN,dev) LARDER_TEST_BIN=$(CURDIR)/build/dev/bin LARDER_PLUGINS=1 \
	  $(PYTHON) -m pytest tests/python/plugins -m plugins -p no:cacheprovider --timeout 600 -v

## 60 s idle beside a backend that refuses, an unread log, nine refused engines: ten lines at most;
## `make test` watches for seconds
test-logs: deps-servers build
	@REMOTE_SUITE=whole build/dev/bin/remote_refusing_test
	@REMOTE_SUITE=whole build/dev/bin/unread_log_test --gtest_filter='*IdleLarderd*'
	@REMOTE_SUITE=whole build/dev/bin/refused_engines_test

## traces of a real engine in a real OpenTelemetry collector, which is away and stopped too (builds
## the collector from Go modules), a minute
test-traces: deps-python deps-servers deps-collector build
	@$(call RUN,dev) LARDER_TEST_BIN=$(CURDIR)/build/dev/bin LARDER_TRACES=1 \
	  LARDER_COLLECTOR=$(COLLECTOR) $(PYTHON) -m pytest tests/python/engine/test_traces.py \
	  -p no:cacheprovider --timeout 600 -v
LOAD_SECONDS ?= 60

## a leader stopped for 60 s writes no more afterwards, minutes; `make test` stops a leader for
## seconds
test-fence: deps-kubernetes build
	@FENCE_SECONDS=60 build/dev/bin/kube_api_test --gtest_filter='LeaderTest.AStoppedLeader*'
	@FENCE_SECONDS=60 build/dev/bin/operator_test --gtest_filter='OperatorFenceTest.*'

## larderctl simulate against kvcache-simulator on three traces (fetches 39 KB), seconds;
## tests/eviction
test-eviction: deps-python build
	@$(PYTHON) -m pip install -q --require-hashes --no-deps --upgrade --target build/simulator \
	  -r .ci/simulator.lock
	@PYTHONPATH=$(CURDIR)/build/simulator LARDER_TEST_BIN=$(CURDIR)/build/dev/bin \
	  $(PYTHON) -m pytest tests/eviction -p no:cacheprovider --timeout 300 -v

## every query of dashboards and alerts on a real Prometheus over real programs under load, minutes;
## tests/dashboards
test-dashboards: deps-python deps-servers deps-kubernetes build
	@LOAD_SECONDS=$(LOAD_SECONDS) $(PYTHON) -m pytest tests/dashboards -p no:cacheprovider \
	  --timeout 900 -v

## test-dashboards, and the dashboards drawn from the same data to docs/pictures
pictures: deps-python deps-servers deps-kubernetes build
	@LARDER_PICTURES=$(CURDIR)/docs/pictures LOAD_SECONDS=$(LOAD_SECONDS) \
	  $(PYTHON) -m pytest tests/dashboards -p no:cacheprovider --timeout 900 -v
SOAK_MINUTES ?= 30

## engines over memory and disk, a process killed every 5 s, for SOAK_MINUTES (30): no resource
## grows, no byte is wrong
soak: build
	@SOAK_MINUTES=$(SOAK_MINUTES) build/dev/bin/soak_test
SIM_SEEDS ?= 10000

## store, tiers and engines in one thread, by SIM_SEEDS (10000) seeds without a server and with one;
## a failed seed replays exactly
test-sim: build
	@build/dev/bin/sim $(SIM_SEEDS)
	@build/dev/bin/sim --backend $(SIM_SEEDS)
INJECT_PODS ?= 1000000

## a million random pods (INJECT_PODS) through the injector: every patch valid, a second injection
## changes no field
test-inject: build/release/build.ninja
	@cmake --build --preset release -j$(JOBS) --target op_inject_test
	@LARDER_TEST_PODS=$(INJECT_PODS) build/release/bin/op_inject_test \
	  --gtest_filter='RandomPods.*'

## the C++ tests under the address and undefined-behaviour sanitizers
test-asan: deps-servers build/asan/build.ninja
	@cmake --build --preset asan -j$(JOBS) && .ci/test.sh asan

## the C++ tests under the thread sanitizer
test-tsan: deps-servers build/tsan/build.ninja
	@cmake --build --preset tsan -j$(JOBS) && .ci/test.sh tsan

FUZZ_SECONDS ?= 60

## hostile bytes into every interface, FUZZ_SECONDS (60) each; fails on a finding
fuzz: deps-tools build/fuzz/build.ninja
	@cmake --build --preset fuzz -j$(JOBS) --target fuzz_targets && \
	  tests/fuzz/run.sh build/fuzz $(FUZZ_SECONDS)

## lookup, copy, curve (TRACE=FILE), disk, equal, eviction (TRACE=FILE, SEED=N), gpu, index,
## infinistore, mooncake, recovery, remote, remote-lookup, remote-outage, restart, start, ttft,
## ttft-disk, ttft-remote, engine, operator, rivals, serve, webhook, weights: a table, and
## build/bench/NAME.json
bench-*:
# For the reports. bench-gpu has the commit of its build.
$(filter-out bench-gpu,$(BENCHES)): export LARDER_COMMIT = \
  $(shell git describe --always --dirty 2>/dev/null)
bench-disk: deps-bench
bench-copy bench-disk bench-index bench-peer bench-recovery: bench-%: release
	@cmake --build --preset release -j$(JOBS) --target $*_bench
	@build/release/bin/$*_bench build/bench
bench-gpu: $(if $(GPU_CARRIED),,carry-gpu)
	@.ci/gpu.sh bench
bench-curve: release
	@cmake --build --preset release -j$(JOBS) --target curve_bench
	@build/release/bin/curve_bench build/bench '$(TRACE)'
bench-eviction: release
	@cmake --build --preset release -j$(JOBS) --target eviction_bench
	@build/release/bin/eviction_bench build/bench '$(TRACE)' '$(SEED)'
bench-lookup: deps-python release
	@cmake --build --preset release -j$(JOBS) --target lookup_bench
	@$(call RUN,release) build/release/bin/lookup_bench build/bench \
	  '$(PYTHON) tests/bench/lookup_python.py'
bench-remote: deps-rivals deps-servers release
	@cmake --build --preset release -j$(JOBS) --target remote_bench
	@build/release/bin/remote_bench build/bench $(RIVALS_PYTHON) tests/bench/remote_rivals.py
bench-remote-lookup: deps-servers release
	@cmake --build --preset release -j$(JOBS) --target remote_lookup_bench
	@build/release/bin/remote_lookup_bench build/bench
bench-remote-outage: deps-servers release
	@cmake --build --preset release -j$(JOBS) --target remote_outage_bench
	@build/release/bin/remote_outage_bench build/bench
bench-webhook: release
	@cmake --build --preset release -j$(JOBS) --target webhook_bench
	@build/release/bin/webhook_bench build/bench build/release/bin/webhook_server_process \
	  $(CURDIR)
bench-infinistore bench-mooncake: bench-%: deps-python deps-plugins release
	@$(call RUN,release) $(PYTHON) tests/bench/$*_bench.py
bench-restart bench-start: bench-%: release
	@cmake --build --preset release -j$(JOBS) --target $*_bench
	@build/release/bin/$*_bench build/bench $(CURDIR)/build/release/bin/larderd
bench-operator: deps-kubernetes release
	@cmake --build --preset release -j$(JOBS) --target operator_bench larder-operator
	@build/release/bin/operator_bench build/bench $(CURDIR)/build/release/bin
bench-ttft: deps-python release
	@$(call RUN,release) LARDERD=$(CURDIR)/build/release/bin/larderd MODEL=$(MODEL) \
	  $(PYTHON) tests/bench/ttft_bench.py
bench-equal: deps-python release
	@$(call RUN,release) LARDERD=$(CURDIR)/build/release/bin/larderd \
	  $(PYTHON) tests/bench/equal_bench.py
bench-ttft-disk: deps-python release
	@$(call RUN,release) LARDERD=$(CURDIR)/build/release/bin/larderd MODEL=$(MODEL) \
	  $(PYTHON) tests/bench/ttft_disk_bench.py
bench-ttft-remote: deps-python deps-servers release
	@$(call RUN,release) LARDERD=$(CURDIR)/build/release/bin/larderd MODEL=$(MODEL) \
	  $(PYTHON) tests/bench/ttft_remote_bench.py
bench-engine: deps-python release
	@$(call RUN,release) LARDERD=$(CURDIR)/build/release/bin/larderd \
	  $(PYTHON) tests/bench/engine_bench.py
bench-rivals: deps-rivals release
	@$(call RUN,release) LARDERD=$(CURDIR)/build/release/bin/larderd \
	  $(RIVALS_PYTHON) tests/bench/rivals_bench.py
bench-serve: deps-rivals release
	@$(call RUN,release) LARDERD=$(CURDIR)/build/release/bin/larderd \
	  $(RIVALS_PYTHON) tests/bench/serve_bench.py
bench-weights: deps-python release
	@cmake --build --preset release -j$(JOBS) --target read_and_hash
	@$(call RUN,release) READ_AND_HASH=$(CURDIR)/build/release/bin/read_and_hash \
	  $(PYTHON) tests/bench/weights_bench.py

## liblarder.so in Ubuntu 22.04's own Python and glibc (fetches 9 MB of its packages)
test-ubuntu: deps-python release
	@tests/component/ubuntu/run.sh build/release/bin/larderd \
	  $(CURDIR)/build/release/lib/liblarder.so $(CURDIR)/shim/python

## larderd on pages of 1 GiB and NUMA nodes, in a virtual machine (fetches QEMU and a kernel, 45 MB)
test-vm: deps-vm release
	@cmake --build --preset release -j$(JOBS) --target vm_engine
	@cd .ci && . ./paths.sh && cd .. && tests/component/vm/run.sh $$vm/vmlinuz $$vm/busybox \
	  build/release/bin/larderd build/release/bin/larderctl build/release/bin/vm_engine

## formatting, links, words and commands of pages, workflows, dashboards, and the rules of the code
## (includes between rooms, length of files)
lint: deps-lint build/dev/build.ninja
	@python3 tests/lint/links.py
	@python3 tests/lint/guides.py
	@python3 tests/lint/words.py
	@python3 tests/lint/classes.py
	@python3 tests/lint/columns.py
	@python3 tests/lint/comments.py
	@clang-format --dry-run -Werror $(SOURCES)
	@$(RUFF) format --check --quiet $(PYTHON_SOURCES)
	@$(LINTERS)/actionlint -shellcheck= -pyflakes= .github/workflows/*.yml
	@for file in charts/larder/files/dashboards/*.json; do \
	  said=$$($(LINTERS)/dashboard-linter lint --strict --config manifests/dashboards/.lint \
	    $$file 2>&1) || { echo "$$said"; exit 1; }; \
	done
	@cmake --build --preset dev -j$(JOBS) --target house_test && \
	  ctest --test-dir build/dev -R "^(House|Docs|FailuresPage)Test|^readme_map|^room_tables" \
	  --output-on-failure

## the tables of files in the READMEs of rooms, from the first sentences of the files; the map in
## docs/contributing/code-map.md, from the first sentence of each README.md and from the includes;
## docs/reference/resources.md, from the definitions of the chart; the tables of
## docs/performance/results.md, from docs/performance/data
docs-map: deps-docs
	@python3 .ci/room_tables.py
	@python3 .ci/code_map.py
	@$(DOCS)/bin/python .ci/resources_page.py
	@python3 .ci/results_page.py

## the site of docs/ in build/docs, strict: a missing page, link or heading fails; the site needs no
## network to be read
docs: deps-docs
	@LARDER_SCRIPTS=$(DOCS)/scripts NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build \
	  --strict --quiet && echo "build/docs/index.html"

## clang-format over all C++, ruff over all Python
format: deps-format
	@clang-format -i $(SOURCES)
	@$(RUFF) format --quiet $(PYTHON_SOURCES)

## the container image of all programs, without Docker, in build/image/larder.tar; `Dockerfile`
## makes the same image with Docker
image: release
	@.ci/image/build.sh build/release build/image/larder.tar

## kubectl larder for Krew, an archive and its manifest, in build/krew (KREW_URI=the later address
## of the archive)
krew: release
	@KREW_URI='$(KREW_URI)' .ci/krew.sh build/release build/krew

## image, chart, wheel, kubectl plug-in, SBOM, checksums and release notes of this commit, in
## build/dist; docs/contributing/releasing.md
dist: deps-dist release
	@DIST_IMAGE='$(DIST_IMAGE)' DIST_HOME='$(DIST_HOME)' .ci/dist.sh build/release build/dist

## a Kubernetes on this machine, as root (builds it once, minutes); e2e/README.md
e2e-up: deps-python deps-servers deps-kubernetes release
	@e2e/cluster/cluster.sh up && e2e/cluster/cluster.sh load

## end the Kubernetes of e2e-up, and remove all its files
e2e-down:
	@e2e/cluster/cluster.sh down

## the scenarios against this Kubernetes: helm install, a pool, an annotated vLLM, and failures
## (SCENARIO=name for some)
e2e: e2e-up
	@$(call RUN,release) $(PYTHON) -m pytest e2e/scenarios -p no:cacheprovider --timeout 900 \
	  -v $(if $(SCENARIO),-k "$(SCENARIO)")

## KServe's own controllers (built once, minutes): the pods of the controllers, then
## docs/get-started/kserve.md against the cluster
e2e-kserve: deps-kserve e2e-up
	@LARDER_TEST_KSERVE=1 LARDER_TEST_BIN=$(CURDIR)/build/release/bin $(call RUN,release) \
	  $(PYTHON) -m pytest tests/python/kserve -p no:cacheprovider --timeout 300 -v
	@$(call RUN,release) $(PYTHON) -m pytest e2e/kserve -p no:cacheprovider --timeout 1500 \
	  -v $(if $(SCENARIO),-k "$(SCENARIO)")

## the Python package with liblarder.so inside, in build/wheel
wheel: deps-wheel release
	@.ci/wheel.sh build/release build/wheel

## programs, liblarder.so, larder.h and the systemd unit under PREFIX (/usr/local)
install: release
	@cmake --preset release -DCMAKE_INSTALL_PREFIX=$(PREFIX) >/dev/null && \
	  cmake --build --preset release --target larderd larderctl kubectl-larder larder_shared
	@cmake --install build/release

## remove build/ (the Python environment stays: the environment is outside the checkout)
clean:
	@rm -rf build
