"""The connector where Larder cannot take part: who says why, and how loudly."""

import logging
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")

from fakes import ended, setup  # noqa: E402
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole  # noqa: E402

from larder.vllm import connector, guard  # noqa: E402
from larder.vllm.messages import COMPUTES  # noqa: E402


@pytest.fixture
def told():
    """Log records of the connector as (level, text)."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append((record.levelname, record.getMessage()))
    level = guard.logger.level
    guard.logger.addHandler(handler)
    guard.logger.setLevel(logging.DEBUG)
    yield lines
    guard.logger.removeHandler(handler)
    guard.logger.setLevel(level)


def make(role, monkeypatch, reason):
    def refuse(*_):
        raise reason

    monkeypatch.setattr(connector, "setup_of", refuse)
    transfer = SimpleNamespace(kv_load_failure_policy="fail")
    return connector.LarderConnector(SimpleNamespace(kv_transfer_config=transfer), role, None)


LINE = "Larder is off for this engine: several KV groups are not served yet (2)"


def test_a_setting_that_is_not_served_is_one_line_of_both_halves(monkeypatch, told):
    reason = connector.Unsupported("several KV groups are not served yet (2)")
    scheduler = make(KVConnectorRole.SCHEDULER, monkeypatch, reason)
    worker = make(KVConnectorRole.WORKER, monkeypatch, reason)
    scheduler.update_connector_output(ended(meta=worker.build_connector_worker_meta()))
    assert told == [("WARNING", LINE), ("DEBUG", LINE)]


def test_what_a_worker_alone_finds_is_said_by_the_scheduler(monkeypatch, told):
    worker = make(KVConnectorRole.WORKER, monkeypatch, connector.Unsupported("several KV groups are not served yet (2)"))
    scheduler = connector.SchedulerHalf(setup(), None)
    scheduler.worker_output(ended(meta=worker.build_connector_worker_meta()))
    assert told == [("DEBUG", LINE), ("WARNING", LINE)]


def test_what_nobody_expected_is_said_by_each(monkeypatch, told):
    for role in (KVConnectorRole.SCHEDULER, KVConnectorRole.WORKER):
        make(role, monkeypatch, OSError("liblarder.so cannot be loaded"))
    assert told == [("WARNING", "Larder is off for this engine: OSError: liblarder.so cannot be loaded")] * 2


def test_the_hooks_of_a_layer_are_left_out(monkeypatch):
    """vLLM asks for them only where metadata is set; two calls for each layer of each step."""
    worker = make(KVConnectorRole.WORKER, monkeypatch, connector.Unsupported("not served yet"))
    worker.bind_connector_metadata(COMPUTES)
    assert not worker.has_connector_metadata()


def test_late_lines_come_from_the_pump_with_their_own_time_and_place(told):
    class Silent:
        def next_log(self):
            return None

    records = []
    handler = logging.Handler()
    handler.emit = records.append
    guard.logger.addHandler(handler)
    try:
        before = time.time()
        guard.late.info("Storing %d tokens", 256)
        assert told == []
        pump = guard.LogPump(Silent())
        pump.stop()
    finally:
        guard.logger.removeHandler(handler)
    assert told == [("INFO", "Storing 256 tokens")]
    (record,) = records
    assert before <= record.created <= time.time() and record.filename == "test_connector.py" and record.levelname == "INFO"
