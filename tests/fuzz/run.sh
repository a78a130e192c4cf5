#!/bin/bash
# run.sh BUILD SECONDS [TARGET...]: fuzzes each target for SECONDS, starting from its corpus, as
# many at once as there are processors. Findings lie in BUILD/findings, new inputs in BUILD/corpus.
# Ends with 1 after a finding. run.sh --merge BUILD [TARGET...]: takes the inputs with new coverage
# from BUILD/corpus into tests/fuzz/corpora.
set -uo pipefail
cd "$(dirname "$0")/../.."
merge=0
[ "$1" = --merge ] && { merge=1; shift; }
export build=$1 seconds=0 corpora=$PWD/tests/fuzz/corpora
shift
[ $merge = 1 ] || { seconds=$1; shift; }
targets=${*:-$(ls "$corpora")}
mkdir -p "$build/findings"

if [ $merge = 1 ]; then
  for target in $targets; do
    mkdir -p "$build/corpus/$target"
    "$build/bin/${target}_fuzz" -merge=1 -max_len=1024 "$corpora/$target" \
      "$build/corpus/$target" 2>&1 | grep 'new files'
  done
  exit
fi

fuzz_one() {
  local target=$1 log=$build/$1.log
  mkdir -p "$build/corpus/$target"
  "$build/bin/${target}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -max_len=4096 -print_final_stats=1 \
    -artifact_prefix="$build/findings/$target-" "$build/corpus/$target" \
    "$corpora/$target" >"$log" 2>&1
  local status=$?
  local runs cover
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  cover=$(grep -o ' cov: [0-9]*' "$log" | tail -1)
  if [ $status = 0 ]; then
    echo "$target: ${runs:-0} inputs in $seconds s,${cover}, nothing found"
  else
    echo "$target: FOUND something:"
    grep -E '^broken:|ERROR:|runtime error|SUMMARY|Test unit written' "$log"
  fi
  return $status
}
export -f fuzz_one
printf '%s\n' $targets | xargs -P "$(nproc)" -I TARGET bash -c 'fuzz_one TARGET'
