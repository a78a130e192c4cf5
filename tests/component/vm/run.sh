#!/bin/bash
# run.sh KERNEL BUSYBOX PROGRAM...: boots a machine of two NUMA nodes with reserved pages of 1 GiB,
# on QEMU. The machine has only these programs, their libraries and busybox; `init` beside this file
# is the first process and does the checks. With KVM if the processor lends pages of 1 GiB to
# guests, else with QEMU's own emulation, which works everywhere. Needs 5 GB of free memory.
set -euo pipefail
kernel=$1 busybox=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
readonly limit_s=${LARDER_VM_LIMIT_S:-420}

work=$(mktemp -d)
log=$work/console
qemu=
stop() { [ -z "$qemu" ] || { kill "$qemu" && wait "$qemu" || true; } 2>/dev/null; }
trap 'stop; rm -rf "$work"' EXIT

root=$work/root
mkdir -p "$root/bin"
cp -L "$busybox" "$root/bin/busybox"
cp -L "$here/init" "$root/init"
cp -L "$@" "$root/bin/"
for program in "$@"; do
  ldd "$program" | grep -o '/[^ ]*'
done | sort -u | xargs cp -L --parents -t "$root"
chmod 755 "$root/bin/busybox" "$root/init"
(cd "$root" && find . | "$busybox" cpio -o -H newc 2>/dev/null) >"$work/initrd"

# A node's highest GiB holds the kernel's own table of pages, and its lowest ones firmware, kernel
# and initrd. So 6 and 3 GiB surely give 1 and 2 whole pages. Untouched memory costs no host memory.
start() { # ACCELERATOR PROCESSOR
  local pages="default_hugepagesz=1G hugepagesz=1G hugepages=0:1,1:2"
  echo "vm: booting by $1"
  timeout "$limit_s" qemu-system-x86_64 -accel "$1" -cpu "$2" -smp 2 -m 9G -nodefaults \
    -no-user-config -display none -no-reboot \
    -object memory-backend-ram,id=m0,size=6G,reserve=off \
    -object memory-backend-ram,id=m1,size=3G,reserve=off \
    -numa node,nodeid=0,cpus=0,memdev=m0 -numa node,nodeid=1,cpus=1,memdev=m1 \
    -serial stdio -kernel "$kernel" -initrd "$work/initrd" \
    -append "console=ttyS0 quiet panic=-1 nokaslr $pages" \
    </dev/null >"$log" 2>&1 &
  qemu=$!
}

# KVM may exist and still run no such machine: the first line of the machine decides.
came_up() {
  for _ in {1..150}; do
    ! grep -q '^vm: up' "$log" || return 0
    kill -0 "$qemu" 2>/dev/null || return 1
    sleep 0.2
  done
  return 1
}

began=$SECONDS
start kvm host,+pdpe1gb,enforce
if ! came_up; then
  sed 's/^/vm: no KVM here: /' "$log" | tail -1
  stop
  start tcg max
fi
tail -n +1 -f --pid="$qemu" "$log" | tr -d '\r' &
wait "$qemu" || echo "vm: QEMU ended with status $?"
qemu=
wait
grep -q '^vm: [1-9][0-9]* passed, 0 failed' "$log" || {
  echo "FAILED after $((SECONDS - began)) s"
  exit 1
}
echo "vm: done in $((SECONDS - began)) s"
