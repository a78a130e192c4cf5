#!/bin/bash
# kubernetes.sh helm|apiserver|cluster: a real Kubernetes for the tests, built once from Go modules
# into $kubernetes/bin (paths.sh).
#
# helm: Helm alone, for `make dist`. apiserver: kube-apiserver, etcd, kubectl, helm. cluster: all
# programs of a node too. Existing programs are not made again: a program appears in bin only when
# complete, so an interrupted run continues. go.mod and go.sum beside this script pin every module
# of Kubernetes. The staging modules of Kubernetes have no releases of the same number, hence the
# replace lines. KServe stands for itself: kserve.sh.
set -euo pipefail
cd "$(dirname "$0")"
. ./paths.sh
. ./stage.sh
. ./go.sh

readonly go_version=1.24.13 \
  go_sha256=d2b048367a3d1a748b87f756fa06df12ce3b419e1d5f2a3612acb8950d615f9f
readonly helm_version=v3.19.5 coredns_version=v1.12.4 kubernetes_version=v1.34.4
readonly build=$kubernetes/build \
  pins="$go_version $kubernetes_version $helm_version $coredns_version"

# PROGRAM of Kubernetes. Charts and clients ask for the version, which only a release build stamps.
build_kubernetes() {
  local flags="-s -w" package
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags+=" -X $package.gitVersion=$kubernetes_version -X $package.gitMajor=1"
    flags+=" -X $package.gitMinor=34 -X $package.gitTreeState=clean"
  done
  (cd kubernetes && go build -ldflags "$flags" -o "$kubernetes/bin/$1.new" \
    "k8s.io/kubernetes/cmd/$1")
}

# Helm asks itself, not the cluster, which Kubernetes a chart is rendered for.
build_helm() {
  local flags="-X helm.sh/helm/v3/internal/version.version=$helm_version" package
  for package in pkg/chartutil pkg/lint/rules; do
    flags+=" -X helm.sh/helm/v3/$package.k8sVersionMajor=1"
    flags+=" -X helm.sh/helm/v3/$package.k8sVersionMinor=34"
  done
  build_module helm "$flags" "helm.sh/helm/v3/cmd/helm@$helm_version"
}

# PROGRAM, FLAGS, PACKAGE@VERSION of a module that stands for itself.
build_module() {
  GOBIN=$build/gobin go install -ldflags "-s -w $2" "$3"
  mv "$build/gobin/$1" "$kubernetes/bin/$1.new"
}

make_program() {
  local name=$1
  shift
  if [ -e "$kubernetes/bin/$name" ]; then return 0; fi
  get_go "$go_version" "$go_sha256" "$build"
  stage "building $name" "$@"
  mv "$kubernetes/bin/$name.new" "$kubernetes/bin/$name"
}

# PROGRAM, then the PACKAGES of the program. Debian's etcd, containerd, runc and CNI plugins are
# unpacked, not installed, so that no service of these packages starts here.
get_packages() {
  local folder package program=$1
  if [ -e "$kubernetes/bin/$program" ]; then return 0; fi
  shift
  folder=$(mktemp -d)
  chmod 755 "$folder"
  for package in "$@"; do
    (cd "$folder" && stage "$package" apt-get download "$package")
    dpkg-deb -x "$folder/$package"_*.deb "$folder/root"
  done
  mkdir -p "$kubernetes/cni"
  find "$folder/root" -path '*/lib/cni/*' -type f -exec mv -t "$kubernetes/cni" {} +
  find "$folder/root" -path '*bin/*' -type f ! -name "$program" -exec mv -t "$kubernetes/bin" {} +
  # last: this program tells that the others are there
  mv "$folder/root/usr/bin/$program" "$kubernetes/bin/$program"
  rm -rf "$folder"
}

make_helm() {
  make_program helm build_helm
}

make_apiserver() {
  make_program kube-apiserver build_kubernetes kube-apiserver
  get_packages etcd etcd-server
  make_helm
  make_program kubectl build_kubernetes kubectl
}

make_cluster() {
  local program
  make_apiserver
  for program in kubelet kube-controller-manager kube-scheduler kube-proxy; do
    make_program $program build_kubernetes $program
  done
  make_program coredns build_module coredns "" "github.com/coredns/coredns@$coredns_version"
  get_packages containerd containerd runc containernetworking-plugins
}

case ${1:-} in
  helm | apiserver | cluster) ;;
  *) fail "usage: kubernetes.sh helm|apiserver|cluster" ;;
esac
if [ "$(cat "$kubernetes/.complete" 2>/dev/null)" = "$pins" ]; then exit 0; fi
check_disk "$kubernetes" 8 Kubernetes
mkdir -p "$kubernetes/bin"
exec 9>"$kubernetes/lock"
flock -n 9 || stage "waiting for another build of Kubernetes" flock 9
if [ "$(cat "$kubernetes/pins" 2>/dev/null)" != "$pins" ]; then
  rm -rf "$kubernetes/bin" "$kubernetes/.complete" && mkdir -p "$kubernetes/bin"
fi
echo "$pins" >"$kubernetes/pins"
"make_$1"
if [ "$1" = cluster ]; then
  echo "$pins" >"$kubernetes/.complete"
  rm -rf "$build"  # 5 GB of sources and objects
fi
