#!/bin/sh
# Usage: check_symbols.sh LIBLARDER LIBLARDER_TEST. The product exports larder_* alone, needs nothing above glibc 2.34 and no C++ run
# time, and has no test hook; the test library has it, so that the search is known to find one.
set -u
product=$1
test_library=$2
failed=0
fail() { echo "FAILED: $*"; failed=1; }

foreign=$(nm -D --defined-only "$product" | awk '{print $3}' | grep -v '^larder_')
[ -z "$foreign" ] || fail "exported besides larder_*: $foreign"
[ "$(nm -D --defined-only "$product" | grep -c ' T larder_')" -ge 20 ] || fail "fewer than 20 functions of larder.h are exported"

newest=$(nm -D --undefined-only "$product" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -V | tail -1)
[ "$(printf '%s\n2.34\n' "$newest" | sort -V | tail -1)" = 2.34 ] || fail "needs GLIBC_$newest, more than 2.34"
readelf -d "$product" | grep -E 'NEEDED.*(libstdc\+\+|libgcc)' && fail "needs a C++ run time"

grep -q LARDER_TEST "$product" && fail "the product has a test hook"
grep -q LARDER_TEST_SKIP_VERIFY "$test_library" || fail "the test library has no hook: this check finds nothing"
[ $failed = 0 ] && echo "symbols of $product: ok, newest GLIBC_$newest"
exit $failed
