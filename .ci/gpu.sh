#!/bin/bash
# gpu.sh carry BUILD [FOLDER] | pack [FOLDER] | test [FOLDER] | bench [FOLDER]: tests and benchmarks
# with a GPU, on a machine that may have no network and no compiler.
#
#   carry: copies everything for `test` and `bench` from BUILD (build/release) into FOLDER
#   (build/gpu). FOLDER gets programs with the libraries that such a machine may lack, pytest, and a
#   redis-server if there is one here. The sources are read in place: copy this tree and FOLDER to
#   the machine.
#   pack: FOLDER without redis-server, and a vLLM for GPUs of compute capability GPU_VLLM (90), as
#   two archives in FOLDER-packed. For a machine with a small limit on transfers: the archives and
#   this tree have at most 64 MiB. Without FOLDER, `test` and `bench` unpack the archives.
#   test: first asks the driver about behaviour that tests without a GPU only assume
#   (tests/bench/gpu_probe.py). The probe reports and fails no test.
#   test, bench: with the Python of `make deps`, or python3, or LARDER_PYTHON; the Python must have
#   PyTorch. Fetches and builds no file.
#   bench: all parts in GPU_PARTS (by default every part), one after the other. A part that fails,
#   or takes more than GPU_PART_S seconds (600), does not end the others.
set -euo pipefail
cd "$(dirname "$0")"
. ./paths.sh
. ./stage.sh
cd ..
. .ci/image/libraries.sh

# The loader and libc's own libraries, which only go together.
readonly of_libc='/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv|util)\.so[^/]*)$'
# Libraries of these that the driver's library loads. larderd opens the driver's library when
# larderd copies itself; another libc's libraries would not go with this libc.
readonly of_driver='libdl.so.2 libpthread.so.0 librt.so.1'
readonly most_mb=64 # as such a machine is lent
readonly probe_s=180
readonly parts='submit,G1,G2,G3,G4,G5,G6,G8,T,V'

# PROGRAM NAME FOLDER LIBRARIES: a script FOLDER/bin/NAME that runs the program with its own
# libraries (FOLDER/lib/LIBRARIES), on any machine. Libraries missing there are looked up in
# LD_LIBRARY_PATH, such as the driver's library.
carry_program() {
  local library more loader= own=$4
  install -D -m 0755 -s "$(realpath "$1")" "$3/programs/$2"
  for library in $(libraries "$1"); do
    if [[ $library =~ $of_libc ]]; then
      install -D -m 0755 "$(realpath "$library")" "$3/lib/libc/$(basename "$library")"
    else
      install -D -m 0755 "$(realpath "$library")" "$3/lib/$own/$(basename "$library")"
    fi
    case $library in
      */ld-linux*) loader=$(basename "$library") ;;
      */libc.so.6)
        for more in $of_driver; do
          install -D -m 0755 -t "$3/lib/libc" "$(dirname "$library")/$more"
        done
        ;;
    esac
  done
  [ -n "$loader" ] || fail "$1 names no loader (is it linked statically?)"
  mkdir -p "$3/bin"
  cat >"$3/bin/$2" <<SCRIPT
#!/bin/sh
here=\$(dirname "\$(readlink -f "\$0")")/..
exec "\$here/lib/libc/$loader" --library-path "\$here/lib/$own:\$here/lib/libc\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}" --argv0 "$2" "\$here/programs/$2" "\$@"
SCRIPT
  chmod 0755 "$3/bin/$2"
}

carry() {
  local build=$1 to=$2 name
  rm -rf "$to"
  for name in bin/gpu_test bin/gpu_bench bin/larderd lib/liblarder.so lib/libgpu_arms.so; do
    [ -e "$build/$name" ] || fail "$build/$name is not built (make carry-gpu)"
  done
  # These find the driver's library by the loader of the target machine.
  install -D -m 0755 -s -t "$to/bin" "$build/bin/gpu_test" "$build/bin/gpu_bench"
  install -D -m 0755 -s -t "$to/lib" "$build/lib/liblarder.so" "$build/lib/libgpu_arms.so"
  # Loads without verifying where a test says so: tests/python/models.
  if [ -e "$build/lib/liblarder_test.so" ]; then
    install -D -m 0755 -s -t "$to/lib" "$build/lib/liblarder_test.so"
  fi
  carry_program "$build/bin/larderd" larderd "$to" other
  if [ -x "$servers/redis-server" ]; then
    carry_program "$servers/redis-server" redis-server "$to" redis
    mkdir -p "$to/servers"
    ln -s ../bin/redis-server "$to/servers/redis-server"
  fi
  # Both find their remaining libraries there.
  for name in libssl libcrypto libstdc++ libgcc_s; do
    [ -e "$to"/lib/other/$name.so* ] || fail "larderd loads no $name any more, and gpu_bench does"
  done
  carry_pytest "$to/python"
  git rev-parse --short HEAD >"$to/commit"
  [ "$(du -sm "$to" | cut -f1)" -le $most_mb ] ||
    fail "$to has more than $most_mb MB, which is what may be carried"
  echo "$to, $(du -sm "$to" | cut -f1) MB: copy it with this tree to a machine that has a GPU," \
    "and there: make test-gpu bench-gpu"
}

# All packages are pure Python.
carry_pytest() {
  local site package
  mkdir -p "$1"
  site=$(echo "$venv"/lib/python3*/site-packages)
  [ -d "$site" ] || { echo "no pytest is carried: make deps-python" && return 0; }
  for package in _pytest pytest py.py pluggy iniconfig packaging pygments pytest_timeout.py; do
    cp -r "$site/$package" "$1/"
  done
  cp -r "$site"/{pytest,pluggy,iniconfig,packaging,pygments,pytest_timeout}-*.dist-info "$1/"
  find "$1" -name __pycache__ -prune -exec rm -rf {} +
}

# FOLDER.
pack() {
  local to=$1-packed bytes
  [ -e "$1/commit" ] || fail "$1 is not there (make carry-gpu)"
  rm -rf "$to"
  mkdir -p "$to"
  "$venv/bin/python" .ci/gpu_vllm.py .ci/gpu-vllm.lock "$to/vllm.tar.xz" "${GPU_VLLM:-90}"
  tar -C "$1" --exclude '*redis*' --exclude ./servers -c -I 'xz -9e' -f "$to/gpu.tar.xz" .
  bytes=$(($(git archive HEAD | wc -c) + $(cat "$to"/*.xz | wc -c)))
  [ $bytes -le $((most_mb << 20)) ] ||
    fail "$to and this tree have $((bytes >> 20)) MiB, more than $most_mb, which may be carried"
  echo "$to, $(du -sm "$to" | cut -f1) MB: copy it with this tree to a machine that has a GPU and" \
    "PyTorch, and there: make test-gpu bench-gpu"
}

# FOLDER.
unpack() {
  if [ -e "$1/commit" ] || [ ! -e "$1-packed/gpu.tar.xz" ]; then return 0; fi
  mkdir -p "$1/vllm"
  tar -xJf "$1-packed/vllm.tar.xz" -C "$1/vllm"
  tar -xJf "$1-packed/gpu.tar.xz" -C "$1"
}

# Finds Python and the carried files; FOLDER.
prepare() {
  unpack "$1"
  gpu=$(realpath "$1" 2>/dev/null) && [ -e "$gpu/commit" ] ||
    fail "$1 is not there (make carry-gpu, on a machine that can build)"
  python=${LARDER_PYTHON:-$venv/bin/python}
  [ -x "$python" ] || python=$(command -v python3) || fail "no python3 here"
  commit=$(cat "$gpu/commit")
  export LARDERD=$gpu/bin/larderd LARDER_TEST_BIN=$gpu/bin LARDER_LIBRARY=$gpu/lib/liblarder.so \
    LARDER_COMMIT=$commit
  export PYTHONPATH=$PWD/shim/python:$PWD/e2e${PYTHONPATH:+:$PYTHONPATH}
  "$python" -c 'import pytest, pytest_timeout' 2>/dev/null ||
    export PYTHONPATH=$PYTHONPATH:$gpu/python
  if [ ! -e "$servers/redis-server" ] && [ -e "$gpu/servers/redis-server" ]; then
    export LARDER_CACHE=$gpu
  fi
  # For vLLM alone: no other test needs these versions of packages.
  with_vllm=$PYTHONPATH
  "$python" -c 'import vllm' 2>/dev/null || with_vllm=$PYTHONPATH:$gpu/vllm
  if ! "$python" -c 'import torch' 2>/dev/null; then
    echo "no PyTorch in $python: what needs it is not run (LARDER_PYTHON names another one)"
  fi
}

# PROGRAM...: on this machine's libraries, and on the carried libraries for missing ones.
run_here() {
  if ldd "$1" | grep -q 'not found'; then
    LD_LIBRARY_PATH=$gpu/lib/other${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"
  else
    "$@"
  fi
}

# PART...: whether GPU_PARTS names one of the parts.
wanted() {
  local part
  for part in "$@"; do
    case ,${GPU_PARTS:-$parts}, in *",$part,"*) return 0 ;; esac
  done
  return 1
}

check_parts() {
  local part
  for part in ${GPU_PARTS//,/ }; do
    case ,$parts, in *",$part,"*) ;; *) fail "GPU_PARTS: unknown part $part; known: $parts" ;; esac
  done
}

# PART PROGRAM...: ends the program after GPU_PART_S seconds.
within_its_time() {
  local ended=0
  timeout -k 10 "${GPU_PART_S:-600}" "${@:2}" || ended=$?
  if [ $ended = 124 ] || [ $ended = 137 ]; then
    echo "$1: FAILED: not done within ${GPU_PART_S:-600} s (GPU_PART_S)"
  fi
  return $ended
}

bench() {
  local status=0 part
  mkdir -p build/bench
  if wanted submit; then
    run_here "$gpu/bin/gpu_bench" "$commit" build/bench || status=1
    within_its_time submit "$python" tests/bench/gpu_submit_bench.py || status=1
  fi
  for part in $(tr , ' ' <<<"${GPU_PARTS:-$parts}"); do
    [[ $part == G* ]] || continue
    GPU_PARTS=$part within_its_time "$part" "$python" tests/bench/gpu_copy_bench.py || status=1
  done
  # FlashInfer's sampler is not carried.
  if wanted V; then
    PYTHONPATH=$with_vllm VLLM_USE_FLASHINFER_SAMPLER=0 \
      within_its_time V "$python" tests/bench/gpu_vllm_bench.py || status=1
  fi
  if ! wanted T; then
    :
  elif "$python" -c 'import torch' 2>/dev/null; then
    within_its_time T "$python" tests/bench/gpu_ttft_bench.py || status=1
  else
    echo "not measured: T (no PyTorch in $python)"
  fi
  return $status
}

# Tests of tests/python/models with a GPU's settings, side by side, since each starts vLLM.
# BACKEND TEST...: files there, or SETTING for a row of test_models.py.
test_models() {
  local backend=$1 test number log logs=build/bench status=0 running=() llm
  llm='{"block_size": 128, "kv_cache_memory_bytes": 1073741824, "gpu_memory_utilization": 0.05, '
  llm+='"attention_config": {"backend": "'$backend'"}}'
  mkdir -p "$logs"
  for test in "${@:2}"; do
    [[ $test == *.py ]] || test="test_models.py::test_setting[$test]"
    PYTHONPATH=$with_vllm LARDER_MODELS=all LARDER_MODELS_LLM=$llm VLLM_BATCH_INVARIANT=1 \
      VLLM_USE_FLASHINFER_SAMPLER=0 "$python" -m pytest "tests/python/models/$test" \
      -p no:cacheprovider --timeout 300 -v -s --tb=short >"$logs/gpu-$backend-${#running[@]}.log" \
      2>&1 &
    running+=($!)
  done
  for number in "${!running[@]}"; do
    log=$logs/gpu-$backend-$number.log
    wait "${running[$number]}" || { status=1 && grep '^E  ' "$log" || true; }
    grep 'computed at once' "$log" || true # the last line of test_last_token.py
    echo "$backend: $(tail -n 1 "$log") ${*:number+2:1}"
  done
  return $status
}

what=${1-} status=0
case $what in
  carry) carry "$2" "${3:-build/gpu}" ;;
  pack) pack "${2:-build/gpu}" ;;
  test)
    prepare "${2:-build/gpu}"
    timeout -k 10 $probe_s "$python" tests/bench/gpu_probe.py ||
      echo "the driver has not answered all that it was asked"
    run_here "$gpu/bin/gpu_test" || status=1
    LARDER_ENGINE_DEVICE=cuda "$python" -m pytest tests/engine -p no:cacheprovider --timeout 600 \
      -v -rs || status=1
    if PYTHONPATH=$with_vllm "$python" -c 'import vllm' 2>/dev/null; then
      test_models FLASH_ATTN test_last_token.py qwen3 window_33 mixtral || status=1
      VLLM_USE_V2_MODEL_RUNNER=0 test_models TRITON_ATTN llama salt fp8_e4m3 || status=1
    else
      echo "no vLLM in $python, and none was carried: its settings are not run"
    fi
    ;;
  bench)
    GPU_PARTS=${GPU_PARTS-}
    check_parts
    prepare "${2:-build/gpu}"
    bench || status=1
    ;;
  *) fail "gpu.sh carry BUILD [FOLDER] | pack [FOLDER] | test [FOLDER] | bench [FOLDER]" ;;
esac
exit $status
