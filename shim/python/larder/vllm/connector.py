"""LarderConnector: vLLM's KVConnectorBase_V1 over the two halves. Thin: each hook is one call."""

import atexit
import logging
import os
import time
import weakref

from vllm.distributed.kv_transfer.kv_connector.v1 import base
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorRole,
    SupportsHMA,
)

from larder import vllm_plugin
from larder.client import Client, await_copies
from larder.vllm import (
    handshake,
    loaded_adapters,
    one_process,
    sleep_mode,
    surroundings,
    weight_changes,
    words,
)
from larder.vllm.engine_metrics import Exported, Observed
from larder.vllm.fail_safe import LogPump, logger
from larder.vllm.messages import StepWork
from larder.vllm.naming import START_WAIT_S, Naming
from larder.vllm.request_traces import TracedScheduler
from larder.vllm.scheduler import LarderConnectorScheduler
from larder.vllm.setup import Unsupported, setup_of
from larder.vllm.span_exports import open_exports
from larder.vllm.tier_events import TierEvents, wanted
from larder.vllm.worker import LarderConnectorWorker

try:
    from vllm.v1.metrics.cache_hit_source import CacheHitSource

    _HOST = CacheHitSource.HOST
except ImportError:  # a vLLM whose metrics have one source for all connectors
    _HOST = None


EXIT_WAIT_S = 10  # for copies, at the exit of an interpreter that did not shut vLLM down


class LarderConnector(KVConnectorBase_V1, SupportsHMA):
    """One for the scheduler, one for each worker, each with its own attachment to larderd."""

    requires_kv_delivery = False  # a cache: a store that is lost is a later miss
    _cache_hit_source = _HOST

    def __init__(self, vllm_config, role, kv_cache_config, **kwargs):
        super().__init__(vllm_config, role, kv_cache_config, **kwargs)
        self._client = self._pump = self._naming = self._spans = None
        self._looked_around = False
        self._tells = self._answers = False
        is_scheduler = role == KVConnectorRole.SCHEDULER
        setup, off, level = None, None, logging.WARNING
        shard, replica = 0, 0
        try:
            # The MultiConnector of an older vLLM ends the engine where two connectors answer.
            self._answers = alone = surroundings.alone(self)
            self._tells = handshake.IS_HEARD and alone  # mutation: handshake-alone
            setup = setup_of(vllm_config, kv_cache_config)
            one_process.check()
            if is_scheduler:
                surroundings.prepare(self, vllm_config, setup.loads)
            else:
                shard, replica = setup.shards.of(*_stage_and_rank(setup.shards))
            if getattr(vllm_config, "lora_config", None) is not None:
                loaded_adapters.watch()
            self._client = _open(
                setup, shard, "scheduler" if is_scheduler else f"worker of shard {shard}"
            )
            self._pump = LogPump(self._client)
            if is_scheduler:
                self._naming = Naming(setup, vllm_config)
                weight_changes.watch_model(vllm_config)
            else:
                sleep_mode.take_part(vllm_config.model_config)
        except Unsupported as reason:
            off = str(reason)
            # the scheduler's half finds or hears the same reason, and logs the reason once
            if not is_scheduler:
                level = logging.DEBUG
        except Exception as error:
            off = words.of_error(error)
        if is_scheduler:
            events = (
                TierEvents(setup, self._client) if off is None and wanted(vllm_config) else None
            )
            arguments = setup, self._client, self._naming, vllm_config, events
            self._spans = open_exports(setup)
            self._half = (
                LarderConnectorScheduler(*arguments)
                if self._spans is None
                else TracedScheduler(self._spans, *arguments)
            )
        else:
            self._half = LarderConnectorWorker(
                setup, self._client, shard, replica, getattr(vllm_config, "lora_config", None)
            )
        if off is not None:
            self._half.turn_off(off, level)
        elif is_scheduler:
            self._half.begin(START_WAIT_S)
        _LIVING.add(self)

    def __init_subclass__(cls, **kwargs):
        """A MultiConnector names its children's statistics by their classes."""
        super().__init_subclass__(**kwargs)
        vllm_plugin.register_as(cls.__name__, cls.__module__)

    # ---- scheduler

    def get_num_new_matched_tokens(self, request, num_computed_tokens, **kwargs):
        if not self._looked_around:
            self._look_around()
        return self._half.get_num_new_matched_tokens(request, num_computed_tokens)

    def _look_around(self):
        """Runs at the first request, when vLLM has made its scheduler."""
        self._looked_around = True
        if (
            self._half.off is None
            and self._half.setup.loads
            and (reason := surroundings.objection())
        ):
            self._half.turn_off(reason)

    def update_state_after_alloc(self, request, blocks, num_external_tokens, **kwargs):
        self._half.update_state_after_alloc(request, blocks, num_external_tokens)

    def set_xfer_handshake_metadata_pp_aware(self, metadata):
        """metadata: {(stage, rank): metadata of the worker}; other connectors' too."""
        if (report := handshake.report_of(metadata)) is not None:
            self._half.hear(report)

    def build_connector_meta(self, scheduler_output):
        return self._half.build_connector_meta(scheduler_output)

    def update_connector_output(self, connector_output):
        self._half.update_connector_output(connector_output)

    def request_finished(self, request, block_ids):
        keeps = self._half.request_finished(request, block_ids)
        answer = self._half.take_answer(request.request_id)
        return keeps, answer if self._answers else None  # mutation: answer-alone

    def request_finished_all_groups(self, request, block_ids):
        return self.request_finished(request, block_ids)

    def has_pending_block_frees(self):
        return self._half.waits_for_blocks

    def has_pending_push_work(self):
        return self._half.holds_blocks

    def bind_gpu_block_pool(self, gpu_block_pool):
        self._half.bind_gpu_block_pool(gpu_block_pool)

    def take_events(self):
        return self._half.take_events()

    def reset_cache(self):
        return self._half.reset_cache()

    def get_kv_connector_stats(self):
        """vLLM asks both halves; a worker has no statistics."""
        return self._half.observed() if isinstance(self._half, LarderConnectorScheduler) else None

    @classmethod
    def build_kv_connector_stats(cls, data=None):
        return Observed(data or {})

    @classmethod
    def build_prom_metrics(cls, vllm_config, metric_types, labelnames, per_engine_labelvalues):
        return Exported(vllm_config, metric_types, labelnames, per_engine_labelvalues)

    # ---- worker

    def register_kv_caches(self, kv_caches):
        self._half.register_kv_caches(kv_caches, self._vllm_config)

    def get_handshake_metadata(self):
        return handshake.WorkerHandshake(self._half.first_report()) if self._tells else None

    def unregister_kv_caches(self):
        """Before the memory of the KV pages goes (sleep mode); vLLM 0.33 and newer. Raises if
        copies may still run: vLLM's answer to /sleep."""
        sleep_mode.pages_leave()

    def restore_kv_caches(self):
        sleep_mode.pages_are_back()

    def handle_preemptions(self, kv_connector_metadata=None, **_):
        # vLLM 0.15 names the argument preempted_req_ids, with requests that bind_connector_metadata
        # has too.
        work = kv_connector_metadata
        if isinstance(work, StepWork) and (work.preempted or work.rewritten):
            self._half.handle_preemptions(work.preempted, work.rewritten)

    def bind_connector_metadata(self, connector_metadata):
        """Keeps no metadata: without metadata (has_connector_metadata) vLLM skips the empty hooks
        of the layers."""
        if isinstance(connector_metadata, StepWork):
            self._half.bind_connector_metadata(connector_metadata)

    def start_load_kv(self, forward_context, **kwargs):
        """Empty: asynchronous loads start in bind_connector_metadata, so that the forward pass
        hides the loads."""

    def wait_for_layer_load(self, layer_name):
        """Empty: no load is synchronous."""

    def save_kv_layer(self, layer_name, kv_layer, attn_metadata, **kwargs):
        """Empty: whole chunks are stored from wait_for_save on."""

    def finish_forward(self):
        self._half.finish_forward()

    def wait_for_save(self):
        self._half.wait_for_save()

    def get_transfer_results(self, finished_req_ids):
        ended, failed = self._half.get_transfer_results()
        free = self._half.free_requests()
        return base.KVConnectorTransferResults(
            finished_sending=free, finished_recving=ended, failed_recving=failed
        )

    def get_finished(self, finished_req_ids):
        """Called by vLLM 0.29 and older, which hears of failed loads by page."""
        ended, _ = self._half.get_transfer_results()
        return self._half.free_requests() or None, ended or None

    def get_block_ids_with_load_errors(self):
        return self._half.get_block_ids_with_load_errors()

    def build_connector_worker_meta(self):
        return self._half.report()

    # ---- both

    def shutdown(self, until=None):
        """until: a time of time.monotonic(). Copies that still run then are left to the end of the
        process. None: waits for the end of all copies."""
        try:
            if self._naming is not None:
                self._naming.stop()
            if self._spans is not None:
                self._spans.stop()
            if self._pump is not None:
                self._pump.stop()
            if self._client is not None:
                self._half.off = self._half.off or "vLLM shuts down"
                if until is not None and (running := await_copies(self._client, until)):
                    logger.warning(
                        "Larder: %d copies from and to KV pages have not ended, "
                        "and the process ends without them",
                        running,
                    )
                else:
                    self._client.close()
        except Exception:
            logger.exception("Larder: shutdown failed")
        self._pump = self._client = self._naming = self._spans = None


_LIVING = weakref.WeakSet()
# the parent ends the connectors; a child has no thread of the library
os.register_at_fork(after_in_child=_LIVING.clear)


@atexit.register
def _shut_down_all():
    """For an interpreter that ends without vLLM's shutdown: copies end before CUDA and the KV pages
    go. A hanging GPU, or a larderd stopped in mid-copy, delays the exit by EXIT_WAIT_S at most."""
    until = time.monotonic() + EXIT_WAIT_S
    for one in tuple(_LIVING):
        one.shutdown(until)


def _stage_and_rank(shards):
    """This worker's pipeline stage, and the worker's tensor-parallel rank inside the stage."""
    if shards.stages == shards.ranks == 1:
        return 0, 0
    from vllm.distributed.parallel_state import get_pp_group, get_tp_group

    return get_pp_group().rank_in_group, get_tp_group().rank_in_group


def _open(setup, shard, who):
    """A client without a namespace; the scheduler's half opens the namespace later (naming)."""
    from vllm.version import __version__

    client = Client(setup.socket, f"vllm {__version__} {who}", setup.copy_threads)
    client.set_namespace(
        "",
        setup.model,
        setup.chunk_tokens,
        [(group.page_bytes, len(group.layers), group.blocks) for group in setup.groups],
        setup.shards.count,
        shard if setup.shards.stages > 1 else None,
        setup.states,
        setup.tails,
        setup.pieces.chunk_tokens if setup.pieces else 0,
    )
    return client
