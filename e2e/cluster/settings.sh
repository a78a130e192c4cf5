# Sourced: certificates and configuration of the cluster and of a node, written to $state. REQUIRES:
# pki.sh; $state $node $address $kubernetes.

readonly service_range=10.96.0.0/16 dns_address=10.96.0.10
# Of a node, as are $state, $node and $address. inside: a command's prefix, which runs the command
# on the node's machine.
pod_range=10.244.0.0/24 containerd_socket=$state/containerd.sock api_url=https://127.0.0.1:6443 \
  cgroup_root=/ inside=()
readonly etcd_url=http://127.0.0.1:23790 etcd_peer_url=http://127.0.0.1:23800

make_pki() {
  local who service=kubernetes.default.svc names
  mkdir -p "$pki"
  authority ca
  authority front-proxy-ca
  account_key
  names=DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:$service,DNS:$service.cluster.local
  certificate apiserver ca /CN=kube-apiserver serverAuth \
    "$names,IP:127.0.0.1,IP:$address,IP:10.96.0.1"
  certificate apiserver-kubelet ca /O=system:masters/CN=kube-apiserver-kubelet-client clientAuth
  certificate front-proxy front-proxy-ca /CN=front-proxy-client clientAuth
  certificate admin ca /O=system:masters/CN=admin clientAuth
  for who in controller-manager scheduler proxy; do
    certificate "$who" ca "/CN=system:kube-$who" clientAuth
  done
  for who in admin controller-manager scheduler; do
    kubeconfig "$who" "$api_url" "$state/$who.kubeconfig"
  done
}

make_node_pki() {
  certificate "$node-serving" ca "/O=system:nodes/CN=system:node:$node" serverAuth \
    "DNS:$node,IP:$address,IP:127.0.0.1"
  certificate "$node" ca "/O=system:nodes/CN=system:node:$node" clientAuth
  kubeconfig "$node" "$api_url" "$state/kubelet.kubeconfig"
  kubeconfig proxy "$api_url" "$state/proxy.kubeconfig"
}

# restrict_oom_score_adj: root of some machines may not lower a score, and then no pod starts.
write_containerd() {
  cat >"$state/containerd.toml" <<END
version = 2
root = "$state/containerd/root"
state = "$state/containerd/state"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "$containerd_socket"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:e2e"
  restrict_oom_score_adj = true
  enable_unprivileged_ports = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$kubernetes/cni"
    conf_dir = "$state/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
END
  mkdir -p "$state/cni"
  cat >"$state/cni/10-bridge.conflist" <<END
{"cniVersion": "0.4.0", "name": "larder", "plugins": [
 {"type": "bridge", "bridge": "larder0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "$state/addresses", "ranges": [[{"subnet": "$pod_range"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
END
}

# The node never deletes images, because no image could be fetched again. A killed container is back
# after 1 s, each time: scenarios kill one container ten times, and the wait doubles otherwise.
write_kubelet() {
  echo "nameserver 127.0.0.1" >"$state/resolv.conf"
  cat >"$state/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: $cgroup_root
failSwapOn: false
containerRuntimeEndpoint: unix://$containerd_socket
tlsCertFile: $pki/$node-serving.crt
tlsPrivateKeyFile: $pki/$node-serving.key
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $pki/ca.crt}}
authorization: {mode: Webhook}
clusterDNS: [$dns_address]
clusterDomain: cluster.local
resolvConf: $state/resolv.conf
evictionHard: {memory.available: 200Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
syncFrequency: 10s
featureGates: {KubeletCrashLoopBackOffMax: true}
crashLoopBackOff: {maxContainerRestartPeriod: 1s}
volumePluginDir: $state/kubelet/volume-plugins
END
}

write_proxy() {
  cat >"$state/proxy.yaml" <<END
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $state/proxy.kubeconfig}
mode: iptables
clusterCIDR: $pod_range
hostnameOverride: $node
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
conntrack: {maxPerCore: 0}
END
}
