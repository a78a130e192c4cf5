#!/bin/bash
# wheel.sh BUILD OUT: the Python package with the liblarder.so of BUILD (build/release) inside, as a
# wheel in the new folder OUT. The same sources and the same library give the same bytes. REQUIRES:
# .ci/deps.sh wheel.
set -euo pipefail
build=$(realpath "$1") out=$(realpath -m "$2")
cd "$(dirname "$0")"
. ./paths.sh
cd ..
. .ci/stage.sh
. .ci/version.sh
library=$build/lib/liblarder.so
[ -e "$library" ] || fail "$library is not built (make release)"
source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
rm -rf "$out"
mkdir -p "$out"

cp -r shim/python/. "$source"
# Python writes 0.2.0-dev.g1234abcd as 0.2.0.dev0+g1234abcd.
sed -i "s/^version = .*/version = \"${version/-dev./.dev0+}\"/" "$source/pyproject.toml"
umask 022
chmod -R u=rwX,go=rX "$source"
# A zip archive has no time before 1980.
LARDER_LIBRARY=$library SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-315532800} \
  "$wheel/bin/python" -m pip wheel -q --no-deps --no-build-isolation --no-index -w "$out" "$source"
ls "$out"/larder-*.whl
