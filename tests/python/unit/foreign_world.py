"""late_world beside another connector, which brings KV of other weights: asynchronously, within the
step, or not at all.

The worker knows of each block whether its content is this engine's KV, and counts stores of other
blocks. The count must stay 0."""

from array import array
from dataclasses import dataclass, field

from late_world import BLOCK, Worker, work_of
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    SupportsHMA,
)
from vllm.distributed.kv_transfer.kv_connector.v1.multi_connector import (
    MultiKVConnectorWorkerMetadata,
)


@dataclass
class Loads(KVConnectorMetadata):
    """By request id: (block tables of the request, the first loaded token, whether within the
    step)."""

    begun: dict = field(default_factory=dict)


class Foreigner(KVConnectorBase_V1, SupportsHMA):
    """Offers the prompts that `offers` chooses. offers(request, local tokens): (tokens, between
    steps?)."""

    offers = staticmethod(lambda request, local: (0, False))

    def __init__(self, vllm_config, role, kv_cache_config):
        super().__init__(vllm_config, role, kv_cache_config)
        self._local, self._next = {}, Loads()

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        tokens, between = self.offers(request, num_computed_tokens)
        self._local[request.request_id] = num_computed_tokens, not between
        return tokens, between and tokens > 0

    def update_state_after_alloc(self, request, blocks, num_external_tokens):
        if num_external_tokens:
            self._next.begun[request.request_id] = (
                blocks.get_block_ids(),
                *self._local[request.request_id],
            )

    def build_connector_meta(self, scheduler_output):
        told, self._next = self._next, Loads()
        return told

    def request_finished(self, request, block_ids):
        return False, None

    def request_finished_all_groups(self, request, block_ids):
        return False, None

    def start_load_kv(self, forward_context, **kwargs):
        pass

    def wait_for_layer_load(self, layer_name):
        pass

    def save_kv_layer(self, layer_name, kv_layer, attn_metadata, **kwargs):
        pass

    def wait_for_save(self):
        pass


class ForeignWorker(Worker):
    """fails: how often a load between steps fails."""

    def __init__(self, *args, fails=0.0, **more):
        super().__init__(*args, **more)
        self.fails, self.foreign, self.arriving, self.failed = fails, set(), {}, set()

    def execute(self, output, lengths):
        self._load(output.kv_connector_metadata.metadata[0])
        made = super().execute(output, lengths)
        self._compute(output)
        for move in work_of(output).stores:
            pages = {page for part in move.parts for page in array("I", part.pages)}
            self.counts["foreign"] += not pages.isdisjoint(self.foreign)
        return made

    def _load(self, told):
        for request_id, (tables, first, within) in told.begun.items():
            self.counts["brought"] += 1
            for table in tables:
                self.foreign.update(table[first // BLOCK :])
            if not within:
                self.arriving[request_id] = self.step + 1 + self.rng.randint(0, self.late)
        self.foreign.discard(0)

    def _compute(self, output):
        at = self._positions(output)
        for move in work_of(output).loads:
            self.foreign -= {page for part in move.parts for page in array("I", part.pages)}
        for request_id, count in output.num_scheduled_tokens.items():
            begin, end = at[request_id], at[request_id] + count
            tables = self.tables[request_id]
            # The first table alone, which has no window: vLLM gives blocks behind a window to
            # others.
            is_foreign = not self.foreign.isdisjoint(tables[0][: -(-begin // BLOCK)])
            self._count_false_alarm(request_id, is_foreign)
            for table in tables:
                written = set(table[begin // BLOCK : -(-end // BLOCK)]) - {0}
                self.foreign = self.foreign | written if is_foreign else self.foreign - written

    def _count_false_alarm(self, request_id, is_foreign):
        said = self.half._origins._foreign.first(request_id) is not None
        self.counts["hit"] += is_foreign
        self.counts["false"] += said and not is_foreign

    def _output(self, output, at, lengths, rests):
        made = super()._output(output, at, lengths, rests)
        told = made.kv_connector_output
        ended = {name for name, until in self.arriving.items() if until <= self.step or rests}
        self.arriving = {name: until for name, until in self.arriving.items() if name not in ended}
        failed = {name for name in ended if self.rng.random() < self.fails}
        self.counts["failed"] += len(failed)
        told.finished_recving = (told.finished_recving or set()) | ended or None
        told.failed_recving = (told.failed_recving or set()) | failed or None
        if told.kv_connector_worker_meta is not None:
            told.kv_connector_worker_meta = MultiKVConnectorWorkerMetadata(
                (None, told.kv_connector_worker_meta)
            )
        return made
