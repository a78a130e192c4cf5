"""The wheel: carries the library, names its platform, and works in its installation, without any
variable."""

import importlib.util
import os
import subprocess
import sys
import zipfile
from importlib.metadata import distributions

import packaging._manylinux
import packaging.tags
import pytest


@pytest.fixture(scope="module")
def setup_py(root):
    spec = importlib.util.spec_from_file_location("setup_py", root / "shim" / "python" / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory):
    if not os.path.exists(os.environ["LARDER_LIBRARY"]):
        pytest.fail(f"{os.environ['LARDER_LIBRARY']} is not built")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    subprocess.run(["cp", "-r", root / "shim" / "python", source], check=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        folder,
        source,
    ]
    subprocess.run(command, check=True)
    (built,) = folder.glob("*.whl")
    return built


def tags_of_a_system(monkeypatch, glibc, machine="x86_64"):
    """The wheel tags that pip takes on a system. `glibc`: (major, minor), or (-1, -1) with musl."""
    monkeypatch.setattr(packaging._manylinux, "_get_glibc_version", lambda: glibc)
    monkeypatch.setattr(
        packaging._manylinux, "_have_compatible_abi", lambda executable, archs: True
    )
    linux = f"linux_{machine}"
    monkeypatch.setattr(
        packaging.tags.sysconfig, "get_platform", lambda: linux.replace("_", "-", 1)
    )
    return {
        str(tag) for tag in packaging.tags.compatible_tags(platforms=packaging.tags.platform_tags())
    }


def test_the_wheel_is_accepted_where_its_library_loads(wheel, monkeypatch):
    machine = os.uname().machine
    tag = wheel.name.split("-", 2)[2].removesuffix(".whl")
    assert tag in tags_of_a_system(monkeypatch, (2, 36), machine), "Debian 12"
    assert tag in tags_of_a_system(monkeypatch, (2, 34), machine), "RHEL 9"
    assert tag not in tags_of_a_system(monkeypatch, (2, 31), machine), "Debian 11"
    assert tag not in tags_of_a_system(monkeypatch, (-1, -1), machine), "Alpine"
    assert tag not in tags_of_a_system(monkeypatch, (2, 36), "riscv64")


HEADER = "  Class:                             ELF64\n  Machine:                           {}\n"
VERSIONS = {
    "manylinux_2_34_x86_64": (
        "Advanced Micro Devices X86-64",
        ["GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.4"],
    ),
    "manylinux_2_17_aarch64": ("AArch64", ["GLIBC_2.17"]),
    "manylinux_2_4_x86_64": ("Advanced Micro Devices X86-64", ["GLIBC_2.4", "GLIBC_2.3.4"]),
}


@pytest.mark.parametrize("tag", VERSIONS)
def test_the_tag_is_of_the_newest_glibc_that_the_library_asks_for(setup_py, tag):
    machine, names = VERSIONS[tag]
    listed = "".join(f"  0x0010:   Name: {name}  Flags: none  Version: 9\n" for name in names)
    assert setup_py.platform_tag(HEADER.format(machine), listed) == tag


def test_a_library_without_a_tag_is_refused(setup_py):
    with pytest.raises(SystemExit, match="for RISC-V"):
        setup_py.platform_tag(HEADER.format("RISC-V"), "  Name: GLIBC_2.34  Flags")
    with pytest.raises(SystemExit, match="no version of glibc"):
        setup_py.platform_tag(HEADER.format("AArch64"), "  Name: LARDER_1  Flags")


def test_installed_it_finds_the_library_beside_itself(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    env = {k: v for k, v in os.environ.items() if not k.startswith("LARDER_") and k != "PYTHONPATH"}
    program = "import larder, larder._native as n; print(larder.version()); print(n.library_path())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    version, path = done.stdout.splitlines()
    assert "protocol" in version
    assert path == str(tmp_path / "larder" / "liblarder.so")


def test_pip_installs_the_wheel_of_make(root, tmp_path):
    """`make wheel`, of this build, and `pip install build/wheel/larder-*.whl` into a folder."""
    script = root / ".ci" / "wheel.sh"
    wheel = subprocess.run(
        ["bash", "-c", ". ./paths.sh && echo $wheel"],
        cwd=script.parent,
        capture_output=True,
        text=True,
    ).stdout.strip()
    if not os.path.exists(f"{wheel}/bin/python"):
        pytest.skip(f"no {wheel} (make deps-wheel)")
    build = os.path.dirname(os.environ["LARDER_TEST_BIN"])
    subprocess.run([script, build, tmp_path / "wheel"], check=True)
    (built,) = (tmp_path / "wheel").glob("larder-*.whl")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-index",
        "--target",
        tmp_path / "site",
    ]
    subprocess.run([*pip, built], check=True)
    env = {k: v for k, v in os.environ.items() if not k.startswith("LARDER_")}
    env["PYTHONPATH"] = str(tmp_path / "site")
    program = "import larder; print(larder.version())"
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert "protocol" in done.stdout, done.stderr


# covers F-077
def test_installed_it_is_a_plugin_of_vllm(wheel, tmp_path, root):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    points = [
        entry for found in distributions(path=[str(tmp_path)]) for entry in found.entry_points
    ]
    assert [(entry.group, entry.name, entry.value) for entry in points] == [
        ("vllm.general_plugins", "larder", "larder.vllm_plugin:register")
    ]
    assert (tmp_path / "larder" / "vllm_plugin.py").exists()


def test_a_missing_library_is_named(tmp_path, root):
    env = {
        **os.environ,
        "LARDER_LIBRARY": str(tmp_path / "none.so"),
        "PYTHONPATH": str(root / "shim" / "python"),
    }
    done = subprocess.run(
        [sys.executable, "-c", "import larder; larder.version()"],
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "none.so" in done.stderr and "LARDER_LIBRARY" in done.stderr
