#!/bin/bash
# krew.sh BUILD OUT: `kubectl larder` of the programs in BUILD (build/release) for Krew. The folder
# OUT gets an archive, and larder.yaml (manifests/krew) with the archive's checksum. KREW_URI: the
# address of the archive; an address with / at the end is the folder of the archive. The same
# programs give the same bytes.
#
# The archive has the libraries of the program, libc and the loader among them, so that the program
# runs on a Linux of another age. The archive has no links, which Krew refuses.
set -euo pipefail
build=$(realpath "$1") out=$2
cd "$(dirname "$0")/.."
. .ci/stage.sh
. .ci/image/libraries.sh
. .ci/version.sh
. .ci/pack.sh
name=kubectl-larder-$version-linux-$arch.tar.gz
uri=${KREW_URI:-https://larder.example/}
case $uri in */) uri+=$name ;; esac
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

program=$build/bin/kubectl-larder
[ -x "$program" ] || fail "$program is not built (make release)"
install -D -m 0755 -s "$program" "$root/lib/kubectl-larder"
loader=
for library in $(libraries "$program"); do
  install -m 0755 "$(realpath "$library")" "$root/lib/$(basename "$library")"
  copy_licence "$library" "$root/licenses"
  case $library in */ld-linux*) loader=$(basename "$library") ;; esac
done
[ -n "$loader" ] || fail "$program names no loader (is it linked statically?)"
install -D -m 0644 LICENSE "$root/licenses/larder/LICENSE"
# Krew links to this file. kubectl, and programs that kubectl calls, get no library of the archive.
cat >"$root/kubectl-larder" <<SCRIPT
#!/bin/sh
lib=\$(dirname "\$(readlink -f "\$0")")/lib
exec "\$lib/$loader" --library-path "\$lib" "\$lib/kubectl-larder" "\$@"
SCRIPT
chmod 0755 "$root/kubectl-larder"

mkdir -p "$out"
pack "$root" "$out/$name"
sum=$(sha256sum "$out/$name" | cut -d' ' -f1)
sed -e "/^#/d; s|^  version: .*|  version: v$version|; s|^        arch: .*|        arch: $arch|" \
  -e "s|^    uri: .*|    uri: $uri|; s|^    sha256: .*|    sha256: \"$sum\"|" \
  manifests/krew/larder.yaml >"$out/larder.yaml"
echo "$out/$name and $out/larder.yaml; to install them:" \
  "kubectl krew install --manifest=$out/larder.yaml --archive=$out/$name"
