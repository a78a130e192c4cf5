#!/bin/bash
# test.sh PRESET: the C++ tests of a preset that is built, and for dev the Python tests too; ends in "N passed, N failed, N skipped".
set -euo pipefail
cd "$(dirname "$0")"
. ./paths.sh
cd ..
preset=$1
reports=build/reports/$preset
rm -rf "$reports"
mkdir -p "$reports"

started=$SECONDS
ctest --test-dir "build/$preset" --output-junit "$PWD/$reports/ctest.xml" -j2 --output-on-failure --timeout 120 ||
  echo "ctest ended with status $?"

# Python finds what was built here by these names; tests/python says more.
if [ "$preset" = dev ]; then
  export LARDER_LIBRARY=$PWD/build/dev/lib/liblarder.so LARDER_TEST_BIN=$PWD/build/dev/bin
  VLLM_RPC_BASE_PATH=$(mktemp -d /tmp/larder-vllm-XXXXXX)  # vLLM leaves its processes' sockets lying there
  export VLLM_RPC_BASE_PATH
  trap 'rm -rf "$VLLM_RPC_BASE_PATH"' EXIT
  PYTHONPATH=$PWD/shim/python "$venv/bin/python" -m pytest tests/python -p no:cacheprovider --timeout 600 -v \
    --junitxml "$reports/pytest.xml" || echo "pytest ended with status $?"
  set -- "$reports/ctest.xml" "$reports/pytest.xml"
else
  set -- "$reports/ctest.xml"
fi
echo "tests took $((SECONDS - started)) s"
if [ "$preset" = dev ]; then
  echo "not among them, minutes each: make e2e (Kubernetes), e2e-kserve, test-asan, test-crash, test-dashboards, test-models, test-remote, test-sim, test-tsan, test-ubuntu, test-vm, fuzz, soak"
fi
/usr/bin/python3 .ci/summary.py "$@"
