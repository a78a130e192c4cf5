"""vLLM's server with Larder inside a MultiConnector, as the injector writes it for a pod that has another connector already. More of them:
tests/python/models/test_composed.py."""

import shutil
import types

import pytest
from engines import CONNECTOR, OFF, Engine, prompt, start_larderd

from larder.server import Server

WHOLE = prompt("composed server", 600)
TAIL = WHOLE[:512] + prompt("composed server, tail", 140)  # its whole blocks are more, by which ExampleConnector names it


def injected(folder):
    """operator/webhook/inject/connector_config.cc, of {"kv_connector": "ExampleConnector", ...}."""
    example = {"kv_connector": "ExampleConnector", "kv_role": "kv_both", "kv_connector_extra_config": {"shared_storage_path": str(folder)}}
    children = {"connectors": [example, CONNECTOR]}
    return {**example, "kv_connector": "MultiConnector", "kv_connector_extra_config": children, "kv_load_failure_policy": "recompute"}


@pytest.fixture(scope="module")
def world(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("composed")
    with start_larderd(folder) as larderd:
        # A list without our plugin: the processes of the server are left with what they import.
        more = {"VLLM_PLUGINS": "lora_filesystem_resolver"}
        with Engine(model, larderd.socket, folder, "--dtype", "float32", connector=injected(folder / "example"), **more) as engine:
            engine.wait_ready()
            engine.larderd = larderd
            yield types.SimpleNamespace(engine=engine, example=folder / "example")


# covers F-077
def test_it_answers_hits_and_counts(world):
    engine = world.engine
    expected = engine.ask(WHOLE, **OFF), engine.alone(TAIL)
    shutil.rmtree(world.example)  # ExampleConnector has forgotten both
    assert engine.ask_and_count(WHOLE) == (expected[0], 0)
    assert engine.ask_and_count(WHOLE) == (expected[0], 512), "of ExampleConnector, which is asked first"
    assert engine.ask_and_count(TAIL) == (expected[1], 512), "of Larder"
    assert engine._healthy()
    assert first_tokens(engine, "hit") >= 1 and first_tokens(engine, "miss") >= 1
    assert not engine.logged("Larder is off")


def first_tokens(engine, cache):
    with Server(engine.url).request("GET", "/metrics", timeout_s=60) as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if "larder_engine_first_token_seconds_count" in line and f'cache="{cache}"' in line)
