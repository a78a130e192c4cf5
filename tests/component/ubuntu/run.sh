#!/bin/bash
# run.sh LARDERD LIBLARDER PYTHON_PACKAGE: liblarder.so inside Ubuntu 22.04's own Python and glibc
# stores and loads a chunk. Python and glibc come from Ubuntu's packages, unpacked into a temporary
# folder. The process sees only this folder (chroot). No package is installed. Needs the network, so
# `make test` leaves the check out. UBUNTU_MIRROR names another mirror.
set -euo pipefail
larderd=$1 library=$2 package=$3
here=$(cd "$(dirname "$0")" && pwd)
mirror=${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}
packages="coreutils libc6 python3.10-minimal libpython3.10-minimal libpython3.10-stdlib"
packages+=" libexpat1 zlib1g libffi8"

work=$(mktemp -d)
server=
finish() {
  [ -z "$server" ] || { kill "$server" && wait "$server" || true; }
  rm -rf "$work"
}
trap finish EXIT

curl -fsS -m 120 "$mirror/dists/jammy/main/binary-amd64/Packages.xz" | xz -d >"$work/Packages"
for name in $packages; do
  read -r file sum < <(awk -v want="$name" \
    '/^Package: /{p = $2} /^Filename: /{f = $2} /^SHA256: /{s = $2}
    /^$/{if (p == want) print f, s}' "$work/Packages" | tail -1)
  curl -fsS -m 120 -o "$work/$name.deb" "$mirror/$file"
  echo "$sum  $work/$name.deb" | sha256sum --check --quiet
  dpkg-deb -x "$work/$name.deb" "$work/root"
done

root=$work/root
mkdir -p "$root/opt" "$root/tmp"
cp "$library" "$root/opt/liblarder.so"
cp -r "$package/larder" "$here/store_and_load.py" "$root/opt/"
LARDER_SOCKET=$root/opt/larder.sock LARDER_POOL=ubuntu$$ LARDER_MEMORY_SIZE=16MiB \
  LARDER_MEMORY_KEEP_ON_EXIT=false LARDER_HTTP_LISTEN= "$larderd" 2>"$work/log" &
server=$!

enter=(chroot)
[ "$(id -u)" = 0 ] || enter=(unshare --map-root-user chroot)
run() {
  "${enter[@]}" "$root" /usr/bin/env -i LARDER_SOCKET=/opt/larder.sock \
    LARDER_LIBRARY=/opt/liblarder.so GLIBC_EXPECTED=2.35 \
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/opt /usr/bin/python3.10 "$@"
}
# The check can fail: a library of this machine, which needs its C++ run time, does not load there.
cp "$(ldconfig -p | awk '/libyaml-cpp.so.0.7 /{print $NF; exit}')" "$root/opt/libcxx.so"
run -c "import ctypes; ctypes.CDLL('/opt/libcxx.so')" 2>"$work/refused" && {
  echo "FAILED: anything loads"
  exit 1
}
grep -q "libstdc++.so.6: cannot open" "$work/refused" || { cat "$work/refused"; exit 1; }
run /opt/store_and_load.py || { cat "$work/log"; exit 1; }
