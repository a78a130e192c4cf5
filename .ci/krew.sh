#!/bin/bash
# krew.sh BUILD OUT: `kubectl larder` of the programs in BUILD (build/release) for Krew, in the folder OUT: an archive, and larder.yaml
# (manifests/krew) with its checksum. KREW_URI: where the archive will be had. The same programs give the same bytes.
#
# The archive has the libraries that the program loads, libc and the loader among them, so that it runs on a Linux of another age; and
# no links, which Krew refuses.
set -euo pipefail
build=$(realpath "$1") out=$2
cd "$(dirname "$0")/.."
. .ci/image/libraries.sh
version=$(sed -n 's/^project(larder VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) echo "error: no Krew platform for $(uname -m)" >&2; exit 1 ;; esac
name=kubectl-larder-$version-linux-$arch.tar.gz
uri=${KREW_URI:-https://larder.example/$name}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

program=$build/bin/kubectl-larder
[ -x "$program" ] || { echo "error: $program is not built (make release)" >&2; exit 1; }
install -D -m 0755 -s "$program" "$root/lib/kubectl-larder"
loader=
for library in $(libraries "$program"); do
  install -m 0755 "$(realpath "$library")" "$root/lib/$(basename "$library")"
  copy_licence "$library" "$root/licenses"
  case $library in */ld-linux*) loader=$(basename "$library") ;; esac
done
[ -n "$loader" ] || { echo "error: $program names no loader (is it linked statically?)" >&2; exit 1; }
install -D -m 0644 LICENSE "$root/licenses/larder/LICENSE"
# Krew links to this file; kubectl and what it calls get none of these libraries.
cat >"$root/kubectl-larder" <<SCRIPT
#!/bin/sh
lib=\$(dirname "\$(readlink -f "\$0")")/lib
exec "\$lib/$loader" --library-path "\$lib" "\$lib/kubectl-larder" "\$@"
SCRIPT
chmod 0755 "$root/kubectl-larder"

mkdir -p "$out"
(cd "$root" && find . -type f -printf '%P\n' | LC_ALL=C sort |
  tar --create --no-recursion --files-from=- --mtime=@0 --owner=0 --group=0 --numeric-owner --format=ustar) | gzip -9n >"$out/$name"
sum=$(sha256sum "$out/$name" | cut -d' ' -f1)
sed -e "/^#/d; s|^  version: .*|  version: v$version|; s|^        arch: .*|        arch: $arch|" \
  -e "s|^    uri: .*|    uri: $uri|; s|^    sha256: .*|    sha256: \"$sum\"|" manifests/krew/larder.yaml >"$out/larder.yaml"
echo "$out/$name and $out/larder.yaml; to install them: kubectl krew install --manifest=$out/larder.yaml --archive=$out/$name"
