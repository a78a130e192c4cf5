#!/bin/sh
# Usage: check_loadable.sh LIBRARY. The library can be loaded into any process on Ubuntu 22.04 and
# RHEL 9. The library needs glibc alone, up to version 2.34, carries its own C++ run time, and
# exports only larder_*. Run on each linked library.
set -u
library=$1
failed=0
fail() { echo "$library: $*" >&2; failed=1; }

foreign=$(nm -D --defined-only "$library" | awk '{print $3}' | grep -v '^larder_')
[ -z "$foreign" ] || fail "exports besides larder_*:" $(echo "$foreign" | head -5)
[ "$(nm -D --defined-only "$library" | grep -c ' T larder_')" -ge 20 ] ||
  fail "exports fewer than 20 functions of larder.h"

needed=$(readelf -dW "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
  grep -vE '^(libc\.so\.6|libm\.so\.6|ld-linux-[a-z0-9-]+\.so\.[0-9])$')
[ -z "$needed" ] || fail "needs besides glibc:" $needed

# Two newer functions of glibc are kept out: find_object.cc replaces _dl_find_object (2.35), and
# --gc-sections drops libstdc++'s use of arc4random (2.36). Ubuntu 22.04 has 2.35, RHEL 9 2.34.
# GLIBC_2.34 and older; GLIBC_ABI_DT_RELR, GLIBC_PRIVATE or GLIBCXX belong to newer systems, or to
# no release.
for version in $(readelf -VW "$library" | sed -n 's/.*Name: \([A-Za-z0-9_.]*\) .*/\1/p' |
  sort -u); do
  case $version in
    GLIBC_[0-9]*)
      [ "$(printf '%s\nGLIBC_2.34\n' "$version" | sort -V | tail -1)" = GLIBC_2.34 ] ||
        fail "needs $version, more than GLIBC_2.34"
      ;;
    *) fail "needs $version" ;;
  esac
done
exit $failed
