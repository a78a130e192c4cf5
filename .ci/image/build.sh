#!/bin/bash
# build.sh BUILD OUT.tar [NAME:TAG]: the container image of the programs in BUILD, without Docker. The same programs give the same bytes.
# Its name is the chart's default, so that a node that has loaded it needs no values.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^project(larder VERSION \([0-9.]*\).*/\1/p' "$here/../../CMakeLists.txt")
rootfs=$(mktemp -d)
trap 'rm -rf "$rootfs"' EXIT
chmod 755 "$rootfs"
"$here/rootfs.sh" "$1" "$rootfs/root"
mkdir -p "$(dirname "$2")"
/usr/bin/python3 "$here/archive.py" "${3:-localhost/larder:$version}" "$rootfs/root" "$2" --config "{\"User\": \"65532:65532\", \"Labels\": {
  \"org.opencontainers.image.title\": \"larder\", \"org.opencontainers.image.version\": \"$version\",
  \"org.opencontainers.image.licenses\": \"Apache-2.0\"}}"
payload=$(du -sb "$rootfs/root/payload" | cut -f1)
echo "  of it the payload for engines: $((payload / 100000 / 10)).$((payload / 100000 % 10)) MB"
