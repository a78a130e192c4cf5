"""The injector's --kv-transfer-config, read from the golden pods, for a real vLLM on a CPU."""

import json
import shutil

from engines import OFF, prompt
from golden_pods import injected

from larder.server import Server

LARDER = "LarderConnector"
WHOLE = prompt("composed server", 600)
# more whole blocks, by which ExampleConnector names the prompt
TAIL = WHOLE[:512] + prompt("composed server, tail", 140)


def children(config):
    return config.get("kv_connector_extra_config", {}).get("connectors", ())


def has_larder(config):
    return config.get("kv_connector") == LARDER or any(
        has_larder(child) for child in children(config)
    )


def written(root):
    """{name of the first pod: configuration}, each once: of flags, scripts and variables."""
    found = {}
    for name, _, pod in injected(root):
        for container in pod["spec"]["containers"]:
            words = [*(container.get("command") or []), *(container.get("args") or [])]
            words += [str(one.get("value", "")) for one in container.get("env") or []]
            for config in filter(has_larder, configurations("\n".join(words))):
                found.setdefault(json.dumps(config, sort_keys=True), name)
    return {name: json.loads(text) for text, name in found.items()}


def configurations(text):
    """The JSON objects with a kv_connector in the text. Text for `eval` has a backslash before each
    quote."""
    text, at, decoder = text.replace('\\"', '"'), 0, json.JSONDecoder()
    while (at := text.find("{", at)) >= 0:
        try:
            found, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            at += 1
        else:
            if "kv_connector" in found:
                yield found


def on_a_cpu(config, folder):
    """The configuration with ExampleConnector over `folder` in NIXL's place, and one of
    tests/python/models in the place of a user's module."""
    if children(config):
        return {
            **config,
            "kv_connector_extra_config": {
                "connectors": [on_a_cpu(one, folder) for one in children(config)]
            },
        }
    if config["kv_connector"] == LARDER:
        return config
    if "kv_connector_module_path" in config:
        return {
            **config,
            "kv_connector": "FailingNeighbour",
            "kv_connector_module_path": "neighbour",
        }
    return {
        **config,
        "kv_connector": "ExampleConnector",
        "kv_connector_extra_config": {"shared_storage_path": str(folder)},
    }


def answers_hits_and_counts(engine, example):
    """AssertionError otherwise. example: the folder of ExampleConnector, if there is one."""
    expected = engine.ask(WHOLE, **OFF), engine.alone(TAIL)
    shutil.rmtree(example, ignore_errors=True)  # ExampleConnector has forgotten both
    assert engine.ask_and_count(WHOLE) == (expected[0], 0)
    assert engine.ask_and_count(WHOLE) == (expected[0], 512), (
        "of ExampleConnector, which is asked first, or of Larder"
    )
    assert engine.ask_and_count(TAIL) == (expected[1], 512), "of Larder"
    assert engine._healthy()
    assert first_tokens(engine, "hit") >= 1 and first_tokens(engine, "miss") >= 1
    assert not engine.logged("Larder is off")


def first_tokens(engine, cache):
    with Server(engine.url).request("GET", "/metrics", timeout_s=60) as response:
        lines = response.read().decode().splitlines()
    return sum(
        float(line.split()[-1])
        for line in lines
        if "larder_engine_first_token_seconds_count" in line and f'cache="{cache}"' in line
    )
