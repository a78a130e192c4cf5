"""`kubectl larder` as Krew installs the plug-in: the manifest by Krew's own rules (Krew's
internal/index/validation). The archive is unpacked like Krew does, and the program runs from the
archive. Krew itself is not run: no package has Krew."""

import hashlib
import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
BUILD = (
    Path(os.environ["LARDER_TEST_BIN"]).parent
    if "LARDER_TEST_BIN" in os.environ
    else ROOT / "build" / "dev"
)
FIELDS = {"version", "shortDescription", "description", "caveats", "homepage", "platforms"}
PLATFORM_FIELDS = {"selector", "uri", "sha256", "bin", "files"}
ARCHITECTURES = {"amd64", "arm64"}
MOST_SHORT = 50  # characters, by the index's naming guide


def make(out, **env):
    done = subprocess.run(
        [ROOT / ".ci" / "krew.sh", BUILD, out],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make(tmp_path_factory.mktemp("krew"))


def platform_faults(platform):
    yield from (f"unknown field {name}" for name in platform.keys() - PLATFORM_FIELDS)
    yield from (f"no {name}" for name in ("uri", "bin") if not platform.get(name))
    if not re.fullmatch("[a-f0-9]{64}", str(platform.get("sha256"))):
        yield "sha256 is none"
    labels = platform.get("selector", {}).get("matchLabels", {})
    if labels.get("os") != "linux" or labels.get("arch") not in ARCHITECTURES or len(labels) != 2:
        yield f"selector {labels}"


def faults(manifest, name="larder"):
    """Krew's reasons for a refusal."""
    spec = manifest["spec"]
    if (
        manifest["apiVersion"] != "krew.googlecontainertools.github.com/v1alpha2"
        or manifest["kind"] != "Plugin"
    ):
        yield "apiVersion, kind"
    if manifest["metadata"]["name"] != name or not re.fullmatch(r"[\w-]+", name):
        yield "name"
    yield from (f"unknown field {field}" for field in spec.keys() - FIELDS)
    if not re.fullmatch(r"v\d+\.\d+\.\d+", spec.get("version", "")):
        yield "version"
    short = spec.get("shortDescription", "")
    if not 0 < len(short) <= MOST_SHORT or "\n" in short:
        yield "shortDescription"
    if not spec.get("platforms"):
        yield "no platform"
    for platform in spec.get("platforms", ()):
        yield from platform_faults(platform)


def manifest_of(folder):
    return yaml.safe_load((folder / "larder.yaml").read_text())


def archive_of(folder):
    (archive,) = folder.glob("*.tar.gz")
    return archive


def test_the_manifest_is_one_that_krew_takes(made):
    manifest = manifest_of(made)
    assert list(faults(manifest)) == []
    (platform,) = manifest["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256(archive_of(made).read_bytes()).hexdigest()
    assert platform["uri"].endswith("/" + archive_of(made).name)


BREAKS = {
    "apiVersion, kind": lambda m: m.update(kind="plugin"),
    "name": lambda m: m["metadata"].update(name="kubectl-larder"),
    "version": lambda m: m["spec"].update(version="0.1.0"),
    "shortDescription": lambda m: m["spec"].update(shortDescription="x" * 51),
    "unknown field shortdescription": lambda m: m["spec"].update(shortdescription="x"),
    "no platform": lambda m: m["spec"].update(platforms=[]),
    "no bin": lambda m: m["spec"]["platforms"][0].pop("bin"),
    "sha256 is none": lambda m: m["spec"]["platforms"][0].update(sha256="ABC"),
    "selector {'os': 'linux'}": lambda m: m["spec"]["platforms"][0]["selector"]["matchLabels"].pop(
        "arch"
    ),
}


@pytest.mark.parametrize("said", BREAKS)
def test_faults_refused_by_krew_are_found(said):
    manifest = manifest_of(ROOT / "manifests" / "krew")
    assert list(faults(manifest)) == [], "the template as well"
    BREAKS[said](manifest)
    assert list(faults(manifest)) == [said]


def test_the_plug_in_runs_from_the_folder_of_krew(made, tmp_path):
    """Krew takes only files and folders, from no suspicious path, and links PATH's kubectl-larder
    to `bin`."""
    with tarfile.open(archive_of(made)) as archive:
        assert [
            one.name
            for one in archive
            if not one.isreg() or ".." in one.name or one.name.startswith("/")
        ] == []
        names = archive.getnames()
        archive.extractall(tmp_path / "store")
    assert (
        "licenses/larder/LICENSE" in names
        and len([one for one in names if one.endswith("/copyright")]) > 3
    )
    program = tmp_path / "store" / manifest_of(made)["spec"]["platforms"][0]["bin"]
    linked = tmp_path / "bin" / "kubectl-larder"
    linked.parent.mkdir()
    linked.symlink_to(program)
    done = subprocess.run(
        [linked, "--version"], capture_output=True, text=True, timeout=60, check=False
    )
    version = manifest_of(made)["spec"]["version"].removeprefix("v")
    assert (done.returncode, done.stdout.split()) == (0, ["kubectl-larder", version]), done.stderr


@pytest.mark.long  # packs all programs a second time
def test_the_same_programs_give_the_same_archive_and_the_uri_is_chosen(made, tmp_path):
    again = make(tmp_path / "again", KREW_URI="https://files.example/l.tar.gz")
    assert archive_of(again).read_bytes() == archive_of(made).read_bytes()
    assert manifest_of(again)["spec"]["platforms"][0]["uri"] == "https://files.example/l.tar.gz"
