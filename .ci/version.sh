# Sourced: sets version, the version of packages, and arch, the processor under the name of images
# and Krew. dist.sh gives the version in $LARDER_VERSION (0.2.0-dev.g1234abcd for a commit without a
# tag). Else CMakeLists.txt does.
# REQUIRES: the current folder is the checkout; fail of stage.sh.
version=${LARDER_VERSION:-$(sed -n 's/^project(larder VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)}
case $(uname -m) in
  x86_64) arch=amd64 ;;
  aarch64) arch=arm64 ;;
  *) fail "packages are made for x86_64 and aarch64; this machine is $(uname -m)" ;;
esac
