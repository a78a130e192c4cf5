#!/bin/bash
# build.sh BUILD OUT.tar [NAME:TAG]: the container image of the programs in BUILD, without Docker.
# The same programs give the same bytes. The default name is the chart's default, so that a node
# with this image needs no values. $LARDER_COMMIT, if set, is the label `revision` of the image.
set -euo pipefail
build=$(realpath "$1") out=$(realpath -m "$2")
cd "$(dirname "$0")/../.."
. .ci/stage.sh
. .ci/version.sh
rootfs=$(mktemp -d)
trap 'rm -rf "$rootfs"' EXIT
chmod 755 "$rootfs"
.ci/image/rootfs.sh "$build" "$rootfs/root"
mkdir -p "$(dirname "$out")"
label=org.opencontainers.image
labels="\"$label.title\": \"larder\", \"$label.version\": \"$version\""
labels+=", \"$label.licenses\": \"Apache-2.0\""
if [ -n "${LARDER_COMMIT:-}" ]; then labels+=", \"$label.revision\": \"$LARDER_COMMIT\""; fi
/usr/bin/python3 .ci/image/archive.py "${3:-localhost/larder:$version}" "$rootfs/root" "$out" \
  --config "{\"User\": \"65532:65532\", \"Labels\": {$labels}}"
payload=$(du -sb "$rootfs/root/payload" | cut -f1)
echo "  of it the payload for engines: $((payload / 100000 / 10)).$((payload / 100000 % 10)) MB"
