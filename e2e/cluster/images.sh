# Sourced: the images of the cluster, as archives in $images; those that never change are made once. No registry is asked.
# REQUIRES: $root the checkout, $kubernetes, $servers, $images.

# NAME ROOTFS: $images/NAME.tar, localhost/NAME:e2e.
archive() {
  /usr/bin/python3 "$root/.ci/image/archive.py" "localhost/$1:e2e" "$2" "$images/$1.tar"
}

make_pause() {
  mkdir -p "$images/pause"
  gcc -Os -static -s -o "$images/pause/pause" "$root/e2e/cluster/pause.c"
  /usr/bin/python3 "$root/.ci/image/archive.py" localhost/pause:e2e "$images/pause" "$images/pause.tar" --config '{"Entrypoint": ["/pause"]}'
}

make_coredns() {
  install -D "$kubernetes/bin/coredns" "$images/coredns/usr/bin/coredns"
  archive coredns "$images/coredns"
}

# A small Debian: bash, Python and its libraries for vLLM (its environment comes from the host), a Redis, a Valkey. What vLLM and
# Redis publish for users is not to be had without their registries.
make_debian() {
  local tree=$images/debian
  rm -rf "$tree"
  debootstrap --variant=minbase --include=python3,libnuma1,curl,ca-certificates,procps,redis-tools bookworm "$tree"
  rm -rf "$tree"/var/cache/apt/* "$tree"/var/lib/apt/lists/* "$tree"/usr/share/{doc,man,locale,i18n} "$tree"/dev/* "$tree"/var/log/*
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

# The product's own, from what is built now.
make_larder_image() {
  "$root/.ci/image/build.sh" "$root/build/release" "$images/larder.tar" localhost/larder:e2e
}
