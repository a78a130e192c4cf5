"""The wheel: carries the library, names its platform, and works where it is installed, without any variable."""

import os
import subprocess
import sys
import zipfile
from importlib.metadata import distributions

import pytest


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory):
    if not os.path.exists(os.environ["LARDER_LIBRARY"]):
        pytest.fail(f"{os.environ['LARDER_LIBRARY']} is not built")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    subprocess.run(["cp", "-r", root / "shim" / "python", source], check=True)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder, source]
    subprocess.run(command, check=True)
    (built,) = folder.glob("*.whl")
    return built


def test_it_names_its_platform_and_no_python_version(wheel):
    assert wheel.name.startswith("larder-") and "-py3-none-linux_" in wheel.name


def test_installed_it_finds_the_library_beside_itself(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    env = {k: v for k, v in os.environ.items() if not k.startswith("LARDER_") and k != "PYTHONPATH"}
    program = "import larder, larder._native as n; print(larder.version()); print(n.library_path())"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    version, path = done.stdout.splitlines()
    assert "protocol" in version
    assert path == str(tmp_path / "larder" / "liblarder.so")


# covers F-077
def test_installed_it_is_a_plugin_of_vllm(wheel, tmp_path, root):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    points = [entry for found in distributions(path=[str(tmp_path)]) for entry in found.entry_points]
    assert [(entry.group, entry.name, entry.value) for entry in points] == [("vllm.general_plugins", "larder", "larder.vllm_plugin:register")]
    assert (tmp_path / "larder" / "vllm_plugin.py").exists()


def test_a_missing_library_is_named(tmp_path, root):
    env = {**os.environ, "LARDER_LIBRARY": str(tmp_path / "none.so"), "PYTHONPATH": str(root / "shim" / "python")}
    done = subprocess.run([sys.executable, "-c", "import larder; larder.version()"], env=env, capture_output=True, text=True)
    assert done.returncode != 0
    assert "none.so" in done.stderr and "LARDER_LIBRARY" in done.stderr
