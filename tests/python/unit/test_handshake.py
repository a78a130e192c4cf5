"""The workers' report before the first request: sender and receiver of the report, and other
connectors' reports are not lost."""

import pickle
from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")

from fakes import Client, Request, setup  # noqa: E402
from scheduler_fakes import store_all  # noqa: E402
from test_multi_connector import LARDER, make, multi, told  # noqa: E402, F401
from vllm.config.kv_transfer import KVTransferConfig  # noqa: E402
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory  # noqa: E402
from vllm.distributed.kv_transfer.kv_connector.v1.base import (  # noqa: E402
    KVConnectorHandshakeMetadata,
    KVConnectorRole,
)
from vllm.distributed.kv_transfer.kv_connector.v1.example_connector import ExampleConnector  # noqa: E402
from worker_fakes import Client as WorkerClient  # noqa: E402

from larder.vllm import connector  # noqa: E402
from larder.vllm.attention_kernels import Attention  # noqa: E402
from larder.vllm.handshake import WorkerHandshake  # noqa: E402
from larder.vllm.messages import WorkerReport  # noqa: E402
from larder.vllm.naming import Naming  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402
from larder.vllm.worker import LarderConnectorWorker  # noqa: E402

ONE, OTHER = (Attention((name,), ("rows",), (64,)) for name in ("ONE", "OTHER"))


class Foreign(KVConnectorHandshakeMetadata):
    pass


class Neighbour(ExampleConnector):
    """A connector that needs the metadata of its workers, like NIXL."""

    got = []

    def __init__(self, vllm_config, role, kv_cache_config):
        pass

    def get_handshake_metadata(self):
        return Foreign()

    def set_xfer_handshake_metadata_pp_aware(self, metadata):
        self.got.append(metadata)


class Name(Naming):
    """Of an engine with known weights and unknown attention."""

    def __init__(self):
        self._facts, self._attention, self._configuration = "engine: test\n", None, ({}, set())
        self._weights, self._text, self._objection, self._reported, self._warn_at = (
            "weights: w\n",
            None,
            None,
            set(),
            None,
        )


def whole(half):
    """A LarderConnector over this half."""
    made = object.__new__(connector.LarderConnector)
    made._half, made._tells = half, True
    return made


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def scheduler(client):
    return whole(LarderConnectorScheduler(setup(), client, Name()))


def said(attention=ONE, **more):
    return WorkerHandshake(WorkerReport(attention=frozenset([attention]), **more))


def test_the_first_request_hits_where_only_the_layers_know_their_attention(scheduler, client):
    request = Request("r", range(300))
    store_all(client, request)
    assert scheduler._half.get_num_new_matched_tokens(request, 0) == (0, False)
    scheduler.set_xfer_handshake_metadata_pp_aware({(0, 0): said(), (0, 1): said(), (1, 0): said()})
    assert scheduler._half.get_num_new_matched_tokens(Request("q", range(300)), 0) == (256, True)
    (text,) = client.namespaces
    assert ONE.text() in text


def test_a_repeated_report_after_a_wake_up_changes_nothing(scheduler, client):
    for _ in range(2):
        scheduler.set_xfer_handshake_metadata_pp_aware({(0, 0): said()})
    assert len(client.namespaces) == 1 and client.closed == [] and scheduler._half.off is None


def test_reports_of_other_connectors_are_ignored(scheduler, client):
    scheduler.set_xfer_handshake_metadata_pp_aware({(0, 0): Foreign(), (1, 0): Foreign()})
    assert client.namespaces == [] and scheduler._half.off is None
    scheduler.set_xfer_handshake_metadata_pp_aware({})


def test_workers_that_differ_turn_the_cache_off(scheduler):
    scheduler.set_xfer_handshake_metadata_pp_aware({(0, 0): said(), (0, 1): said(OTHER)})
    assert scheduler._half.off.startswith(
        "the workers of this engine differ in the attention of their layers"
    )


# covers F-260
def test_a_reason_that_a_worker_alone_found_comes_before_the_first_request(scheduler):
    scheduler.set_xfer_handshake_metadata_pp_aware(
        {(0, 0): said(), (0, 1): WorkerHandshake(WorkerReport(disabled="pages of other sizes"))}
    )
    assert scheduler._half.off == "pages of other sizes"


class TestWorker:
    def test_a_worker_reports_the_attention_of_its_layers_once_known(self):
        half = LarderConnectorWorker(setup(attention=OTHER), WorkerClient())
        assert half.first_report() == WorkerReport(), "the configuration's guess is no news"
        half._registered, half._attention = True, ONE
        half._measured = WorkerReport(ended={7: 1}, attention=frozenset([ONE]))
        word = pickle.loads(pickle.dumps(whole(half).get_handshake_metadata()))
        assert word == WorkerHandshake(
            WorkerReport(attention=frozenset([ONE]), places=frozenset([half._place]))
        )
        assert half.report() == WorkerReport(ended={7: 1}, attention=frozenset([ONE])), (
            "the report is not taken by the handshake"
        )

    def test_a_worker_reports_why_it_is_off(self):
        half = LarderConnectorWorker(setup(), WorkerClient())
        half.turn_off("a reason")
        assert whole(half).get_handshake_metadata() == WorkerHandshake(
            WorkerReport(disabled="a reason")
        )
        assert half.report() == WorkerReport(disabled="a reason")


# covers F-261
def test_beside_another_connector_a_worker_reports_nothing(make, monkeypatch):  # noqa: F811
    """A MultiConnector takes the first report as that of all its children."""
    monkeypatch.setattr(Neighbour, "got", [])
    monkeypatch.setitem(KVConnectorFactory._registry, "Neighbour", lambda: Neighbour)
    outer, _ = make(
        multi(multi(LARDER), {"kv_connector": "Neighbour", "kv_role": "kv_both"}),
        KVConnectorRole.WORKER,
    )
    word = outer.get_handshake_metadata()
    assert isinstance(word, Foreign)
    outer.set_xfer_handshake_metadata_pp_aware({(0, 0): word})
    assert Neighbour.got == [{(0, 0): word}]


def test_inside_a_forwarding_connector_a_worker_reports_nothing():
    class Wrapper(ExampleConnector):
        def __init__(self, vllm_config, role, kv_cache_config):
            self.inner = connector.LarderConnector(vllm_config, role, kv_cache_config)

    config = SimpleNamespace(kv_transfer_config=KVTransferConfig(**LARDER), lora_config=None)
    assert Wrapper(config, KVConnectorRole.WORKER, None).inner.get_handshake_metadata() is None


def test_an_error_while_the_makers_are_looked_for_turns_the_cache_off_alone(monkeypatch):
    def fail(made):
        raise RuntimeError("no frames here")

    monkeypatch.setattr(connector.surroundings, "alone", fail)
    config = SimpleNamespace(kv_transfer_config=KVTransferConfig(**LARDER), lora_config=None)
    made = connector.LarderConnector(config, KVConnectorRole.WORKER, None)
    assert "no frames here" in made._half.off and made.get_handshake_metadata() is None


def test_without_other_connectors_a_worker_reports(make):  # noqa: F811
    config = SimpleNamespace(kv_transfer_config=KVTransferConfig(**LARDER), lora_config=None)
    made = connector.LarderConnector(config, KVConnectorRole.WORKER, None)
    made._half = LarderConnectorWorker(setup(), WorkerClient())
    assert made.get_handshake_metadata() == WorkerHandshake(WorkerReport())
