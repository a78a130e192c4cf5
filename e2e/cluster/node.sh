# Sourced: the second node, larder-e2e-2. kubelet, containerd and kube-proxy of the node run in
# network and mount namespaces of their own (machine.sh). So the node has its own address, pods
# (10.244.1.0/24), /run and /dev/shm. The nodes share processes, disk and memory. REQUIRES:
# cluster.sh, settings.sh.

readonly second=larder-e2e-2 second_address=10.245.0.2 all_pods=10.244.0.0/16

second_there() {
  [ -e "$state/second" ]
}

# From here on all functions are about the second node. Call in a subshell.
second_node() {
  api_url=https://$address:6443
  state=$state/second node=$second address=$second_address pod_range=10.244.1.0/24 \
    cgroup_root=/$second
  containerd_socket=$state/containerd.sock
}

start_machine() {
  local pid
  start machine unshare --net --mount --propagation slave "$here/machine.sh" "$state"
  pid=$(cat "$state/machine.pid")
  # the last step of machine.sh
  wait_for machine grep -qx sleep "/proc/$pid/comm"
  inside=(nsenter --target "$pid" --net --mount)
}

# The link between the machines. Pods of both nodes see each other's addresses: CNI's bridge would
# put the node's address in place of the pod's.
connect() {
  if ip link show $second >/dev/null 2>&1; then return 0; fi
  ip link add $second type veth peer name eth0 netns "$(cat "$state/machine.pid")"
  ip address add 10.245.0.1/30 dev $second
  ip link set $second up
  "${inside[@]}" ip address add $second_address/30 dev eth0
  "${inside[@]}" ip link set eth0 up
  "${inside[@]}" ip route add default via 10.245.0.1
  ip route add "$pod_range" via $second_address
  between_pods -C 2>/dev/null || between_pods -I
  between_pods -I "${inside[@]}"
}

# -C | -I | -D [PREFIX...]: the rule for traffic between pods, except what kube-proxy marked.
between_pods() {
  "${@:2}" iptables -w -t nat "$1" POSTROUTING -s $all_pods -d $all_pods \
    -m mark ! --mark 0x4000/0x4000 -j ACCEPT
}

# A kubelet ends every pod below its root that it does not know.
make_cgroups() {
  local hierarchy
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mkdir -p /sys/fs/cgroup/$second
    return
  fi
  for hierarchy in $(find /sys/fs/cgroup -mindepth 1 -maxdepth 1 -type d); do
    mkdir -p "$hierarchy/$second"
  done
}

# With the images of the first node.
node_up() (
  running apiserver || fail "no cluster here: make e2e-up"
  names=$(ctr -a "$containerd_socket" -n k8s.io images ls -q |
    sed -n 's|^localhost/\(.*\):e2e$|\1|p')
  second_node
  mkdir -p "$state"
  start_machine
  connect
  make_cgroups
  [ -e "$state/proxy.kubeconfig" ] || make_node_pki
  write_containerd
  write_kubelet
  write_proxy
  start_containerd
  for name in $names; do load_image "$name"; done
  start_node
)

# The pods of the node end first; those of a controller begin again on the first node.
node_down() {
  if ! second_there; then return 0; fi
  if running apiserver && kubectl get node $second >/dev/null 2>&1; then
    kubectl cordon $second >/dev/null
    kubectl delete pod --all-namespaces --field-selector spec.nodeName=$second --now \
      --timeout=60s >/dev/null || true
    kubectl delete node $second >/dev/null
  fi
  remove_second
}

# Also of a node that stopped half way.
remove_second() (
  if ! second_there; then return 0; fi
  second_node
  stop kubelet proxy
  end_containers
  stop containerd
  end_shims
  stop machine
  ip link delete $second 2>/dev/null || true
  between_pods -D 2>/dev/null || true
  remove_cgroups $second
  rm -rf --one-file-system "$state"
)
