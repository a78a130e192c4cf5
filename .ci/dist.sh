#!/bin/bash
# dist.sh BUILD OUT: all packages of the commit that is checked out, in the new folder OUT, from the
# programs in BUILD (build/release).
#
# The version is VERSION of CMakeLists.txt if the commit has the tag vVERSION, else
# VERSION-dev.gCOMMIT. docs/contributing/releasing.md lists the files, and the cases in which the
# same commit gives other bytes. From the environment:
#   DIST_IMAGE  name of the image without tag, also in the chart (default: localhost/larder)
#   DIST_HOME   address of the repository, https://github.com/OWNER/NAME (without: relative links)
# REQUIRES: .ci/deps.sh build wheel helm; every file is known to git.
set -euo pipefail
build=$(realpath "$1") out=$(realpath -m "$2")
cd "$(dirname "$0")"
. ./paths.sh
cd ..
. .ci/stage.sh
. .ci/image/libraries.sh
. .ci/pack.sh
umask 022
image=${DIST_IMAGE:-localhost/larder} home=${DIST_HOME:-}

# Sets tag, the tag of the commit (may be empty), and LARDER_VERSION. Three files must agree on the
# base version.
name_version() {
  local base file found
  base=$(sed -n 's/^project(larder VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
  for file in shim/python/pyproject.toml:version charts/larder/Chart.yaml:{version,appVersion}; do
    found=$(sed -nE "s/^${file#*:}(:| =) \"?([^\"]*)\"?$/\2/p" "${file%:*}")
    [ "$found" = "$base" ] || fail "${file%:*} has ${file#*:} $found, CMakeLists.txt has $base"
  done
  tag=$(git tag --points-at HEAD --list 'v*')
  case $tag in
    '') LARDER_VERSION=$base-dev.g${LARDER_COMMIT:0:12} ;;
    "v$base") LARDER_VERSION=$base ;;
    *) fail "HEAD has the tag $tag, CMakeLists.txt the version $base: one tag, v$base" ;;
  esac
}

# The chart with the image of this release as its default. Helm writes the time into an archive, so
# the chart is packed anew.
make_chart() {
  local work=$1 chart=$1/charts/larder prerelease=false
  [ -n "$tag" ] || prerelease=true
  git archive HEAD charts/larder | tar -x -C "$work"
  sed -i "s|^  repository: localhost/larder$|  repository: $image|" "$chart/values.yaml"
  sed -i -e "s|image: localhost/larder:.*|image: $image:$version|" \
    -e "s|/prerelease: .*|/prerelease: \"$prerelease\"|" "$chart/Chart.yaml"
  if [ -n "$home" ]; then
    printf 'home: %s\nsources: [%s]\n' "$home" "$home" >>"$chart/Chart.yaml"
  fi
  "$kubernetes/bin/helm" package "$chart" --version "$version" --app-version "$version" \
    -d "$work" >/dev/null
  mkdir "$work/packed"
  tar -xmzf "$work/larder-$version.tgz" -C "$work/packed"
  "$kubernetes/bin/helm" lint --strict --quiet "$work/packed/larder"
  pack "$work/packed" "$new/larder-$version.tgz"
}

# KIND PROGRAM...: the Debian packages of the libraries that the programs of a package load.
shared_parts() {
  local kind=$1 program library package
  shift
  for program in "$@"; do
    for library in $(libraries "$build/bin/$program"); do
      package=$(package_of "$library")
      [ -n "$package" ] || fail "$library is of no Debian package: the SBOM cannot name it"
      echo "$kind $package shared"
    done
  done
}

list_parts() {
  shared_parts image larderd larderctl larder-operator
  shared_parts krew kubectl-larder
  echo "image ca-certificates data"
  sed '/^#/d' .ci/dist/static.tsv | while read -r package kinds; do
    for kind in $kinds; do echo "$kind $package static"; done
  done
}

make_sbom() {
  local parts
  parts=$(list_parts)
  .ci/dist/sbom.py --version "$version" --commit "$LARDER_COMMIT" --time "$SOURCE_DATE_EPOCH" \
    --home "$home" image="$archive" chart="$new/larder-$version.tgz" \
    wheel="$(echo "$new"/larder-*.whl)" krew="$(echo "$new"/kubectl-larder-*.tar.gz)" \
    <<<"$parts" >"$new/larder-$version.spdx.json"
}

# The section of the version, or of the unreleased changes, with links into the repository if
# DIST_HOME is set.
make_notes() {
  local section=$version links=
  [ -n "$tag" ] || section=Unreleased
  [ -z "$home" ] || links="s#\]\(([a-zA-Z][a-zA-Z_/.-]*[)\#])#](${home}/blob/$LARDER_COMMIT/\1#g"
  printf '# Larder %s\n\nCommit %s. ' "$version" "$LARDER_COMMIT"
  printf 'Image: `%s:%s`.\n' "$image" "$version"
  awk -v start="## [$section]" \
    'index($0, "## [") == 1 { on = index($0, start) == 1; next } on' CHANGELOG.md | sed -E "$links"
}

[ -z "$(git status --porcelain)" ] ||
  fail "the checkout differs from its commit (git status): a release is made from a commit"
LARDER_COMMIT=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
name_version
export LARDER_COMMIT LARDER_VERSION SOURCE_DATE_EPOCH
. .ci/version.sh
new=$(mktemp -d)
work=$(mktemp -d)
trap 'rm -rf "$new" "$work"' EXIT
archive=$new/larder-image-$version-linux-$arch.tar

.ci/image/build.sh "$build" "$archive" "$image:$version"
make_chart "$work"
.ci/wheel.sh "$build" "$work/wheel" >/dev/null
mv "$work"/wheel/*.whl "$new"
KREW_URI=${home:+${tag:+$home/releases/download/$tag/}} .ci/krew.sh "$build" "$new" >/dev/null
make_sbom
make_notes >"$new/release-notes.md"
(cd "$new" && LC_ALL=C sha256sum -- * >"$work/SHA256SUMS")
mv "$work/SHA256SUMS" "$new"
rm -rf "$out"
mkdir -p "$out"
mv "$new"/* "$out"
echo "$out: Larder $version"
(cd "$out" && ls -l | awk 'NR > 1 { printf "  %10d  %s\n", $5, $NF }')
