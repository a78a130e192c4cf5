"""The connector where Larder cannot take part: who says why, and how loudly."""

import logging
import re
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")

from fakes import ended, setup  # noqa: E402
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole  # noqa: E402

from larder import _native as native  # noqa: E402
from larder.client import LarderError  # noqa: E402
from larder.vllm import connector, fail_safe, words  # noqa: E402
from larder.vllm.messages import COMPUTES  # noqa: E402


@pytest.fixture
def told():
    """Log records of the connector as (level, text)."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append((record.levelname, record.getMessage()))
    level = fail_safe.logger.level
    fail_safe.logger.addHandler(handler)
    fail_safe.logger.setLevel(logging.DEBUG)
    yield lines
    fail_safe.logger.removeHandler(handler)
    fail_safe.logger.setLevel(level)


def make(role, monkeypatch, reason):
    def refuse(*_):
        raise reason

    monkeypatch.setattr(connector, "setup_of", refuse)
    transfer = SimpleNamespace(kv_load_failure_policy="fail")
    return connector.LarderConnector(SimpleNamespace(kv_transfer_config=transfer), role, None)


LINE = "Larder is off for this engine: several KV groups are not served yet (2)"


# covers F-082
def test_a_setting_that_is_not_served_is_one_line_of_both_halves(monkeypatch, told):
    reason = connector.Unsupported("several KV groups are not served yet (2)")
    scheduler = make(KVConnectorRole.SCHEDULER, monkeypatch, reason)
    worker = make(KVConnectorRole.WORKER, monkeypatch, reason)
    scheduler.update_connector_output(ended(meta=worker.build_connector_worker_meta()))
    assert told == [("WARNING", LINE), ("DEBUG", LINE)]


def test_a_reason_found_by_a_worker_is_logged_by_the_scheduler(monkeypatch, told):
    worker = make(
        KVConnectorRole.WORKER,
        monkeypatch,
        connector.Unsupported("several KV groups are not served yet (2)"),
    )
    scheduler = connector.LarderConnectorScheduler(setup(), None)
    scheduler.update_connector_output(ended(meta=worker.build_connector_worker_meta()))
    assert told == [("DEBUG", LINE), ("WARNING", LINE)]


def test_an_unexpected_error_is_logged_by_each_half(monkeypatch, told):
    for role in (KVConnectorRole.SCHEDULER, KVConnectorRole.WORKER):
        make(role, monkeypatch, OSError("liblarder.so cannot be loaded"))
    assert told == [("WARNING", "Larder is off for this engine: liblarder.so cannot be loaded")] * 2


# Values of the library or of Python without a meaning for users.
INTERNAL = (
    r"larder_[a-z]+|LarderError|OSError|invalid argument|out of range|resource exhausted|failed "
    r"precondition|\bunsupported\b|unavailable"
)


@pytest.mark.parametrize("status", range(1, 13))
@pytest.mark.parametrize("role", [KVConnectorRole.SCHEDULER, KVConnectorRole.WORKER])
def test_library_errors_are_explained_to_the_user(monkeypatch, told, role, status):
    make(role, monkeypatch, LarderError("larder_open", status))
    ((_, line),) = told
    unforeseen = status in (
        native.NOT_FOUND,
        native.ALREADY_EXISTS,
        native.DATA_LOSS,
        native.INTERNAL,
    )
    assert ("please report" in line) == unforeseen
    assert unforeseen or not re.search(INTERNAL, line), line


def test_a_message_of_the_library_is_logged_verbatim(monkeypatch, told):
    make(
        KVConnectorRole.SCHEDULER,
        monkeypatch,
        LarderError("larder_set_namespace", native.OUT_OF_RANGE, "group 0: too large"),
    )
    assert told == [("WARNING", "Larder is off for this engine: group 0: too large")]


def test_a_fault_of_larder_asks_to_be_reported(monkeypatch, told):
    make(KVConnectorRole.SCHEDULER, monkeypatch, TypeError("5"))
    assert told[0][1].endswith("TypeError: 5; this is a fault of Larder: please report this line")


@pytest.mark.parametrize("status", range(1, 13))
def test_load_failures_are_explained_to_the_user(status):
    reason = native.library().larder_status_text(status).decode()
    if reason in words._LOAD_FAILED:
        assert not re.search(INTERNAL, words.of_load(reason))
    told_by_the_library = {
        "data loss",
        "not found",
        "deadline exceeded",
        "unavailable",
        "resource exhausted",
    }
    assert (reason in words._LOAD_FAILED) == (reason in told_by_the_library)


def test_a_refused_library_call_is_logged_once():
    """As an exception, and by the library's own log, which goes to debug."""
    lines = [
        ("error", "larder_register_pages: no such group: 7"),
        ("warning", "no cache for now, trying on: x"),
    ]
    client = SimpleNamespace(next_log=lambda: lines.pop(0) if lines else None)
    written = []
    handler = logging.Handler()
    handler.emit = lambda record: written.append(record.levelname)
    fail_safe.logger.addHandler(handler)
    level = fail_safe.logger.level
    fail_safe.logger.setLevel(logging.DEBUG)
    try:
        fail_safe.LogPump(client).stop()
    finally:
        fail_safe.logger.removeHandler(handler)
        fail_safe.logger.setLevel(level)
    assert written == ["DEBUG", "WARNING"]


def test_a_library_of_another_release_is_named(monkeypatch, tmp_path):
    """The library loads, and lacks a function."""
    import ctypes.util

    monkeypatch.setattr(native, "_library", None)
    monkeypatch.setenv("LARDER_LIBRARY", ctypes.util.find_library("z") or "libz.so.1")
    with pytest.raises(
        OSError,
        match=(
            r"libz.* has no function larder_\w+: the library is of another release than the "
            r"Python package larder\. Install both"
        ),
    ):
        native.library()


def test_the_hooks_of_a_layer_are_left_out(monkeypatch):
    """vLLM calls these hooks only with metadata; two calls for each layer of each step."""
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
    fail_safe.logger.addHandler(handler)
    try:
        pump = fail_safe.LogPump(Silent())
        before = time.time()
        fail_safe.late.info("Storing %d tokens", 256)
        pump.stop()
    finally:
        fail_safe.logger.removeHandler(handler)
    assert told == [("INFO", "Storing 256 tokens")]
    (record,) = records
    assert (
        before <= record.created <= time.time()
        and record.filename == "test_connector.py"
        and record.levelname == "INFO"
    )


def test_without_a_pump_a_late_line_is_written_at_once(told):
    """A half without a connector, as in the tests of the halves: the lines had no owner and came at
    the interpreter's exit."""
    fail_safe.late.info("Storing %d tokens", 512)
    assert told == [("INFO", "Storing 512 tokens")]
