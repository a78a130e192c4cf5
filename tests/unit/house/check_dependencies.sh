#!/bin/bash
# Usage: check_dependencies.sh PAGE PROGRAM... Every library that our programs link is glibc, the
# compiler's run time, or named in PAGE (docs/design/dependencies.md), by the name without "lib" and
# version.
set -u
page=$1
shift
failed=0
count=0
for program in "$@"; do
  for library in $(readelf -dW "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    case $library in
      libc.so.* | libm.so.* | ld-linux*) continue ;;
    esac
    count=$((count + 1))
    grep -qF "\`$library\`" "$page" || {
      echo "FAILED: $program needs $library, which $page does not name"
      failed=1
    }
  done
done
[ "$count" -ge 5 ] || { echo "FAILED: $count libraries found, this check sees nothing"; failed=1; }
exit $failed
