"""vLLM finds LarderConnector by its name alone, in processes without an import of Larder."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("vllm")

from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory  # noqa: E402

from larder import vllm_plugin  # noqa: E402
from larder.vllm.connector import LarderConnector  # noqa: E402

# Like vLLM's logger: the process has the configuration, and statistics of another process. One
# import of vLLM for all cases, each a fork.
LOGGER = """
import os, sys
from vllm.config.kv_transfer import KVTransferConfig
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorLogging
from vllm.plugins import load_general_plugins

assert not any(name.startswith("larder") for name in sys.modules)
child = {"kv_connector": "LarderConnector", "kv_connector_module_path": "larder.vllm", "kv_role": "kv_both"}
config = KVTransferConfig(kv_connector="MultiConnector", kv_role="kv_both", kv_connector_extra_config={"connectors": [child]})


def logger(name, path, imports):
    sys.path.insert(0, path)
    load_general_plugins()
    assert "larder.vllm" not in sys.modules, "a plugin is loaded where Larder is not used too"
    if imports:
        import larder.vllm
    logging = KVConnectorLogging(config)
    logging.observe({"LarderConnector": {"hit": [0.1]}, "MultiConnector": {"LarderConnector": {"miss": [0.2]}}})
    logging.log(lambda _, text: print(name, text, flush=True))


def case(name, path, plugins=None, imports=False):
    child = os.fork()
    if child:
        return os.waitpid(child, 0)
    if plugins is not None:
        os.environ["VLLM_PLUGINS"] = plugins
    try:
        logger(name, path, imports)
    except BaseException as error:
        print(name, repr(error), flush=True)
    finally:
        os._exit(0)


wheel, source = sys.argv[1:]
case("no-import", wheel)
case("other-plugins", wheel, "lora_filesystem_resolver", True)
case("no-metadata", source, None, True)
case("neither", source)
"""


def payload(root, folder):
    """The folder of PYTHONPATH in a pod: the package, and beside the package its metadata."""
    beside, source = folder / "python", root / "shim" / "python"
    beside.mkdir()
    script = (
        f". <(sed -n '/^copy_entry_points() {{/,/^}}/p' .ci/image/rootfs.sh); copy_entry_points "
        f"{source}/pyproject.toml {beside}"
    )
    subprocess.run(["bash", "-euc", script], cwd=root, check=True)
    (beside / "larder").symlink_to(source / "larder")
    return beside


@pytest.fixture(scope="module")
def logged(root, tmp_path_factory):
    """The logger's output in a process, by case."""
    beside, source = payload(root, tmp_path_factory.mktemp("payload")), root / "shim" / "python"
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VLLM_PLUGINS")
    }
    done = subprocess.run(
        [sys.executable, "-c", LOGGER, beside, source], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


@pytest.mark.parametrize("case", ["no-import", "other-plugins", "no-metadata"])
# covers F-077
def test_a_process_reads_the_statistics_of_a_connector_that_it_never_made(case, logged):
    """By the entry point alone; with a list of plug-ins that leaves the entry point out; with only
    the package."""
    assert "first tokens, hit" in logged[case] and "first tokens, miss" in logged[case]


def test_without_either_vllm_ends(logged):
    """The control: else the cases above prove no rule."""
    assert "'LarderConnector' is not registered" in logged["neither"]


def test_the_plug_in_may_be_called_repeatedly():
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


ENGINE = """
from vllm import EngineArgs

EngineArgs(model="{model}", kv_transfer_config={{"kv_connector": "LarderConnector",
    "kv_connector_module_path": "larder.vllm", "kv_role": "kv_both"}}).create_engine_config()
"""


@pytest.mark.parametrize("pool", ["chat", ""])
# covers F-330
def test_an_injected_engine_starts_with_an_allocator_that_the_injector_could_not_see(
    pool, root, tmp_path
):
    """From an image or a Secret. The control has no LARDER_POOL: vLLM's own error."""
    beside = payload(root, tmp_path)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 1,
        "intermediate_size": 64,
        "vocab_size": 64,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    env = {name: value for name, value in os.environ.items() if name != "VLLM_PLUGINS"}
    env |= {"PYTHONPATH": str(beside), vllm_plugin.ALLOCATOR: f"a:1,{vllm_plugin.MOVING}"}
    env |= {"LARDER_POOL": pool} if pool else {}
    done = subprocess.run(
        [sys.executable, "-c", ENGINE.format(model=tmp_path)],
        env=env,
        capture_output=True,
        text=True,
    )
    if pool:
        assert done.returncode == 0, done.stderr[-2000:]
        assert "set to False for this engine" in done.stderr + done.stdout
    else:
        assert done.returncode != 0 and "incompatible with" in done.stderr


@pytest.mark.parametrize(
    "value, argv, after",
    [
        (
            "max_split_size_mb:8,expandable_segments:True",
            [],
            "max_split_size_mb:8,expandable_segments:False",
        ),
        ("expandable_segments:False", [], "expandable_segments:False"),
        ("expandable_segments:True", ["--enable_sleep_mode"], "expandable_segments:True"),
        ("expandable_segments:True", ["--enable-cumem-allocator"], "expandable_segments:True"),
        ("expandable_segments:True", ["--enable-sleep-mode=true"], "expandable_segments:True"),
        ("expandable_segments:True", ["--no-enable-sleep-mode"], "expandable_segments:False"),
        (
            "expandable_segments:True",
            ["--enable-sleep-mode", "--no-enable-sleep-mode"],
            "expandable_segments:False",
        ),
        ("expandable_segments:True", ["--sleep-mode-backend=cumem"], "expandable_segments:False"),
        ("expandable_segments:True", ["/models/sleep-mode"], "expandable_segments:False"),
    ],
)
# covers F-330
def test_only_the_segments_of_the_allocator_change(value, argv, after, monkeypatch):
    monkeypatch.setenv("LARDER_POOL", "chat")
    monkeypatch.setenv(vllm_plugin.ALLOCATOR, value)
    monkeypatch.setattr(sys, "argv", ["vllm", *argv])
    vllm_plugin.register()
    assert os.environ[vllm_plugin.ALLOCATOR] == after


# covers F-330
def test_a_program_without_arguments_of_its_own_starts(monkeypatch):
    """An embedded Python has no sys.argv."""
    monkeypatch.setattr(KVConnectorFactory, "_registry", {})
    monkeypatch.setenv("LARDER_POOL", "chat")
    monkeypatch.setenv(vllm_plugin.ALLOCATOR, vllm_plugin.MOVING)
    monkeypatch.delattr(sys, "argv")
    vllm_plugin.register()
    assert os.environ[vllm_plugin.ALLOCATOR] == vllm_plugin.FIXED
    assert "LarderConnector" in KVConnectorFactory._registry
