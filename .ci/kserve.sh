#!/bin/bash
# kserve.sh: KServe's own controllers, built once from KServe's Go module into $kserve (paths.sh),
# for the tests.
#
# bin/kserve-manager and bin/kserve-llmisvc; config/, KServe's published definitions, webhooks,
# runtimes and templates; crds/, the definitions of other projects that the controllers watch.
# KServe's module has replace lines, which `go install` refuses. The build therefore runs inside a
# copy of the module, whose own go.sum pins the dependencies. Existing files are not made again.
#
# kserve.sh huggingface FOLDER: only the project of KServe's Hugging Face server, as FOLDER.
set -euo pipefail
cd "$(dirname "$0")"
. ./paths.sh
. ./stage.sh
. ./go.sh

readonly go_version=1.25.10 \
  go_sha256=d7cd62e56dbc9cad0257dc992af067398d91e372dc1ce21bb4e9f166fbb7b3c6
readonly version=v0.20.0 sha256=69ad75e6658dac96a293a44c1334c854bd282c02952b80bf2392058d0887066d
readonly build=$kserve/build pins="$go_version $version"
readonly source=$build/unpacked/github.com/kserve/kserve@$version

get_source() {
  if [ -e "$source/go.mod" ]; then return 0; fi
  get_module github.com/kserve/kserve "$version" "$sha256" "$build/kserve.zip"
  python3 -m zipfile -e "$build/kserve.zip" "$build/unpacked"
}

# PROGRAM, FOLDER of its main package.
make_program() {
  if [ -e "$kserve/bin/$1" ]; then return 0; fi
  (cd "$source" && stage "building $1" go build -ldflags "-s -w" -o "$kserve/bin/$1.new" "./cmd/$2")
  mv "$kserve/bin/$1.new" "$kserve/bin/$1"
}

# MODULE PATH...: of the versions that KServe's go.mod names.
copy_definitions() {
  local module=$1 folder path
  shift
  folder=$(cd "$source" && go list -m -f '{{.Dir}}' "$module")
  for path in "$@"; do cp "$folder"/$path "$kserve/crds/"; done
}

copy_configuration() {
  rm -rf "$kserve/config" "$kserve/crds"
  mkdir -p "$kserve/crds"
  cp -r "$source/config" "$kserve/config"
  copy_definitions sigs.k8s.io/gateway-api \
    "config/crd/standard/gateway.networking.k8s.io_gateways.yaml" \
    "config/crd/standard/gateway.networking.k8s.io_gatewayclasses.yaml" \
    "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"
  copy_definitions sigs.k8s.io/gateway-api-inference-extension \
    "config/crd/bases/*inferencepools.yaml" \
    "config/crd/bases/*inferenceobjectives.yaml" "config/crd/bases/*inferencemodelrewrites.yaml"
  copy_definitions sigs.k8s.io/lws "config/crd/bases/*.yaml"
}

# FOLDER: the project of KServe's Hugging Face server.
copy_server() {
  local folder
  folder=$(mktemp -d)
  get_module github.com/kserve/kserve "$version" "$sha256" "$folder/kserve.zip"
  python3 -m zipfile -e "$folder/kserve.zip" "$folder"
  mv "$folder/github.com/kserve/kserve@$version/python/huggingfaceserver" "$1"
  rm -rf "$folder"
}

if [ "${1-}" = huggingface ]; then
  copy_server "$2"
  exit
fi
if [ "$(cat "$kserve/.complete" 2>/dev/null)" = "$pins" ]; then exit 0; fi
check_disk "$kserve" 6 KServe
exec 9>"$kserve/lock"
flock -n 9 || stage "waiting for another build of KServe" flock 9
if [ "$(cat "$kserve/pins" 2>/dev/null)" != "$pins" ]; then
  rm -rf "$kserve/bin" "$build" "$kserve/.complete"
fi
mkdir -p "$kserve/bin" "$build"
echo "$pins" >"$kserve/pins"
get_go "$go_version" "$go_sha256" "$build"
get_source
make_program kserve-manager manager
make_program kserve-llmisvc llmisvc
copy_configuration
echo "$pins" >"$kserve/.complete"
rm -rf "$build"  # sources and objects
