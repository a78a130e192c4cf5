#!/bin/bash
# apiserver.sh up DIR | controllers DIR | user DIR NAME | down DIR: etcd and a kube-apiserver alone,
# on free ports, with all state in DIR.
#
#   up: DIR/admin.kubeconfig is the administrator's after the return (10 s). No controllers run: no
#   pod starts, no object is collected, and pods need no ServiceAccount. Pod Security, CEL rules,
#   server-side apply, watches and webhooks are the real ones. API_FLAGS: more flags of
#   kube-apiserver. AUDIT: not empty: DIR/audit.log has a line for each answered request that may
#   write.
#   user: DIR/NAME.kubeconfig is another administrator's, of this name.
#   controllers: a kube-controller-manager beside the two, after which Deployments have pods; the
#   pods do not start.
#   down: ends all programs and removes DIR.
#
# REQUIRES: .ci/kubernetes.sh apiserver has run; for controllers, cluster.
set -euo pipefail
cd "$(dirname "$0")/../../../.ci"
. ./paths.sh
. ./stage.sh
. ../tests/component/kube/pki.sh

readonly verb=${1:-} given=${2:-}
[ -n "$given" ] && [[ $verb = up || $verb = controllers || $verb = user && -n ${3:-} ||
  $verb = down ]] ||
  fail "usage: apiserver.sh up DIR | controllers DIR | user DIR NAME | down DIR"
case $given in /*) dir=$given ;; *) dir=$OLDPWD/$given ;; esac
readonly dir pki=$dir/pki

free_ports() {
  python3 - "$1" <<'P'
import socket, sys
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(s.getsockname()[1] for s in held))
P
}

make_pki() {
  mkdir -p "$pki"
  authority ca
  account_key
  certificate apiserver ca /CN=kube-apiserver serverAuth \
    "DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1"
  certificate admin ca /O=system:masters/CN=admin clientAuth
}

# NAME COMMAND...: in a session that outlives this script.
start() {
  local name=$1
  shift
  setsid nohup "$@" >"$dir/$name.log" 2>&1 </dev/null &
  echo $! >"$dir/$name.pid"
}

# NAME COMMAND...: until the command succeeds; fails when NAME has ended, or after 60 s.
wait_for() {
  local name=$1 deadline=$((SECONDS + 60))
  shift
  until "$@" >/dev/null 2>&1; do
    kill -0 "$(cat "$dir/$name.pid")" 2>/dev/null || {
      tail -n 20 "$dir/$name.log" >&2
      fail "$name ended: $dir/$name.log"
    }
    [ $SECONDS -lt $deadline ] || {
      tail -n 20 "$dir/$name.log" >&2
      fail "$name was not ready in 60 s: $dir/$name.log"
    }
    sleep 0.1
  done
}

# The flags for the record of writes; empty without AUDIT.
audit_flags() {
  [ -n "${AUDIT:-}" ] || return 0
  cat >"$dir/audit-policy.yaml" <<END
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: None, verbs: [get, list, watch]}, {level: Metadata}]
END
  echo "--audit-policy-file=$dir/audit-policy.yaml --audit-log-path=$dir/audit.log"
}

up() {
  [ -x "$kubernetes/bin/kube-apiserver" ] ||
    fail "no kube-apiserver here: .ci/kubernetes.sh apiserver"
  [ ! -e "$dir/etcd.pid" ] || fail "$dir is in use: apiserver.sh down $dir"
  local etcd peer api
  read -r etcd peer api <<<"$(free_ports 3)"
  make_pki
  start etcd "$kubernetes/bin/etcd" --data-dir "$dir/etcd" --name test \
    --listen-client-urls "http://127.0.0.1:$etcd" \
    --advertise-client-urls "http://127.0.0.1:$etcd" --listen-peer-urls "http://127.0.0.1:$peer" \
    --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
    --initial-cluster "test=http://127.0.0.1:$peer"
  wait_for etcd curl -sf "http://127.0.0.1:$etcd/health"
  start apiserver "$kubernetes/bin/kube-apiserver" --etcd-servers="http://127.0.0.1:$etcd" \
    --secure-port="$api" --bind-address=127.0.0.1 \
    --advertise-address=127.0.0.1 --endpoint-reconciler-type=none --allow-privileged=true \
    --authorization-mode=RBAC \
    --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
    --client-ca-file="$pki/ca.crt" \
    --service-cluster-ip-range=10.0.0.0/24 --service-account-issuer=https://kubernetes.default.svc \
    --service-account-key-file="$pki/sa.key" --service-account-signing-key-file="$pki/sa.key" \
    --disable-admission-plugins=ServiceAccount ${API_FLAGS:-} $(audit_flags)
  wait_for apiserver curl -sf --cacert "$pki/ca.crt" --cert "$pki/admin.crt" \
    --key "$pki/admin.key" "https://127.0.0.1:$api/readyz"
  kubeconfig admin "https://127.0.0.1:$api" "$dir/admin.kubeconfig"
}

# NAME
user() {
  certificate "$1" ca "/O=system:masters/CN=$1" clientAuth
  kubeconfig "$1" "$(sed -n 's/.*server: "\([^"]*\)".*/\1/p' "$dir/admin.kubeconfig")" \
    "$dir/$1.kubeconfig"
}

# No port of its own: the log has its messages, and the API server shows its work.
controllers() {
  local wanted=deployment-controller,replicaset-controller,namespace-controller
  [ -x "$kubernetes/bin/kube-controller-manager" ] ||
    fail "no kube-controller-manager here: .ci/kubernetes.sh cluster"
  start controllers "$kubernetes/bin/kube-controller-manager" --kubeconfig="$dir/admin.kubeconfig" \
    --secure-port=0 --leader-elect=false \
    --controllers=$wanted,garbage-collector-controller
}

down() {
  local name pid
  for name in controllers apiserver etcd; do
    pid=$(cat "$dir/$name.pid" 2>/dev/null) || continue
    kill -9 "$pid" 2>/dev/null || true  # the state goes too: no process needs an orderly end
    while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
  done
  rm -rf "$dir"
}

"$verb" "${@:3}"
