# Sourced: get_go, a Go of a pinned version. Debian 12's is too old. Go itself is a module as well,
# pinned by the digest of the module's zip. REQUIRES: stage.sh.

# The first proxy of GOPROXY, for the files that are fetched before there is a Go.
module_proxy() {
  local proxies=${GOPROXY:-https://proxy.golang.org}
  echo "${proxies%%[,|]*}"
}

# MODULE VERSION SHA256 FILE: the zip of a module, from the proxy; a zip with another digest is
# refused.
get_module() {
  stage "$1 $2" curl -fsSL --retry 3 -o "$4" "$(module_proxy)/$1/@v/$2.zip"
  echo "$3  $4" | sha256sum --check --quiet || fail "$4 is not the $1 $2 that is pinned here"
}

# VERSION SHA256 FOLDER: Go in FOLDER/go, modules and objects in FOLDER too; on the PATH of this
# script from now on.
get_go() {
  local name=golang.org/toolchain release=v0.0.1-go$1.linux-amd64 into=$3 unpacked
  unpacked=$into/unpacked/$name@$release
  if [ ! -e "$into/go/bin/go" ]; then
    [ "$(uname -m)" = x86_64 ] || fail "the tests' Kubernetes is pinned for x86-64 only"
    mkdir -p "$into"
    get_module "$name" "$release" "$2" "$into/go.zip"
    rm -rf "${unpacked:?}"
    python3 -m zipfile -e "$into/go.zip" "$into/unpacked"
    chmod +x "$unpacked"/bin/* "$unpacked"/pkg/tool/*/*
    mv "$unpacked" "$into/go"
    rm -rf "$into/go.zip"
  fi
  export GOROOT=$into/go GOPATH=$into/path GOCACHE=$into/cache GOTOOLCHAIN=local \
    GOFLAGS="-modcacherw -trimpath" CGO_ENABLED=0 GOBIN=
  export PATH=$GOROOT/bin:$PATH
}

# FOLDER GIGABYTES WHAT
check_disk() {
  local have
  mkdir -p "$1"
  have=$(df --output=avail -B1 "$1" | tail -1)
  [ "$have" -ge $(($2 * 1000000000)) ] ||
    fail "too little disk: building $3 needs $2 GB in $1, $((have / 1000000000)) GB are free"
}
