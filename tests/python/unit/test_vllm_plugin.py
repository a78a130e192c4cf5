"""vLLM finds LarderConnector by its name alone, in processes that have imported nothing of Larder."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("vllm")

from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory  # noqa: E402

from larder import vllm_plugin  # noqa: E402
from larder.vllm.connector import LarderConnector  # noqa: E402

# As vLLM's logger does: it has the configuration, and statistics of another process.
LOGGER = """
from vllm.config.kv_transfer import KVTransferConfig
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorLogging

child = {"kv_connector": "LarderConnector", "kv_connector_module_path": "larder.vllm", "kv_role": "kv_both"}
config = KVTransferConfig(kv_connector="MultiConnector", kv_role="kv_both", kv_connector_extra_config={"connectors": [child]})
logging = KVConnectorLogging(config)
logging.observe({"LarderConnector": {"hit": [0.1]}})
logging.observe({"MultiConnector": {"LarderConnector": {"miss": [0.2]}}})
logging.log(lambda _, text: print("LOGGED", text))
"""
IN_A_PLUGIN = "import sys\nfrom vllm.plugins import load_general_plugins\nload_general_plugins()\nassert 'larder.vllm' not in sys.modules\n"


def run(program, *paths, **env):
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), **env}
    return subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True)


@pytest.fixture
def beside(root, tmp_path):
    """A folder for PYTHONPATH as a pod has it: the package, and its metadata beside it."""
    script = f". <(sed -n '/^copy_entry_points() {{/,/^}}/p' .ci/image/rootfs.sh); copy_entry_points shim/python/pyproject.toml {tmp_path}"
    subprocess.run(["bash", "-euc", script], cwd=root, check=True)
    (tmp_path / "larder").symlink_to(root / "shim" / "python" / "larder")
    return tmp_path


def test_a_process_that_imports_no_connector_reads_its_statistics(beside):
    done = run(IN_A_PLUGIN + LOGGER, beside)
    assert "first tokens, hit" in done.stdout and "first tokens, miss" in done.stdout, done.stderr


def test_a_list_of_plugins_without_ours_is_made_good_by_the_import(beside):
    done = run(IN_A_PLUGIN + "import larder.vllm\n" + LOGGER, beside, VLLM_PLUGINS="lora_filesystem_resolver")
    assert "first tokens, hit" in done.stdout, done.stderr


def test_without_metadata_the_import_suffices(root):
    done = run("import larder.vllm\n" + LOGGER, root / "shim" / "python")
    assert "first tokens, hit" in done.stdout, done.stderr


def test_it_may_be_called_any_number_of_times():
    for _ in range(3):
        vllm_plugin.register()
    assert KVConnectorFactory.get_connector_class_by_name("LarderConnector") is LarderConnector


def test_a_class_of_the_users_own_is_found_by_its_name(monkeypatch):
    monkeypatch.setattr(KVConnectorFactory, "_registry", dict(KVConnectorFactory._registry))

    class Mine(LarderConnector):
        pass

    monkeypatch.setattr(sys.modules[__name__], "Mine", Mine, raising=False)
    assert KVConnectorFactory.get_connector_class_by_name("Mine") is Mine


@pytest.mark.parametrize("lacking", ["factory", "call"])
def test_a_vllm_that_knows_no_such_thing_starts_all_the_same(lacking, monkeypatch):
    if lacking == "factory":
        monkeypatch.setitem(sys.modules, "vllm.distributed.kv_transfer.kv_connector.factory", None)
    else:
        monkeypatch.delattr(KVConnectorFactory, "register_connector")
    vllm_plugin.register()
