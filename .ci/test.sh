#!/bin/bash
# test.sh PRESET: the C++ tests of a built preset, and for dev the Python tests too; ends in "N
# passed, N failed, N skipped". LARDER_SECOND_TRY=1, for a shared machine: a failed test is run once
# more, alone, and named. LARDER_BEFORE: the seconds of earlier steps, for the last lines.
set -euo pipefail
cd "$(dirname "$0")"
. ./paths.sh
cd ..
preset=$1
second_try=${LARDER_SECOND_TRY:-0}
reports=build/reports/$preset
rm -rf "$reports"
mkdir -p "$reports"

# Most of a test's time is waiting, for a deadline or another process: two tests for each processor.
# Sanitizers compute all the time.
jobs=$(nproc)
[ "$preset" = dev ] && jobs=$((2 * jobs))
started=$SECONDS
ctest --test-dir "build/$preset" --output-junit "$PWD/$reports/ctest.xml" -j"$jobs" \
  --output-on-failure --timeout 120 ||
  {
    echo "ctest ended with status $?"
    if [ "$second_try" = 1 ]; then
      ctest --test-dir "build/$preset" --output-junit "$PWD/$reports/ctest-again.xml" \
        --rerun-failed --output-on-failure --timeout 120 || true
    fi
  }
times="ctest $((SECONDS - started)) s"

# By these names Python finds the built files; tests/python and tests/engine say more.
if [ "$preset" = dev ]; then
  export LARDER_LIBRARY=$PWD/build/dev/lib/liblarder.so LARDER_TEST_BIN=$PWD/build/dev/bin
  # vLLM leaves the sockets of its processes there
  VLLM_RPC_BASE_PATH=$(mktemp -d /tmp/larder-vllm-XXXXXX)
  export VLLM_RPC_BASE_PATH
  trap 'rm -rf "$VLLM_RPC_BASE_PATH"' EXIT
  run_pytest() {
    PYTHONPATH=$PWD/shim/python "$venv/bin/python" -m pytest tests/python tests/engine \
      -o cache_dir="$PWD/$reports/pytest" --timeout 600 -v "$@"
  }
  python_started=$SECONDS
  run_pytest --junitxml "$reports/pytest.xml" || {
    echo "pytest ended with status $?"
    if [ "$second_try" = 1 ]; then
      run_pytest --lf --lfnf=none --junitxml "$reports/pytest-again.xml" || true
    fi
  }
  times+=", pytest $((SECONDS - python_started)) s"
  set -- "$reports/ctest.xml" "$reports/pytest.xml"
else
  set -- "$reports/ctest.xml"
fi
[ -z "${LARDER_BEFORE:-}" ] || echo "before the tests: $LARDER_BEFORE"
echo "tests took $((SECONDS - started)) s: $times"
if [ "$preset" = dev ]; then
  others=$(sed -nE 's/^(test-[a-z]+|e2e|e2e-kserve|fuzz|soak):.*/\1/p' Makefile | sort |
    tr '\n' ' ')
  echo "not among them, minutes each, by make: ${others}bench-*"
fi
/usr/bin/python3 .ci/summary.py "$@"
