"""The parts of `make dist` on small inputs: the SBOM, equal archives, the version.

LARDER_DIST names a finished build/dist, for the tests at the end."""

import hashlib
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
SBOM = ROOT / ".ci" / "dist" / "sbom.py"
TABLES = {
    name: [
        line.split("\t")
        for line in (SBOM.parent / f"{name}.tsv").read_text().splitlines()
        if not line.startswith("#")
    ]
    for name in ("licences", "static")
}


def make_sbom(parts, *files, version="1.2.3", time=86400):
    command = [
        SBOM,
        "--version",
        version,
        "--commit",
        "c0ffee",
        "--time",
        str(time),
        "--home",
        "https://example.com/larder",
        *files,
    ]
    return subprocess.run(command, input=parts, capture_output=True, text=True, check=False)


def dpkg(field, *packages):
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", f"${{{field}}}\n", *packages],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def faults(document):
    """Breaches of the rules of SPDX 2.3 that matter here. pyspdxtools knows all rules (run by
    hand)."""
    if (document["spdxVersion"], document["dataLicense"], document["SPDXID"]) != (
        "SPDX-2.3",
        "CC0-1.0",
        "SPDXRef-DOCUMENT",
    ):
        yield "head"
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["creationInfo"]["created"]):
        yield "created"
    known = [package["SPDXID"] for package in document["packages"]]
    yield from (
        f"{spdx_id}" for spdx_id in known if not re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", spdx_id)
    )
    if len(known) != len(set(known)):
        yield "an id twice"
    for package in document["packages"]:
        yield from (
            f"{package['name']}: {field}"
            for field in ("versionInfo", "downloadLocation", "licenseDeclared")
            if not package.get(field)
        )
    for relation in document["relationships"]:
        ends = {relation["spdxElementId"], relation["relatedSpdxElement"]}
        yield from (f"relationship to {end}" for end in ends - set(known) - {"SPDXRef-DOCUMENT"})


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "image.tar"
    path.write_bytes(b"an image")
    return path


def test_the_sbom_names_libraries_with_version_and_licence(image):
    done = make_sbom(
        "image libc6 shared\nimage libxxhash-dev static\nimage libc6 shared\n", f"image={image}"
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert list(faults(document)) == []
    packages = {package["name"]: package for package in document["packages"]}
    assert packages.keys() == {"larder", "larder-image", "libc6", "libxxhash-dev"}
    assert [packages["libc6"]["versionInfo"]] == dpkg("Version", "libc6")
    assert packages["libxxhash-dev"]["licenseDeclared"] == "BSD-2-Clause"
    assert (
        packages["larder-image"]["checksums"][0]["checksumValue"]
        == hashlib.sha256(b"an image").hexdigest()
    )
    relations = {
        (one["spdxElementId"], one["relationshipType"], one["relatedSpdxElement"])
        for one in document["relationships"]
    }
    assert relations == {
        ("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-image"),
        ("SPDXRef-image", "GENERATED_FROM", "SPDXRef-source"),
        ("SPDXRef-image", "CONTAINS", "SPDXRef-libc6"),
        ("SPDXRef-image", "STATIC_LINK", "SPDXRef-libxxhash-dev"),
    }
    assert document["creationInfo"]["created"] == "1970-01-02T00:00:00Z"
    assert (
        done.stdout
        == make_sbom("image libxxhash-dev static\nimage libc6 shared\n", f"image={image}").stdout
    )


def test_a_document_of_other_packages_has_another_namespace(image):
    first, second = (
        json.loads(make_sbom(parts, f"image={image}").stdout)
        for parts in ("", "image libc6 shared\n")
    )
    assert first["documentNamespace"] != second["documentNamespace"]


REFUSED = {
    "licences.tsv does not name": ("image coreutils shared\n", "image"),
    "no packages found matching": ("image no-such-package shared\n", "image"),
    "KIND is one of": ("picture libc6 shared\n", "image"),
    "HOW of shared": ("image libc6 copied\n", "image"),
    "but no KIND=FILE": ("wheel libc6 shared\n", "image"),
}


@pytest.mark.parametrize("said", REFUSED)
def test_the_sbom_is_refused_with_the_reason(image, said):
    parts, kind = REFUSED[said]
    done = make_sbom(parts, f"{kind}={image}")
    assert done.returncode != 0 and said in done.stderr and done.stdout == ""


def header_prefixes():
    """The third-party headers that rules.cc allows. No code of CUDA's headers is in our files."""
    rules = (ROOT / "tests" / "unit" / "house" / "rules.cc").read_text()
    table = rules[rules.index("libraries() {") : rules.index("return all;")]
    found = re.findall(r'^ {6}\{"([^"]+)",', table, re.M)
    assert len(found) > 8
    return [header for header in found if not header.startswith("cuda")]


def test_each_library_that_the_house_allows_is_in_the_sbom_s_tables():
    static = {name for name, _ in TABLES["static"]}
    assert len(dpkg("Package", *static)) == len(static), "each is installed"
    named = {source for source, _ in TABLES["licences"]}
    assert set(dpkg("source:Package", *static)) <= named
    for header in header_prefixes():
        places = [
            folder / header.rstrip("/")
            for folder in (Path("/usr/include"), Path("/usr/include/x86_64-linux-gnu"))
        ]
        path = next(place for place in places if place.exists())
        owners = subprocess.run(
            ["dpkg", "-S", path], capture_output=True, text=True, check=True
        ).stdout
        package = owners.split(":")[0].split(",")[0]
        assert dpkg("source:Package", package)[0] in named, header


def test_licences_are_sorted_and_named_once():
    sources = [source for source, _ in TABLES["licences"]]
    assert sources == sorted(set(sources))


def pack(folder, out):
    script = f'. {ROOT}/.ci/pack.sh; pack "$1" "$2"'
    subprocess.run(["bash", "-euo", "pipefail", "-c", script, "pack", folder, out], check=True)
    return out.read_bytes()


def test_an_archive_depends_on_names_modes_and_contents_alone(tmp_path):
    for name, mask in (("one", 0o022), ("two", 0o077)):
        before = os.umask(mask)
        for file in ["b", "a/c"] if name == "one" else ["a/c", "b"]:
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file)
        (tmp_path / name / "b").chmod(0o755 & ~mask)
        os.umask(before)
    os.utime(tmp_path / "two" / "b", (1, 1))
    assert pack(tmp_path / "one", tmp_path / "1.tgz") == pack(tmp_path / "two", tmp_path / "2.tgz")
    with tarfile.open(tmp_path / "1.tgz") as archive:
        assert [(entry.name, entry.mode, entry.mtime, entry.uid) for entry in archive] == [
            ("a/c", 0o644, 0, 0),
            ("b", 0o755, 0, 0),
        ]
    (tmp_path / "two" / "b").write_text("other")
    assert pack(tmp_path / "one", tmp_path / "1.tgz") != pack(tmp_path / "two", tmp_path / "2.tgz")


@pytest.fixture
def checkout(tmp_path):
    """A repository with the scripts and the files of versions alone."""
    for name in [".ci", "CMakeLists.txt", "CHANGELOG.md", "charts", "shim/python"]:
        target = tmp_path / "checkout" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-r", ROOT / name, target], check=True)
    git(tmp_path / "checkout", "init", "-q")
    git(tmp_path / "checkout", "add", "-A")
    git(tmp_path / "checkout", "commit", "-q", "-m", "first")
    return tmp_path / "checkout"


def git(folder, *words):
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", folder, *who, *words], check=True, capture_output=True)


def dist(checkout):
    """Against a build that does not exist: only the checks before the first package run."""
    command = [checkout / ".ci" / "dist.sh", checkout.parent, checkout.parent / "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and not (checkout.parent / "out").exists()
    return done.stderr


def test_a_changed_checkout_is_no_release(checkout):
    (checkout / "charts" / "new").write_text("")
    assert "the checkout differs from its commit" in dist(checkout)


def test_versions_that_differ_are_no_release(checkout):
    project = checkout / "shim" / "python" / "pyproject.toml"
    project.write_text(
        re.sub(r"^version = .*", 'version = "9.9.9"', project.read_text(), flags=re.M)
    )
    git(checkout, "commit", "-qam", "other version")
    assert re.search(
        r"shim/python/pyproject.toml has version 9.9.9, CMakeLists.txt has [0-9.]+", dist(checkout)
    )


def test_a_tag_of_another_version_is_no_release(checkout):
    git(checkout, "tag", "v9.9.9")
    assert "HEAD has the tag v9.9.9" in dist(checkout)


def test_a_tag_of_the_version_is_taken(checkout):
    (version,) = re.findall(
        r"^project\(larder VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M
    )
    git(checkout, "tag", f"v{version}")
    assert "bin/larderd is not built" in dist(checkout), "the first step after the checks"


# A finished folder.

finished = pytest.mark.skipif(
    "LARDER_DIST" not in os.environ,
    reason="LARDER_DIST names no folder: make dist, LARDER_DIST=build/dist",
)


@pytest.fixture
def made():
    return Path(os.environ["LARDER_DIST"]).resolve()


@finished
def test_checksums_are_of_all_files(made):
    lines = dict(
        reversed(line.split("  ")) for line in (made / "SHA256SUMS").read_text().splitlines()
    )
    assert lines.keys() == {path.name for path in made.iterdir()} - {"SHA256SUMS"}
    for name, digest in lines.items():
        assert hashlib.sha256((made / name).read_bytes()).hexdigest() == digest, name


@finished
def test_files_agree_on_version_and_image(made):
    (chart,) = made.glob("larder-[0-9]*.tgz")
    with tarfile.open(chart) as archive:
        about = yaml.safe_load(archive.extractfile("larder/Chart.yaml"))
        values = yaml.safe_load(archive.extractfile("larder/values.yaml"))
    version = about["version"]
    assert about["appVersion"] == version and chart.name == f"larder-{version}.tgz"
    (image,) = made.glob(f"larder-image-{version}-linux-*.tar")
    with tarfile.open(image) as archive:
        (entry,) = json.load(archive.extractfile("manifest.json"))
        labels = json.load(archive.extractfile(entry["Config"]))["config"]["Labels"]
    assert entry["RepoTags"] == [f"{values['image']['repository']}:{version}"]
    assert (
        yaml.safe_load(about["annotations"]["artifacthub.io/images"])[0]["image"]
        == entry["RepoTags"][0]
    )
    assert labels["org.opencontainers.image.version"] == version
    assert (about["annotations"]["artifacthub.io/prerelease"] == "true") == ("-dev." in version)
    (wheel,) = made.glob("larder-*.whl")
    assert (
        wheel.name.split("-")[1] == version.replace("-dev.", ".dev0+")
        and "-py3-none-manylinux_2_" in wheel.name
    )
    manifest = yaml.safe_load((made / "larder.yaml").read_text())
    assert manifest["spec"]["version"] == "v" + version
    assert labels["org.opencontainers.image.revision"] in (made / "release-notes.md").read_text()
    assert len((made / "release-notes.md").read_text().splitlines()) > 10


@finished
def test_the_sbom_names_all_that_the_image_contains(made):
    (path,) = made.glob("*.spdx.json")
    document = json.loads(path.read_text())
    assert list(faults(document)) == []
    named = {package["name"] for package in document["packages"]}
    (image,) = made.glob("larder-image-*.tar")
    with tarfile.open(image) as archive:
        (entry,) = json.load(archive.extractfile("manifest.json"))
        with tarfile.open(fileobj=archive.extractfile(entry["Layers"][0])) as layer:
            licences = {
                name.split("/")[-2] for name in layer.getnames() if name.endswith("/copyright")
            }
    assert licences and licences <= named, "a package whose licence is in the image"
    for package in document["packages"]:
        if "packageFileName" in package:
            assert (
                package["checksums"][0]["checksumValue"]
                == hashlib.sha256((made / package["packageFileName"]).read_bytes()).hexdigest()
            )
