#!/bin/bash
# run.sh LARDERD LIBLARDER PYTHON_PACKAGE: a chunk is stored and loaded by liblarder.so inside Ubuntu 22.04's own Python and glibc. They
# come from Ubuntu's packages, unpacked into a temporary folder and run by their own loader: no root, nothing installed. Needs the
# network, so that `make test` leaves it out. UBUNTU_MIRROR names another mirror.
set -euo pipefail
larderd=$1 library=$2 package=$3
here=$(cd "$(dirname "$0")" && pwd)
mirror=${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}
packages="libc6 python3.10-minimal libpython3.10-minimal libpython3.10-stdlib libexpat1 zlib1g libffi8"

work=$(mktemp -d)
server=
finish() {
  [ -z "$server" ] || { kill "$server" && wait "$server" || true; }
  rm -rf "$work"
}
trap finish EXIT

curl -fsS -m 120 "$mirror/dists/jammy/main/binary-amd64/Packages.xz" | xz -d >"$work/Packages"
for name in $packages; do
  read -r file sum < <(awk -v want="$name" '/^Package: /{p = $2} /^Filename: /{f = $2} /^SHA256: /{s = $2}
    /^$/{if (p == want) print f, s}' "$work/Packages" | tail -1)
  curl -fsS -m 120 -o "$work/$name.deb" "$mirror/$file"
  echo "$sum  $work/$name.deb" | sha256sum --check --quiet
  dpkg-deb -x "$work/$name.deb" "$work/root"
done

export LARDER_SOCKET=$work/larder.sock
LARDER_POOL=ubuntu$$ LARDER_MEMORY_SIZE=16MiB LARDER_HTTP_LISTEN= "$larderd" 2>"$work/log" &
server=$!

root=$work/root
lib=$root/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu
run() {
  env -i LARDER_SOCKET="$LARDER_SOCKET" LARDER_LIBRARY="$library" GLIBC_EXPECTED=2.35 PYTHONHOME="$root/usr" PYTHONPATH="$package" \
    PYTHONDONTWRITEBYTECODE=1 "$root/lib64/ld-linux-x86-64.so.2" --library-path "$lib" "$root/usr/bin/python3.10" "$@"
}
# The check can fail: a library of this machine's C++ does not load there.
run -c "import ctypes; ctypes.CDLL('$(ldconfig -p | awk '/libyaml-cpp.so.0.7 /{print $NF; exit}')')" 2>/dev/null && { echo "FAILED: anything loads"; exit 1; }
run "$here/store_and_load.py" || { cat "$work/log"; exit 1; }
