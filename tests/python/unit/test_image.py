"""The container image that `make image` builds without Docker: layout, size, owner and payload of
the image, and the same bytes every time."""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile

import pytest

MOST_BYTES = 60_000_000  # without the payload
PROGRAMS = {"larderd", "larderctl"}


def build(root, out, umask=0o022):
    tree = pathlib.Path(os.environ["LARDER_TEST_BIN"]).parent
    subprocess.run([root / ".ci" / "image" / "build.sh", tree, out], check=True, umask=umask)
    return out


@pytest.fixture(scope="module")
def image(root, tmp_path_factory):
    return build(root, tmp_path_factory.mktemp("image") / "larder.tar")


@pytest.fixture(scope="module")
def manifest(image):
    with tarfile.open(image) as archive:
        (entry,) = json.load(archive.extractfile("manifest.json"))
        return entry | {"image": json.load(archive.extractfile(entry["Config"]))}


@pytest.fixture(scope="module")
def files(image, manifest):
    """The layer's entries by name."""
    with tarfile.open(image) as archive:
        (layer,) = manifest["Layers"]
        with tarfile.open(fileobj=archive.extractfile(layer)) as tree:
            return {entry.name: entry for entry in tree.getmembers()}


def blob(archive, descriptor):
    """The bytes that a descriptor names: digest and size must hold, as an OCI client checks."""
    data = archive.extractfile(
        "blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")
    ).read()
    assert descriptor["digest"] == "sha256:" + hashlib.sha256(data).hexdigest()
    assert descriptor["size"] == len(data)
    return data


def test_the_archive_is_an_oci_layout_of_the_same_image(image, manifest):
    with tarfile.open(image) as archive:
        assert json.load(archive.extractfile("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
        (entry,) = json.load(archive.extractfile("index.json"))["manifests"]
        assert entry["mediaType"] == "application/vnd.oci.image.manifest.v1+json"
        found = json.loads(blob(archive, entry))
        assert json.loads(blob(archive, found["config"])) == manifest["image"]
        (layer,) = found["layers"]
        assert layer["mediaType"] == "application/vnd.oci.image.layer.v1.tar"
        blob(archive, layer)
        assert manifest["image"]["rootfs"]["diff_ids"] == [layer["digest"]], (
            "a layer that is not packed has one digest"
        )
    (name,) = manifest["RepoTags"]
    assert entry["annotations"] == {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.split(":")[1],
    }
    assert (
        manifest["image"]["architecture"]
        == {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    )


def test_two_builds_are_the_same_bytes(root, image, tmp_path):
    again = build(root, tmp_path / "again.tar", umask=0o077)
    assert again.read_bytes() == image.read_bytes()


def test_the_image_is_small(files):
    assert (
        sum(entry.size for name, entry in files.items() if not name.startswith("payload/"))
        < MOST_BYTES
    )


def test_the_image_name_matches_the_chart(root, manifest):
    chart = root / "charts" / "larder"
    repository = re.search(
        r"^  repository: (\S+)$", (chart / "values.yaml").read_text(), re.M
    ).group(1)
    version = re.search(
        r'^appVersion: "?([^"\s]+)"?$', (chart / "Chart.yaml").read_text(), re.M
    ).group(1)
    assert manifest["RepoTags"] == [f"{repository}:{version}"]


def test_the_image_user_has_no_rights(manifest, files):
    assert manifest["image"]["config"]["User"] == "65532:65532"
    writable = [
        name
        for name, entry in files.items()
        if entry.mode & 0o002 and not entry.issym() and name != "tmp"
    ]
    privileged = [name for name, entry in files.items() if entry.mode & 0o6000]
    assert not writable and not privileged
    assert not any(name.endswith(("/sh", "/bash", "/busybox")) for name in files)


def test_programs_have_all_libraries_they_load(root, files):
    programs = PROGRAMS | (
        {"larder-operator"} if (root / "operator" / "app" / "CMakeLists.txt").exists() else set()
    )
    assert {name.split("/")[-1] for name in files if name.startswith("usr/bin/")} == programs
    for program in programs:
        listed = subprocess.run(
            ["ldd", pathlib.Path(os.environ["LARDER_TEST_BIN"]) / program],
            capture_output=True,
            text=True,
            check=True,
        )
        wanted = {word.lstrip("/") for word in listed.stdout.split() if word.startswith("/")}
        assert wanted <= set(files)
    assert "etc/ssl/certs/ca-certificates.crt" in files


def test_payload_runs_where_it_was_installed(root, image, manifest, tmp_path):
    with (
        tarfile.open(image) as archive,
        tarfile.open(fileobj=archive.extractfile(manifest["Layers"][0])) as tree,
    ):
        tree.extractall(
            tmp_path,
            members=[entry for entry in tree.getmembers() if entry.name.startswith("payload")],
        )
    volume = tmp_path / "volume"
    volume.mkdir()
    larderctl = pathlib.Path(os.environ["LARDER_TEST_BIN"]) / "larderctl"
    subprocess.run(
        [larderctl, "install-payload", volume, "--from", tmp_path / "payload"], check=True
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith("LARDER_")} | {
        "PYTHONPATH": str(volume / "python")
    }
    program = "import larder, larder.vllm, larder._native as n; print(n.library_path())"
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(volume / "python" / "larder" / "liblarder.so")
    # Found by PYTHONPATH alone, as the wheel is found in its installation.
    program = (
        "from importlib.metadata import entry_points, version\n"
        "(point,) = [p for p in entry_points(group='vllm.general_plugins') if p.name == 'larder']\n"
        "point.load()(); print(version('larder'))\n"
        "from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory\n"
        "print(KVConnectorFactory.get_connector_class_by_name('LarderConnector').__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    version = re.search(
        r'^version = "(.+)"$', (root / "shim" / "python" / "pyproject.toml").read_text(), re.M
    ).group(1)
    assert done.stdout.split() == [version, "LarderConnector"]
