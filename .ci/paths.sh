# Sourced: the places of files outside the checkout. cache: $LARDER_CACHE, else in the home folder,
# also without $HOME. venv: the Python environment of exactly this python.lock. REQUIRES: the
# current folder is .ci.
cache=${LARDER_CACHE:-${XDG_CACHE_HOME:-${HOME:-~}/.cache}/larder}
venv=$cache/venv-$(sha256sum python.lock | cut -c1-12)
# vllm_next: the Python of a newer vLLM over the CPU libraries of venv (vllm-next.lock).
vllm_next=$cache/vllm-next-$(cat python.lock vllm-next.lock | sha256sum | cut -c1-12)
# suffix: the package of vLLM's suffix decoding, for `make test-models` (suffix.lock).
suffix=$cache/suffix-$(cat python.lock suffix.lock | sha256sum | cut -c1-12)
# wheel: the tools that make the package's wheel (wheel.lock).
wheel=$cache/wheel-$(sha256sum wheel.lock | cut -c1-12)
# ruff: the formatter of Python (ruff.lock).
ruff=$cache/ruff-$(sha256sum ruff.lock | cut -c1-12)
# docs: MkDocs and Mermaid, which build the site of docs/ (docs.lock).
docs=$cache/docs-$(sha256sum docs.lock | cut -c1-12)
# cuda: NVIDIA's compiler and headers (cuda.lock).
cuda=$cache/cuda-$(sha256sum cuda.lock | cut -c1-12)
# vm: kernel and busybox of the virtual machine of `make test-vm`.
vm=$cache/vm
# servers: redis-server and valkey-server, for the tests of the remote tier; prometheus and
# promtool.
servers=$cache/servers
# mooncake: Mooncake's master and client, for the tests of plugins/mooncake (mooncake.lock).
mooncake=$cache/mooncake-$(sha256sum mooncake.lock | cut -c1-12)
# field: UCX and NIXL, for bench-peer-field (field.lock).
field=$cache/field-$(sha256sum field.lock | cut -c1-12)
# infinistore: InfiniStore's server, for the tests of plugins/infinistore (infinistore.lock).
infinistore=$cache/infinistore-$(sha256sum infinistore.lock | cut -c1-12)
# rivals: LMCache beside the Python of venv, for the benchmarks that compare (rivals.lock).
rivals=$cache/rivals-$(cat python.lock rivals.lock | sha256sum | cut -c1-12)
# kubernetes: a Kubernetes of one machine (kubernetes.sh), for the tests of operator and chart.
kubernetes=$cache/kubernetes-1.34.4

# kserve: KServe's controllers, definitions and configuration (kserve.sh).
kserve=$cache/kserve-0.20.0
# huggingface: KServe's Hugging Face server with the vLLM pinned by the server (kserve.lock); the
# source in server/, as in the server's image.
huggingface=$cache/huggingface-$(cat python.lock kserve.lock | sha256sum | cut -c1-12)
# linters: actionlint and dashboard-linter, built by exactly this linters.sh.
linters=$cache/linters-$(sha256sum linters.sh | cut -c1-12)
# collector: an OpenTelemetry collector for `make test-traces` (collector.sh).
collector=$cache/collector-$(cat collector/go.mod collector/main.go | sha256sum | cut -c1-12)
