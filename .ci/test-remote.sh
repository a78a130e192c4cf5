#!/bin/bash
# test-remote.sh: the remote tier's tests at length over build/dev, and its fuzz target for
# FUZZ_SECONDS (60); ends in "N passed, N failed, N skipped".
set -euo pipefail
cd "$(dirname "$0")"
. ./paths.sh
cd ..
reports=build/reports/remote
rm -rf "$reports"
mkdir -p "$reports"
export REMOTE_SUITE=whole LARDER_LIBRARY=$PWD/build/dev/lib/liblarder.so \
  LARDER_TEST_BIN=$PWD/build/dev/bin

# 1 after a failure without a report of its own.
failed=0
run() {
  local name=$1
  shift
  "build/dev/bin/$name" --gtest_output="xml:$reports/$name.xml" "$@" ||
    echo "$name ended with status $?"
}

started=$SECONDS
for test in build/dev/bin/remote_*test; do run "$(basename "$test")"; done
for test in net_test peer_test peers_test shared_backend_test shared_modes_test \
  backend_check_test; do
  run $test
done
run tier_test --gtest_filter="*peer*:*redis*:*valkey*"
PYTHONPATH=$PWD/shim/python "$venv/bin/python" -m pytest tests/python/engine/test_shared.py \
  -p no:cacheprovider --timeout 600 -v \
  --junitxml "$reports/pytest.xml" || echo "pytest ended with status $?"
tests/fuzz/run.sh build/fuzz "${FUZZ_SECONDS:-60}" resp peer || failed=1
echo "the remote tests took $((SECONDS - started)) s"
/usr/bin/python3 .ci/summary.py "$reports"/*.xml || failed=1
exit $failed
