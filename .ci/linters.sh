#!/bin/bash
# linters.sh: builds linters once from Go modules into $linters/bin (paths.sh), for `make lint`.
# Debian has no package of either.
#
# actionlint reads .github/workflows, dashboard-linter the dashboards. Go's checksum database
# vouches for actionlint and its modules. The zip of dashboard-linter is pinned here by its digest,
# as KServe's is, and its own go.sum pins the rest. The version is the newest one whose modules
# could all be fetched on 2026-11-26; later releases need modules of Grafana itself.
set -euo pipefail
cd "$(dirname "$0")"
. ./paths.sh
. ./stage.sh
. ./go.sh

readonly go_version=1.25.10
readonly go_sha256=d7cd62e56dbc9cad0257dc992af067398d91e372dc1ce21bb4e9f166fbb7b3c6
readonly actionlint_version=v1.7.12
readonly dashboard_version=v0.0.0-20241224134444-1765d94aec4a
readonly dashboard_sha256=31fd1f8f405bf953490b418255c6201d9b3bf987705da8c5dcdab7f1f2dd5c67
readonly build=$linters/build

make_actionlint() {
  stage "building actionlint" env GOBIN="$build/bin" go install -ldflags "-s -w" \
    "github.com/rhysd/actionlint/cmd/actionlint@$actionlint_version"
}

make_dashboard_linter() {
  local module=github.com/grafana/dashboard-linter
  get_module "$module" "$dashboard_version" "$dashboard_sha256" "$build/dashboard-linter.zip"
  python3 -m zipfile -e "$build/dashboard-linter.zip" "$build/unpacked"
  (cd "$build/unpacked/$module@$dashboard_version" &&
    stage "building dashboard-linter" go build -ldflags "-s -w" -o "$build/bin/dashboard-linter" .)
}

if [ -e "$linters/bin" ]; then exit 0; fi
check_disk "$linters" 5 "the linters"
exec 9>"$linters/lock"
flock -n 9 || stage "waiting for another build of the linters" flock 9
if [ -e "$linters/bin" ]; then exit 0; fi
get_go "$go_version" "$go_sha256" "$build"
mkdir -p "$build/bin"
make_actionlint
make_dashboard_linter
mv "$build/bin" "$linters/bin"
rm -rf "$build"  # sources and objects
