#!/bin/sh
# Usage: check_no_points.sh CONTROL PRODUCT...: the product's binaries have no named point, neither
# the names nor the function behind the points. The control, a test program, has at least 20 points,
# which shows that the search finds points.
set -u
control=$1
shift
failed=0
fail() { echo "FAILED: $*"; failed=1; }

names=$(grep -ao 'larder-point [a-z_]*' "$control" | sort -u | wc -l)
[ "$names" -ge 20 ] || fail "$control has $names points: this check finds nothing"
nm -C "$control" | grep -q reach_test_point ||
  fail "$control has no reach_test_point: this check finds nothing"
for product in "$@"; do
  grep -aq 'larder-point' "$product" && fail "$product names a point"
  nm -C "$product" 2>/dev/null | grep -q reach_test_point && fail "$product has reach_test_point"
done
[ $failed = 0 ] && echo "$names points in the test program, none in $*"
exit $failed
