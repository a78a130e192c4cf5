"""Larder beside other connectors: each configuration that the injector composes, and configurations
written by hand, in a real vLLM.

With a server: test_composed_servers.py."""

from pathlib import Path

import pytest
from composed_configs import children, on_a_cpu, written
from engines import CONNECTOR, prompt, start_larderd
from neighbour import FIRST
from test_models import ask
from walk import Walk

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ENV = {"PYTHONPATH": f"{HERE}:{ROOT / 'shim' / 'python'}"}


def multi(*children, **more):
    return {
        "kv_connector": "MultiConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"connectors": list(children)},
        **more,
    }


EXAMPLE = {"kv_connector": "ExampleConnector", "kv_role": "kv_both"}
POLICY = {"kv_load_failure_policy": "recompute"}
BY_HAND = {
    "alone": multi(CONNECTOR),
    "alone, as the injector adds it": multi(CONNECTOR, **POLICY),
    "first": multi(CONNECTOR, EXAMPLE),
    "nested": multi(multi(CONNECTOR), EXAMPLE),
    "deep": multi(multi(multi(CONNECTOR))),
    "twice": multi(multi(CONNECTOR), CONNECTOR),
    "a producer": multi({**EXAMPLE, "kv_role": "kv_producer"}, CONNECTOR, kv_role="kv_producer"),
    "a consumer": multi({**EXAMPLE, "kv_role": "kv_consumer"}, CONNECTOR, kv_role="kv_consumer"),
}
CONFIGS = {
    **{name: config for name, config in written(ROOT).items() if children(config)},
    **BY_HAND,
}


def off(log):
    return [line for line in log.splitlines() if "Larder is off" in line]


WHOLE = prompt("composed", 600)
FAILING = [FIRST, *prompt("failing", 599)]
TAIL, OTHER = (WHOLE[:512] + prompt(f"composed {name}", 140) for name in ("tail", "other"))


@pytest.fixture(scope="module")
def model(models):
    return models("llama")


@pytest.fixture(scope="module")
def alone(model, world, tmp_path_factory):
    """The answers of an engine without any cache, by prompt."""
    asked = [WHOLE, TAIL, OTHER, FAILING]
    steps = [step for text in asked for step in (ask(text, off=True), {"reset": True})]
    results, _ = Walk(world, tmp_path_factory.mktemp("alone"), model, dtype="float32").run(
        steps, timeout_s=600
    )
    return {tuple(text): result["tokens"] for text, result in zip(asked, results)}


@pytest.mark.parametrize("name", CONFIGS)
# covers F-078
def test_a_composed_engine_answers_alike_and_hits(name, model, alone, tmp_path):
    """ExampleConnector names a prompt by all of its whole blocks, so Larder is asked for a prompt
    with another tail. The last ask finds zeroed KV in Larder."""
    with start_larderd(tmp_path) as larderd:
        walk, config = (
            Walk(larderd, tmp_path, model, env=ENV, dtype="float32"),
            on_a_cpu(CONFIGS[name], tmp_path / "example"),
        )
        steps = [
            ask(WHOLE),
            *walk.settled(),
            ask(WHOLE),
            *walk.settled(),
            ask(TAIL),
            *walk.settled(),
        ]
        results, log = walk.run(
            [*steps, {"zero": f"/dev/shm/{larderd.shm_name}.arena"}, ask(OTHER)],
            timeout_s=600,
            connector=config,
        )
        assert not off(log), off(log)
        assert [one["hit"] for one in results[:3]] == [0, 512, 512]
        assert [one["tokens"] for one in results] == [
            alone[tuple(text)] for text in (WHOLE, WHOLE, TAIL, OTHER)
        ]
        assert larderd.metrics()["larder_checksum_failures_total"] > 0, (
            "the last ask must have tried to load"
        )


# covers F-079
def test_failed_loads_of_a_neighbour_are_not_stored(model, alone, tmp_path):
    neighbour = {
        "kv_connector": "FailingNeighbour",
        "kv_connector_module_path": "neighbour",
        "kv_role": "kv_both",
    }
    with start_larderd(tmp_path) as larderd:
        walk = Walk(larderd, tmp_path, model, env=ENV, dtype="float32")
        steps = [ask(FAILING), *walk.settled(), ask(FAILING), *walk.settled(), ask(FAILING)]
        (failed, computed, hit), log = walk.run(
            steps, timeout_s=600, connector=multi(neighbour, CONNECTOR, **POLICY)
        )
        assert "Recovered from KV load failure" in log
        expected = alone[tuple(FAILING)]
        assert failed["tokens"] == expected, "vLLM computes what failed"
        assert computed["tokens"] == expected, "the failed blocks held KV of another prompt"
        assert (computed["hit"], hit["hit"], hit["tokens"]) == (0, 512, expected)


# covers F-256
def test_kv_of_other_weights_from_a_neighbour_is_not_stored(model, alone, tmp_path):
    neighbour = {
        "kv_connector": "ForeignNeighbour",
        "kv_connector_module_path": "neighbour",
        "kv_role": "kv_both",
    }
    with start_larderd(tmp_path) as larderd:
        walk = Walk(larderd, tmp_path, model, env=ENV, dtype="float32")
        steps = [ask(FAILING), *walk.settled(), ask(FAILING), *walk.settled(), ask(FAILING)]
        (brought, computed, hit), log = walk.run(
            steps, timeout_s=600, connector=multi(neighbour, CONNECTOR, **POLICY)
        )
        expected = alone[tuple(FAILING)]
        assert brought["tokens"] != expected, "the control: KV of other weights changes the answer"
        assert (computed["hit"], computed["tokens"]) == (0, expected), (
            "the prompt is not in the cache"
        )
        assert (hit["hit"], hit["tokens"]) == (512, expected), "and the own one is"
        assert log.count("another connector of this engine loads KV") == 1
