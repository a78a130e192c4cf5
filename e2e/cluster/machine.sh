#!/bin/bash
# machine.sh FOLDER: the machine of the second node, in network and mount namespaces of its own.
# FOLDER has the node's files in /var. Waits for ever; the namespaces end with their last process.
set -euo pipefail
mount --make-rshared /
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
for folder in /var/log /var/lib/kubelet /var/lib/cni; do
  mkdir -p "$folder" "$1$folder"
  mount --bind "$1$folder" "$folder"
done
sysctl -qw net.ipv4.ip_forward=1
sysctl -qw net.bridge.bridge-nf-call-iptables=1 2>/dev/null || true
ip link set lo up
exec sleep infinity
