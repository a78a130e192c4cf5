#!/bin/bash
# test-crash.sh: the whole crash suite over build/dev, tests/crash/README.md; ends in "N passed, N
# failed, N skipped".
set -euo pipefail
cd "$(dirname "$0")"
. ./paths.sh
cd ..
reports=build/reports/crash
rm -rf "$reports"
mkdir -p "$reports"
export CRASH_SUITE=whole LARDER_LIBRARY=$PWD/build/dev/lib/liblarder.so \
  LARDER_TEST_BIN=$PWD/build/dev/bin

started=$SECONDS
for test in crash_kill crash_life crash_bytes crash_restart crash_word crash_nth disk_kill \
  power_loss; do
  "build/dev/bin/${test}_test" --gtest_output="xml:$reports/$test.xml" ||
    echo "${test}_test ended with status $?"
done
ctest --test-dir build/dev -R "^Corruption" -V --timeout 600 \
  --output-junit "$PWD/$reports/corruption.xml" || echo "corruption ended with status $?"
# Deaths under a running vLLM. -s: the figures are shown.
PYTHONPATH=$PWD/shim/python "$venv/bin/python" -m pytest tests/python/engine/test_serving.py \
  -p no:cacheprovider --timeout 1800 -v -s \
  -k "larderd_killed or larderd_stopped or corrupted" --junitxml "$reports/pytest.xml" ||
  echo "pytest ended with status $?"
echo "the crash suite took $((SECONDS - started)) s"
exec /usr/bin/python3 .ci/summary.py "$reports"/*.xml
