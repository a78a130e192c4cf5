"""Larder as a child of vLLM's own MultiConnector: the fields that vLLM reads from the outermost
configuration, and statistics."""

import copy
from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")

import prometheus_client  # noqa: E402
from fakes import Request  # noqa: E402
from vllm.config.kv_transfer import KVTransferConfig  # noqa: E402
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole  # noqa: E402
from vllm.distributed.kv_transfer.kv_connector.v1.multi_connector import MultiConnector  # noqa: E402
from vllm.v1.core.sched.output import SchedulerOutput  # noqa: E402

from larder.vllm import connector  # noqa: E402
from larder.vllm.engine_metrics import Observed  # noqa: E402
from larder.vllm.groups import Shards  # noqa: E402
from larder.vllm.fail_safe import FailSafe  # noqa: E402

LARDER = {
    "kv_connector": "LarderConnector",
    "kv_connector_module_path": "larder.vllm",
    "kv_role": "kv_both",
}


def multi(*children, role="kv_both", **more):
    return {
        "kv_connector": "MultiConnector",
        "kv_role": role,
        "kv_connector_extra_config": {"connectors": list(children)},
        **more,
    }


@pytest.fixture
def told(monkeypatch):
    lines = []
    monkeypatch.setattr(
        connector.surroundings.logger, "warning", lambda text, *args: lines.append(text % args)
    )
    monkeypatch.setattr(
        connector.surroundings.logger, "log", lambda level, text, *args: lines.append(text % args)
    )
    return lines


@pytest.fixture
def make(monkeypatch, told):
    """make(config): (the outermost connector, its configuration), like vLLM's scheduler. Larder's
    part has no larderd."""

    def refuse(*_):
        raise connector.Unsupported("a test without larderd")

    def served(vllm_config, _):
        return SimpleNamespace(
            loads=vllm_config.kv_transfer_config.is_kv_consumer, shards=Shards(), traces_endpoint=""
        )

    monkeypatch.setattr(connector, "setup_of", served)
    monkeypatch.setattr(connector, "_open", refuse)
    monkeypatch.setattr(connector, "LarderConnectorScheduler", lambda *_: FailSafe(None, None))
    monkeypatch.setattr(connector, "LarderConnectorWorker", lambda *_: FailSafe(None, None))

    def maker(config, role=KVConnectorRole.SCHEDULER):
        outer = KVTransferConfig(**config)
        vllm_config = SimpleNamespace(
            kv_transfer_config=outer,
            scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=True),
            lora_config=None,
        )
        return MultiConnector(vllm_config, role, None), outer

    return maker


DEEP = multi(multi(multi(LARDER)))
POLICY = 'kv_load_failure_policy is "recompute" for all connectors of this MultiConnector'


@pytest.mark.parametrize(
    "config",
    [multi(LARDER), DEEP, multi(multi(LARDER, kv_load_failure_policy="recompute"))],
    ids=["child", "deep", "inner"],
)
# covers F-078
def test_the_policy_in_force_is_the_outermost_ones(config, make, told):
    _, outer = make(config)
    assert outer.kv_load_failure_policy == "recompute"
    (line,) = [line for line in told if "kv_load_failure_policy" in line]
    assert POLICY in line and "outermost --kv-transfer-config" in line


def test_a_sufficient_policy_is_not_logged(make, told):
    make(multi(LARDER, kv_load_failure_policy="recompute"))
    assert told == ["Larder is off for this engine: a test without larderd"]


@pytest.mark.parametrize(
    "outer, own, then",
    [
        ("kv_producer", "kv_both", "kv_both"),
        ("kv_producer", "kv_consumer", "kv_both"),
        ("kv_producer", "kv_producer", "kv_producer"),
        ("kv_consumer", "kv_both", "kv_consumer"),
    ],
)
# covers F-078
def test_blocks_that_larder_loads_into_are_held_back(outer, own, then, make, told):
    """vLLM does so where the outermost role is one that loads."""
    _, config = make(multi({**LARDER, "kv_role": own}, role=outer))
    assert config.kv_role == then
    assert any("kv_role" in line for line in told) == (outer != then)


def test_an_engine_that_is_not_served_leaves_the_others_as_they_are(make, told, monkeypatch):
    def refuse(*_):
        raise connector.Unsupported("KV of that kind is not served yet")

    monkeypatch.setattr(connector, "setup_of", refuse)
    _, outer = make(multi(LARDER, role="kv_producer"))
    assert (outer.kv_load_failure_policy, outer.kv_role) == ("fail", "kv_producer")
    assert told == ["Larder is off for this engine: KV of that kind is not served yet"]


def test_without_other_connectors_nothing_is_logged(make, told):
    config = SimpleNamespace(kv_transfer_config=KVTransferConfig(**LARDER), lora_config=None)
    connector.LarderConnector(config, KVConnectorRole.SCHEDULER, None)
    assert config.kv_transfer_config.kv_load_failure_policy == "recompute"
    assert told == ["Larder is off for this engine: a test without larderd"]


def test_a_worker_leaves_the_policy_to_the_scheduler(make, told):
    _, outer = make(multi(LARDER), KVConnectorRole.WORKER)
    assert outer.kv_load_failure_policy == "fail" and not any("kv_load" in line for line in told)


# covers F-078
def test_a_policy_that_cannot_be_set_turns_the_cache_off(make, told, monkeypatch):
    def frozen(self, name, value):
        if (
            name == "kv_load_failure_policy"
            and "kv_connector" in self.__dict__
            and self.kv_connector == "MultiConnector"
        ):
            raise AttributeError("frozen")
        object.__setattr__(self, name, value)

    made = KVTransferConfig(**multi(LARDER))
    monkeypatch.setattr(KVTransferConfig, "__setattr__", frozen)
    config = SimpleNamespace(
        kv_transfer_config=made,
        scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=True),
        lora_config=None,
    )
    MultiConnector(config, KVConnectorRole.SCHEDULER, None)
    (line,) = told
    assert (
        line.startswith("Larder is off")
        and '"kv_load_failure_policy": "recompute"' in line
        and "outermost" in line
    )


def test_a_vllm_that_hides_loads_of_others_is_refused(make, told, monkeypatch):
    fields = {
        name: field
        for name, field in SchedulerOutput.__dataclass_fields__.items()
        if name != "has_sync_kv_loads"
    }
    monkeypatch.setattr(SchedulerOutput, "__dataclass_fields__", fields)
    make(multi({**LARDER, "kv_role": "kv_producer"}))
    assert "has_sync_kv_loads is missing" in told[0]


class Scheduler:
    """The fields of vLLM that Larder looks at."""

    def __init__(self, connector, recompute, defers=True, batches=2):
        self.connector = connector
        self.recompute_kv_load_failures, self.defer_block_free = recompute, defers
        self.vllm_config = SimpleNamespace(max_concurrent_batches=batches)

    def update_from_output(self):
        pass

    def schedule(self, request):
        return self.connector.get_num_new_matched_tokens(request, 0)


@pytest.fixture
def served(make):
    """A MultiConnector of which Larder's part is on."""
    outer, _ = make(DEEP)
    found = outer
    while isinstance(found, MultiConnector):
        (found,) = found.sub_connectors
    found._half.off, found._half.setup = None, SimpleNamespace(loads=True)
    found._half.get_num_new_matched_tokens = lambda request, local: (0, False)
    return outer, found._half


@pytest.mark.parametrize(
    "state, field",
    [
        (dict(recompute=False), "kv_load_failure_policy"),
        # fmt: skip
        (dict(recompute=True, defers=False), "kv_role"),
    ],
)
# covers F-078
def test_a_scheduler_that_does_otherwise_turns_the_cache_off(state, field, served):
    outer, half = served
    assert Scheduler(outer, **state).schedule(Request("r", range(10))) == (0, False)
    assert f'"{field}"' in half.off


@pytest.mark.parametrize(
    "state", [dict(recompute=True), dict(recompute=True, defers=False, batches=1)]
)
def test_a_scheduler_that_does_so_is_left_alone(state, served):
    outer, half = served
    Scheduler(outer, **state).schedule(Request("r", range(10)))
    assert half.off is None


def test_statistics_come_through_any_number_of_levels():
    inner = MultiConnector.build_kv_connector_stats({"LarderConnector": Observed({"hit": [0.5]})})
    sent = copy.deepcopy(
        MultiConnector.build_kv_connector_stats({"MultiConnector": inner}).to_dict()
    )
    assert sent == {"MultiConnector": {"LarderConnector": {"hit": [0.5]}}}
    for _ in range(2):
        back = MultiConnector.build_kv_connector_stats(sent)
        assert back.reduce()["MultiConnector"]["LarderConnector"]["first tokens, hit"] == 1


def test_metrics_of_a_larder_at_several_levels_are_one():
    kinds = (prometheus_client.Gauge, prometheus_client.Counter, prometheus_client.Histogram)
    config = SimpleNamespace(kv_transfer_config=KVTransferConfig(**multi(LARDER, multi(LARDER))))
    made = MultiConnector.build_prom_metrics(
        config, {kind: kind for kind in kinds}, ["model_name", "engine"], {0: ["levels", "0"]}
    )
    made.observe(
        {"LarderConnector": {"hit": [1.0]}, "MultiConnector": {"LarderConnector": {"hit": [2.0]}}},
        0,
    )
    labels = {"model_name": "levels", "engine": "0", "cache": "hit"}
    assert (
        prometheus_client.REGISTRY.get_sample_value(
            "larder_engine_first_token_seconds_count", labels
        )
        == 2
    )
