#!/bin/bash
# Usage: check_symbols.sh LIBLARDER LIBLARDER_TEST CHECK_LOADABLE. The product loads into images of
# others and has no test hook. The test library has a hook, and other libraries do not load: both
# checks can therefore fail.
set -u
product=$1 test_library=$2 check=$3
failed=0
fail() { echo "FAILED: $*"; failed=1; }

"$check" "$product" || fail "check_loadable"
newest=$(readelf -VW "$product" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)

grep -q LARDER_TEST "$product" && fail "the product has a test hook"
grep -q LARDER_TEST_SKIP_VERIFY "$test_library" ||
  fail "the test library has no hook: this check finds nothing"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A library that exports other symbols, brings its C++ run time along, or needs a newer glibc.
printf '%s\n' '#include <string>' \
  'extern "C" unsigned long other(const char* s) { return std::string(s).size(); }' >"$work/a.cc"
c++ -shared -fPIC -o "$work/cxx.so" "$work/a.cc"
printf '%s\n' 'void arc4random_buf(void*, unsigned long);' \
  'void larder_x(void* p) { arc4random_buf(p, 1); }' >"$work/b.c"
cc -shared -fPIC -o "$work/new.so" "$work/b.c"
expect() {
  local library=$1 why=$2
  "$check" "$library" 2>&1 | grep -q "$why" || fail "check_loadable does not find: $why"
}
expect "$work/cxx.so" 'exports besides larder_\*: '
expect "$work/cxx.so" 'needs besides glibc: libstdc++'
expect "$work/cxx.so" 'needs GLIBCXX_'
[ "$(getconf GNU_LIBC_VERSION | sed 's/.* //;s/\.//')" -lt 236 ] ||
  expect "$work/new.so" 'needs GLIBC_2.36, more than GLIBC_2.34'
expect "$work/new.so" 'fewer than 20 functions'

[ $failed = 0 ] && echo "$product: ok, newest $newest"
exit $failed
