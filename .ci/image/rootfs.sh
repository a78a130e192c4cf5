#!/bin/bash
# rootfs.sh BUILD OUT: the content of the container image, in the new folder OUT, from the programs
# in BUILD (build/release).
#
# The programs with their libraries and the libraries' licences, CA certificates, a user without
# rights, and in /payload the Python package with liblarder.so. No shell, no package manager: an
# intruder finds no tools. The Dockerfile and make image both call this script, so that both make
# the same image.
set -euo pipefail
build=$(realpath "$1") out=$2
cd "$(dirname "$0")/../.."
programs=(larderd larderctl)
if [ -e operator/app/CMakeLists.txt ]; then programs+=(larder-operator); fi

. .ci/image/libraries.sh

copy_programs() {
  local program library
  for program in "${programs[@]}"; do
    [ -x "$build/bin/$program" ] || { echo "error: $build/bin/$program is not built" >&2; exit 1; }
    install -D -m 0755 -s "$build/bin/$program" "$out/usr/bin/$program"
    for library in $(libraries "$build/bin/$program"); do
      [ -e "$out$library" ] && continue
      install -D -m 0755 "$(realpath "$library")" "$out$library"
      copy_licence "$library" "$out/usr/share/doc"
    done
  done
}

copy_payload() {
  local package=$out/payload/python/larder file
  for file in $(cd shim/python/larder && find . -name '*.py'); do
    install -D -m 0644 "shim/python/larder/$file" "$package/$file"
  done
  install -m 0755 -s "$build/lib/liblarder.so" "$package/liblarder.so"
  copy_entry_points shim/python/pyproject.toml "$out/payload/python"
}

# The metadata of the package, beside the package. By the metadata vLLM finds the entry point in
# each of its processes, as with the wheel.
copy_entry_points() {
  local version info
  version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$1")
  info=$2/larder-$version.dist-info
  install -d -m 0755 "$info"
  printf 'Metadata-Version: 2.1\nName: larder\nVersion: %s\n' "$version" >"$info/METADATA"
  sed -n '/^\[project\.entry-points\./,/^$/ {
    s/^\[project\.entry-points\."\(.*\)"\]$/[\1]/p
    s/^\([^[].*\) = "\(.*\)"$/\1 = \2/p
  }' "$1" >"$info/entry_points.txt"
  chmod 0644 "$info"/*
}

# The user, the resolution of names, and the authorities that TLS trusts; OpenSSL asks for the
# second path.
copy_settings() {
  install -d -m 0755 "$out/etc" "$out/usr/lib/ssl"
  install -d -m 1777 "$out/tmp"
  printf 'root:x:0:0:root:/:/sbin/nologin\n' >"$out/etc/passwd"
  printf 'larder:x:65532:65532:larder:/tmp:/sbin/nologin\n' >>"$out/etc/passwd"
  printf 'root:x:0:\nlarder:x:65532:\n' >"$out/etc/group"
  printf 'hosts: files dns\n' >"$out/etc/nsswitch.conf"
  install -D -m 0644 /etc/ssl/certs/ca-certificates.crt "$out/etc/ssl/certs/ca-certificates.crt"
  ln -s /etc/ssl/certs/ca-certificates.crt "$out/usr/lib/ssl/cert.pem"
  install -D -m 0644 LICENSE "$out/usr/share/doc/larder/LICENSE"
}

rm -rf "$out"
mkdir -p "$out"
copy_programs
copy_payload
copy_settings
