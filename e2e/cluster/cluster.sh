#!/bin/bash
# cluster.sh up | down | load [IMAGE] | restart PROGRAM | node up | node down: a Kubernetes of this
# one machine, as root; e2e/README.md lists its parts.
#
# up: all programs, images and DNS; $state/admin.kubeconfig is the administrator's. A running
# program stays. down: ends all programs and removes the state, also of a cluster that stopped half
# way. load: the current build of the product's image, or another image of images.sh,
# localhost/IMAGE:e2e: older, vllm-openai, vllm-tools, huggingfaceserver. restart: one program of
# the cluster. node: a second node (node.sh). REQUIRES: .ci/kubernetes.sh cluster has run; for
# larder's image, make release.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cd "$root/.ci"
. ./paths.sh
. ./stage.sh
state=${LARDER_E2E:-$cache/e2e}
images=$cache/e2e-images pki=$state/pki node=larder-e2e \
  product=${LARDER_E2E_BUILD:-$root/build/release}
device=$(ip -4 route show default | awk '{print $5; exit}')
address=$(ip -4 -o address show ${device:+dev "$device"} scope global |
  awk '{split($4, a, "/"); print a[1]; exit}')
readonly here root images pki product device huge_pages=${LARDER_E2E_HUGE_PAGES:-64}
. "$root/tests/component/kube/pki.sh"
. "$here/settings.sh"
. "$here/images.sh"
. "$here/node.sh"
export PATH=$kubernetes/bin:$PATH KUBECONFIG=$state/admin.kubeconfig

running() {
  [ -e "$state/$1.pid" ] && kill -0 "$(cat "$state/$1.pid")" 2>/dev/null
}

# NAME COMMAND...: once, on this node's machine, in a session that outlives this script.
start() {
  local name=$1
  shift
  if running "$name"; then return 0; fi
  setsid nohup "${inside[@]}" "$@" >>"$state/$name.log" 2>&1 </dev/null 9>&- &
  echo $! >"$state/$name.pid"
}

# NAME COMMAND...: until the command succeeds.
wait_for() {
  local name=$1 deadline=$((SECONDS + 120))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] || {
      tail -n 20 "$state/$name.log" >&2
      fail "$name: '$*' did not succeed in 120 s; $state/$name.log"
    }
    sleep 0.1
  done
}

start_etcd() {
  start etcd etcd --data-dir "$state/etcd" --name e2e --listen-client-urls "$etcd_url" \
    --advertise-client-urls "$etcd_url" \
    --listen-peer-urls "$etcd_peer_url" --initial-advertise-peer-urls "$etcd_peer_url" \
    --initial-cluster "e2e=$etcd_peer_url"
  wait_for etcd curl -sf "$etcd_url/health"
}

start_apiserver() {
  start apiserver kube-apiserver --etcd-servers="$etcd_url" --secure-port=6443 \
    --bind-address=0.0.0.0 --advertise-address="$address" \
    --allow-privileged=true --authorization-mode=Node,RBAC \
    --enable-admission-plugins=NodeRestriction \
    --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
    --client-ca-file="$pki/ca.crt" \
    --service-cluster-ip-range=$service_range \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --service-account-key-file="$pki/sa.key" --service-account-signing-key-file="$pki/sa.key" \
    --kubelet-certificate-authority="$pki/ca.crt" \
    --kubelet-client-certificate="$pki/apiserver-kubelet.crt" \
    --kubelet-client-key="$pki/apiserver-kubelet.key" --kubelet-preferred-address-types=InternalIP \
    --requestheader-client-ca-file="$pki/front-proxy-ca.crt" \
    --requestheader-allowed-names=front-proxy-client \
    --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
    --requestheader-extra-headers-prefix=X-Remote-Extra- \
    --proxy-client-cert-file="$pki/front-proxy.crt" --proxy-client-key-file="$pki/front-proxy.key"
  wait_for apiserver kubectl get --raw /readyz
}

start_controllers() {
  local name
  start controller-manager kube-controller-manager \
    --kubeconfig="$state/controller-manager.kubeconfig" --bind-address=127.0.0.1 \
    --authentication-kubeconfig="$state/controller-manager.kubeconfig" \
    --authorization-kubeconfig="$state/controller-manager.kubeconfig" \
    --leader-elect=false --use-service-account-credentials=true \
    --service-account-private-key-file="$pki/sa.key" \
    --root-ca-file="$pki/ca.crt" --cluster-signing-cert-file="$pki/ca.crt" \
    --cluster-signing-key-file="$pki/ca.key" \
    --requestheader-client-ca-file="$pki/front-proxy-ca.crt"
  start scheduler kube-scheduler --kubeconfig="$state/scheduler.kubeconfig" \
    --bind-address=127.0.0.1 --leader-elect=false \
    --authentication-kubeconfig="$state/scheduler.kubeconfig" \
    --authorization-kubeconfig="$state/scheduler.kubeconfig"
}

start_node() {
  start proxy kube-proxy --config="$state/proxy.yaml"
  start kubelet kubelet --config="$state/kubelet.yaml" --kubeconfig="$state/kubelet.kubeconfig" \
    --hostname-override="$node" \
    --node-ip="$address" --root-dir="$state/kubelet" --v=2
  wait_for kubelet kubectl get node "$node"
  kubectl wait --for=condition=Ready "node/$node" --timeout=120s >/dev/null
}

start_containerd() {
  start containerd containerd -c "$state/containerd.toml"
  wait_for containerd ctr -a "$containerd_socket" version
}

# NAME: on this node.
load_image() {
  ctr -a "$containerd_socket" -n k8s.io images import "$images/$1.tar" >/dev/null
}

prepare_machine() {
  [ "$(id -u)" = 0 ] ||
    fail "a Kubernetes node needs root: kubelet and containerd make mounts and cgroups"
  [ -n "$address" ] || fail "this machine has no network address that pods could reach"
  modprobe -q br_netfilter overlay 2>/dev/null || true
  [ -e "$state/huge-pages-before" ] || cat /proc/sys/vm/nr_hugepages >"$state/huge-pages-before"
  sysctl -qw net.ipv4.ip_forward=1 vm.nr_hugepages="$huge_pages"
  sysctl -qw net.bridge.bridge-nf-call-iptables=1 2>/dev/null || true
  mount --make-rshared /
  if [ ! -e /sys/fs/cgroup/cgroup.controllers ] && [ ! -d /sys/fs/cgroup/hugetlb ]; then
    mkdir -p /sys/fs/cgroup/hugetlb
    mount -t cgroup -o hugetlb cgroup /sys/fs/cgroup/hugetlb ||
      echo "no hugetlb cgroup: pods with huge pages will not start"
  fi
}

up() {
  local name
  mkdir -p "$state"
  prepare_machine
  make_images
  if [ ! -e "$state/proxy.kubeconfig" ]; then
    make_pki
    make_node_pki
  fi
  write_containerd
  write_kubelet
  write_proxy
  start_containerd
  start_etcd
  start_apiserver
  for name in pause coredns debian; do load_image $name; done
  start_controllers
  start_node
  # without this no pod is admitted
  wait_for controller-manager kubectl -n default get serviceaccount default
  kubectl apply --server-side -f "$here/coredns.yaml" >/dev/null
  kubectl -n kube-system rollout status deployment/coredns --timeout=60s >/dev/null
  echo "the cluster is up: export KUBECONFIG=$KUBECONFIG PATH=$kubernetes/bin:\$PATH"
}

load() {
  "make_${1:-larder}_image"
  load_image "${1:-larder}"
  if second_there; then (
    second_node
    load_image "${1:-larder}"
  ); fi
}

stop() {
  local name pid deadline=$((SECONDS + 5))
  for name in "$@"; do if running "$name"; then kill "$(cat "$state/$name.pid")"; fi; done
  for name in "$@"; do
    while running "$name" && [ $SECONDS -lt $deadline ]; do sleep 0.1; done
    if running "$name"; then
      pid=$(cat "$state/$name.pid")
      kill -9 "$pid" || true
      while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
    fi
    rm -f "$state/$name.pid"
  done
}

restart() {
  stop "$1"
  "start_$1"
}

end_containers() {
  local task ctr="ctr -a $containerd_socket -n k8s.io"
  if ! running containerd; then return 0; fi
  for task in $($ctr tasks ls -q); do $ctr tasks kill -s 9 -a "$task" 2>/dev/null || true; done
  sleep 1
  for task in $($ctr tasks ls -q); do $ctr tasks rm -f "$task" >/dev/null 2>&1 || true; done
  for task in $($ctr containers ls -q); do $ctr containers rm "$task" 2>/dev/null || true; done
}

end_shims() {
  local pid
  for pid in $(grep -lsaF "containerd-shim" /proc/[0-9]*/cmdline | cut -d/ -f3); do
    if grep -qsaF "$containerd_socket" "/proc/$pid/cmdline"; then
      kill -9 "$pid" 2>/dev/null || true
    fi
  done
}

# NAME: the cgroups of this name, a pattern, near the root.
remove_cgroups() {
  local name
  for name in $(find /sys/fs/cgroup -maxdepth 2 -type d -name "$1"); do
    find "$name" -depth -type d -exec rmdir {} \; 2>/dev/null || true
  done
}

# The leftovers of a killed runtime: shims, mounts, cgroups, networks, rules.
clean_machine() {
  local mount name
  end_shims
  awk -v state="$state/" 'index($2, state) == 1 {print length($2), $2}' /proc/mounts | sort -rn |
    cut -d' ' -f2 |
    while read -r mount; do umount "$mount" 2>/dev/null || umount -l "$mount" || true; done
  for name in $(ls /run/netns 2>/dev/null | grep '^cni-' || true); do
    umount "/run/netns/$name" 2>/dev/null || true
    rm -f "/run/netns/$name"
  done
  remove_cgroups 'kubepods*'
  ip link delete larder0 2>/dev/null || true
  kube-proxy --cleanup >/dev/null 2>&1 || true
  iptables-save 2>/dev/null | grep -vE 'KUBE-|CNI-' | iptables-restore 2>/dev/null || true
}

down() {
  if [ ! -e "$state" ]; then return 0; fi
  remove_second
  stop kubelet proxy scheduler controller-manager
  end_containers
  stop apiserver etcd containerd
  clean_machine
  if [ -e "$state/huge-pages-before" ]; then
    sysctl -qw vm.nr_hugepages="$(cat "$state/huge-pages-before")"
  fi
  if grep -qF " $state/" /proc/mounts; then
    fail "something under $state is still mounted; nothing was removed"
  fi
  rm -rf --one-file-system "$state"
}

case ${1:-} in
  up | down) "$1" ;;
  load) load ${2:+"$2"} ;;
  restart) restart "${2:?which of its programs?}" ;;
  node)
    case ${2:-} in
      up | down) "node_$2" ;;
      *) fail "usage: cluster.sh node up | node down" ;;
    esac
    ;;
  *) fail "usage: cluster.sh up | down | load [IMAGE] | restart PROGRAM | node up | node down" ;;
esac
