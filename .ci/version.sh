# Sourced: version, the version that packages bear, and arch, the machine as images and Krew name it.
# version is $LARDER_VERSION where dist.sh gives one (0.2.0-dev.g1234abcd of a commit without a tag), else that of CMakeLists.txt.
# REQUIRES: the current folder is the checkout; fail of stage.sh.
version=${LARDER_VERSION:-$(sed -n 's/^project(larder VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)}
case $(uname -m) in
  x86_64) arch=amd64 ;;
  aarch64) arch=arm64 ;;
  *) fail "packages are made for x86_64 and aarch64; this machine is $(uname -m)" ;;
esac
