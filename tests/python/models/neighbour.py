"""Connectors beside Larder that leave other bytes in the blocks. Each offers all of a prompt that
begins with FIRST, once.

FailingNeighbour loads within the step, and tells vLLM afterwards that the blocks failed.
ForeignNeighbour loads between steps, like NIXL from an engine with other weights, without a
failure."""

from dataclasses import dataclass, field

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
    SupportsHMA,
)

FIRST = 7


@dataclass
class Blocks(KVConnectorMetadata):
    blocks: list = field(default_factory=list)
    requests: list = field(default_factory=list)


class FailingNeighbour(KVConnectorBase_V1, SupportsHMA):
    def __init__(self, vllm_config, role: KVConnectorRole, kv_cache_config):
        super().__init__(vllm_config, role, kv_cache_config)
        self._block_size = vllm_config.cache_config.block_size
        self._offered, self._blocks, self._failed, self._layers = set(), [], set(), {}

    # ---- scheduler

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        tokens = tuple(request.prompt_token_ids)
        whole = (len(tokens) - 1) // self._block_size * self._block_size
        if tokens[0] != FIRST or tokens in self._offered:
            return 0, False
        return whole - num_computed_tokens, False

    def update_state_after_alloc(self, request, blocks, num_external_tokens):
        if num_external_tokens:
            self._offered.add(tuple(request.prompt_token_ids))
            self._blocks += blocks.get_block_ids()[0][: num_external_tokens // self._block_size]

    def build_connector_meta(self, scheduler_output):
        told, self._blocks = Blocks(self._blocks), []
        return told

    def request_finished(self, request, block_ids):
        return False, None

    def request_finished_all_groups(self, request, block_ids):
        return False, None

    # ---- worker

    def register_kv_caches(self, kv_caches):
        self._layers = kv_caches

    def start_load_kv(self, forward_context, **kwargs):
        for block in self._get_connector_metadata().blocks:
            self._failed.add(block)
            for layer in self._layers.values():
                layer[block].fill_(1)

    def get_block_ids_with_load_errors(self):
        failed, self._failed = self._failed, set()
        return failed

    def wait_for_layer_load(self, layer_name):
        pass

    def save_kv_layer(self, layer_name, kv_layer, attn_metadata, **kwargs):
        pass

    def wait_for_save(self):
        pass


class ForeignNeighbour(FailingNeighbour):
    def __init__(self, vllm_config, role: KVConnectorRole, kv_cache_config):
        super().__init__(vllm_config, role, kv_cache_config)
        self._requests, self._loaded = [], set()

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        tokens, _ = super().get_num_new_matched_tokens(request, num_computed_tokens)
        return tokens, tokens > 0

    def update_state_after_alloc(self, request, blocks, num_external_tokens):
        super().update_state_after_alloc(request, blocks, num_external_tokens)
        if num_external_tokens:
            self._requests.append(request.request_id)

    def build_connector_meta(self, scheduler_output):
        told = super().build_connector_meta(scheduler_output)
        told.requests, self._requests = self._requests, []
        return told

    def start_load_kv(self, forward_context, **kwargs):
        super().start_load_kv(forward_context, **kwargs)
        self._failed.clear()
        self._loaded.update(self._get_connector_metadata().requests)

    def get_finished(self, finished_req_ids):
        loaded, self._loaded = self._loaded, set()
        return None, loaded or None
