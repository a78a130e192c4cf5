# Sourced: the images of the cluster, as archives in $images; images that never change are made
# once. No registry is asked. REQUIRES: $root the checkout, $product its build tree, $kubernetes,
# $servers, $huggingface, $mooncake, $images.

# NAME ROOTFS [--config JSON]: $images/NAME.tar, localhost/NAME:e2e.
archive() {
  /usr/bin/python3 "$root/.ci/image/archive.py" "localhost/$1:e2e" "$2" "$images/$1.tar" "${@:3}"
}

make_pause() {
  mkdir -p "$images/pause"
  gcc -Os -static -s -o "$images/pause/pause" "$root/e2e/cluster/pause.c"
  archive pause "$images/pause" --config '{"Entrypoint": ["/pause"]}'
}

make_coredns() {
  install -D "$kubernetes/bin/coredns" "$images/coredns/usr/bin/coredns"
  archive coredns "$images/coredns"
}

# A small Debian: bash, Python and its libraries for vLLM (the Python environment comes from the
# host), a Redis, a Valkey. The published images of vLLM and Redis need their registries.
make_debian() {
  local tree=$images/debian
  rm -rf "$tree"
  debootstrap --variant=minbase --include=python3,libnuma1,curl,ca-certificates,procps,redis-tools \
    bookworm "$tree"
  rm -rf "$tree"/var/cache/apt/* "$tree"/var/lib/apt/lists/* \
    "$tree"/usr/share/{doc,man,locale,i18n} "$tree"/dev/* "$tree"/var/log/*
  ln -s redis-check-rdb "$tree/usr/bin/redis-server"
  install "$servers/valkey-server" "$tree/usr/bin/valkey-server"
  ln -s redis-cli "$tree/usr/bin/valkey-cli"
  archive debian "$tree"
  rm -rf "$tree"
}

make_images() {
  local name
  mkdir -p "$images"
  for name in pause coredns debian; do
    if [ ! -e "$images/$name.tar" ]; then stage "image $name" "make_$name"; fi
  done
}

# FOLDER: the files of localhost/debian:e2e, for an image with more files. manifest.json of the
# archive names the archive's one layer.
unpack_debian() {
  local layer
  layer=$(tar -xOf "$images/debian.tar" manifest.json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["Layers"][0])')
  rm -rf "$1"
  mkdir -p "$1"
  tar -xOf "$images/debian.tar" "$layer" | tar -x -C "$1"
}

# The product's own, of the current build.
make_larder_image() {
  "$root/.ci/image/build.sh" "$product" "$images/larder.tar" localhost/larder:e2e
}

# Mooncake's plug-in, with the folders, user and variables of plugins/mooncake/Dockerfile; the wheel
# has a master, too. REQUIRES: .ci/deps.sh plugins.
make_larder-mooncake_image() {
  local tree=$images/larder-mooncake libraries=/usr/lib/x86_64-linux-gnu
  unpack_debian "$tree"
  mkdir -p "$tree/opt/larder"
  cp -r "$root"/plugins/{larder_plugin,mooncake/larder_mooncake} \
    "$mooncake"/lib/python3*/site-packages/mooncake* "$tree/opt/larder"
  cp -P "$libraries"/lib{ibverbs,nl-3,nl-route-3}.so.* "$tree$libraries"
  archive larder-mooncake "$tree" --config "{
    \"User\": \"65532:65532\", \"Entrypoint\": [\"python3\", \"-m\", \"larder_mooncake\"],
    \"Env\": [\"PATH=/usr/local/bin:/usr/bin:/bin\", \"PYTHONPATH=/opt/larder\",
              \"PYTHONUNBUFFERED=1\"]}"
  rm -rf "$tree"
}

# vLLM by its image alone, started like vllm/vllm-openai: args of a pod are flags of `vllm serve`.
# vLLM itself comes from the host.
make_vllm-openai_image() {
  local tree=$images/vllm-openai
  unpack_debian "$tree"
  archive vllm-openai "$tree" --config "{\"Entrypoint\": [\"$venv/bin/vllm\", \"serve\"]}"
  rm -rf "$tree"
}

# A container beside vLLM with vLLM's name in its image, but without vLLM: the program of pause.
make_vllm-tools_image() {
  archive vllm-tools "$images/pause" --config '{"Entrypoint": ["/pause"]}'
}

# KServe's Hugging Face server with the project, user, folders, variables and entrypoint of KServe's
# own image for GPUs. The Python packages stay on the host, as for vLLM. REQUIRES: .ci/deps.sh
# kserve.
make_huggingfaceserver_image() {
  local tree=$images/huggingfaceserver workspace=/kserve-workspace path
  path=$huggingface/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  unpack_debian "$tree"
  mkdir -p "$tree$workspace"
  cp -r "$huggingface/server" "$tree$workspace/huggingfaceserver"
  # PyTorch asks for the name of the user.
  echo "kserve:x:1000:1000::/home/kserve:/bin/bash" >>"$tree/etc/passwd"
  archive huggingfaceserver "$tree" --config "{
    \"User\": \"1000\", \"WorkingDir\": \"$workspace\",
    \"Entrypoint\": [\"python3\", \"-m\", \"huggingfaceserver\"],
    \"Env\": [\"PATH=$path\", \"HF_HOME=/tmp/huggingface\",
              \"PYTHONPATH=$workspace/huggingfaceserver\", \"VLLM_WORKER_MULTIPROC_METHOD=spawn\"]}"
  rm -rf "$tree"
}

# The product with an older shim for engines: of the last commit before the current version of the
# protocol. REQUIRES: git's history.
make_older_image() {
  local tree=$images/older commit
  commit=$(git -C "$root" log -1 --format=%H -- shim/protocol/version.h)^
  rm -rf "$tree"
  mkdir -p "$tree/source"
  git -C "$root" archive "$commit" | tar -x -C "$tree/source"
  cmake -S "$tree/source" -B "$tree/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DLARDER_BUILD_TESTS=OFF >/dev/null
  cmake --build "$tree/build" --target larder_shared >/dev/null
  "$root/.ci/image/rootfs.sh" "$product" "$tree/root"
  rm -r "$tree/root/payload/python/larder"
  cp -r "$tree/source/shim/python/larder" "$tree/root/payload/python/larder"
  install -m 0755 -s "$tree/build/lib/liblarder.so" "$tree/root/payload/python/larder/liblarder.so"
  archive older "$tree/root"
  rm -rf "$tree"
}
