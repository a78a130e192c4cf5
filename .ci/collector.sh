#!/bin/bash
# collector.sh: an OpenTelemetry collector, built once from Go modules into $collector (paths.sh),
# for `make test-traces`.
#
# Debian has no collector. collector/main.go composes one of the collector's own receiver and
# exporter; go.mod and go.sum beside main.go pin every module. The version is the newest one for the
# Go of linters.sh.
set -euo pipefail
cd "$(dirname "$0")"
. ./paths.sh
. ./stage.sh
. ./go.sh

readonly go_version=1.25.10
readonly go_sha256=d7cd62e56dbc9cad0257dc992af067398d91e372dc1ce21bb4e9f166fbb7b3c6
readonly build=$collector/build

if [ -e "$collector/bin/collector" ]; then exit 0; fi
check_disk "$collector" 3 "the collector"
exec 9>"$collector/lock"
flock -n 9 || stage "waiting for another build of the collector" flock 9
if [ -e "$collector/bin/collector" ]; then exit 0; fi
get_go "$go_version" "$go_sha256" "$build"
mkdir -p "$build/bin"
(cd collector && stage "building the collector" \
  go build -mod=readonly -ldflags "-s -w" -o "$build/bin/collector" .)
mv "$build/bin" "$collector/bin"
rm -rf "$build"  # sources and objects
