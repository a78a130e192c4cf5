"""TimedConnector: LarderConnector with every hook timed from outside. vLLM's processes import this
module (PYTHONPATH), the product never does.

A hook that calls another counts once. Clock and counters cost about 0.3 us a call, which is in the
hooks' time and in the arm's tokens/s. The printed figures are slightly worse than the true ones."""

from __future__ import annotations

import functools
import inspect
import os
import time

from engine_empty import EmptyConnector
from engine_hooks import FOLDER_VARIABLE, HookCounts, note_process
from engine_steps import EMPTY, LARDER, NONE
from engine_switch import switch_scheduler, switch_worker
from larder.vllm import LarderConnector
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole

NOT_OF_A_STEP = {"shutdown", "register_kv_caches", "reset_cache"}


class TimedConnector(LarderConnector):
    def __init__(self, vllm_config, role, kv_cache_config, **kwargs):
        super().__init__(vllm_config, role, kv_cache_config, **kwargs)
        names = [
            name
            for name, _ in inspect.getmembers(LarderConnector, inspect.isfunction)
            if not name.startswith("_") and name not in NOT_OF_A_STEP
        ]
        folder = os.environ[FOLDER_VARIABLE]
        process = "scheduler" if role == KVConnectorRole.SCHEDULER else "worker"
        self._counts = HookCounts(folder, process, names)
        note_process(folder, process, self._pump._thread.native_id)
        connectors = {
            NONE: None,
            LARDER: self,
            EMPTY: EmptyConnector(vllm_config, role, kv_cache_config),
        }
        if role == KVConnectorRole.SCHEDULER:
            switch_scheduler(connectors, folder)
        else:
            switch_worker(connectors)
        self._inside = False
        for index, name in enumerate(names):
            setattr(self, name, self._timed(index, getattr(self, name)))

    def _timed(self, index, method):
        @functools.wraps(method)
        def call(*args, **kwargs):
            if self._inside:
                return method(*args, **kwargs)
            self._inside = True
            begin = time.perf_counter_ns()
            try:
                return method(*args, **kwargs)
            finally:
                self._counts.add(index, time.perf_counter_ns() - begin)
                self._inside = False

        return call
