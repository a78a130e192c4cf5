"""vLLM's real scheduler and Larder's scheduler half over fake workers. Stores and loads of the
workers end up to some steps late. The outputs reach the scheduler late, as with asynchronous
scheduling and pipelines. No engine, no library, no larderd.

The worker notes each block written under the read of a store. There must be no such block."""

from array import array
from collections import Counter, deque
from types import SimpleNamespace

import torch
from fakes import Client, ended, split
from vllm.sampling_params import SamplingParams
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    SlidingWindowSpec,
)
from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

from larder.vllm.hosts import larderd_of
from larder.vllm.messages import WorkerReport
from larder.vllm.places import Place

BLOCK, CHUNK = 32, 64


class LateClient(Client):
    """fakes.Client, as opened by the connector."""

    def __init__(self, *_):
        super().__init__()

    def set_namespace(self, *_):
        pass

    def next_log(self):
        return None

    def close(self):
        pass


def full(dtype=torch.bfloat16, heads=4):
    return FullAttentionSpec(block_size=BLOCK, num_kv_heads=heads, head_size=64, dtype=dtype)


def window(size):
    return SlidingWindowSpec(
        block_size=BLOCK, num_kv_heads=4, head_size=64, dtype=torch.bfloat16, sliding_window=size
    )


def cache_of(specs, blocks):
    groups = [KVCacheGroupSpec([f"g{g}.l0", f"g{g}.l1"], spec) for g, spec in enumerate(specs)]
    return KVCacheConfig(
        num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=groups, hash_block_size=BLOCK
    )


def work_of(output):
    """Larder's message of a step; of a MultiConnector the last child's."""
    told = output.kv_connector_metadata
    return getattr(told, "metadata", (told,))[-1]


class Worker:
    """All ranks of an engine as one. zeroes_first: like vLLM's second runner, before the report of
    preemptions. reads_later: like vLLM's first runner on a GPU, where a store reads from the next
    step on, unless that step writes the store's blocks or preempts its request. ignores: parts of
    the message that the worker does not hear, for controls."""

    def __init__(self, half, rng, late, zeroes_first=False, reads_later=False, ignores=()):
        self.half, self.rng, self.late, self.zeroes_first, self.ignores = (
            half,
            rng,
            late,
            zeroes_first,
            ignores,
        )
        # begun: the work of the last step, if that step stores
        self.reads_later, self.begun = reads_later, None
        self.ranks = half.setup.shards.stages * half.setup.shards.ranks
        layers = tuple(len(group.layers) for group in half.setup.groups)
        places = frozenset(
            Place(shard, 0, layers, larderd_of(half.setup))
            for shard in range(half.setup.shards.count)
        )
        half.update_connector_output(ended(meta=WorkerReport(places=places)))
        self.tables, self.ended, self.kept, self.live, self.loads = {}, {}, set(), {}, {}
        self.step, self.counts = 0, Counter()

    def execute(self, output, lengths):
        self.step += 1
        work = work_of(output)
        if self.zeroes_first:
            self._writes(output.new_block_ids_to_zero or ())
        self._make_way(work)
        if self.begun is not None:
            self._begin(self.begun, work)
        self.begun = work if self.reads_later and work.number else None
        self._update_tables(output)
        at = self._positions(output)
        written = {
            table[position // BLOCK]
            for request_id, count in output.num_scheduled_tokens.items()
            for table in self.tables[request_id]
            for position in range(at[request_id], at[request_id] + count)
        }
        self._writes(written)
        for move in work.loads:
            self._writes({page for part in move.parts for page in array("I", part.pages)})
            self.loads[move.request_id] = self.step + self.rng.randint(0, self.late)
        self._end_due()
        if work.number and not self.reads_later:
            self._begin(work)
        self.kept |= set(work.kept)
        return self._output(output, at, lengths, rests=not output.num_scheduled_tokens)

    def _make_way(self, work):
        for store in self.live.values():
            if "preempted" not in self.ignores and not store.requests.isdisjoint(work.preempted):
                store.pages, store.overtaken = set(), True
        if "rewritten" in self.ignores:
            return
        for number in work.rewritten:
            if number in self.live:
                self.counts["waited"] += 1
                self._end(number)

    def _writes(self, pages):
        self.counts["bad"] += sum(not store.pages.isdisjoint(pages) for store in self.live.values())

    def _begin(self, work, next_work=None):
        """next_work: of the step that comes, where the store reads from there on."""
        if next_work is not None and self._is_abandoned(work, next_work):
            self.ended[work.number] = self.ranks
            self.counts["abandoned"] += 1
            return
        pages = {
            page for move in work.stores for part in move.parts for page in array("I", part.pages)
        }
        until = self.step + self.rng.randint(0, self.late)
        requests = {move.request_id for move in work.stores}
        self.live[work.number] = SimpleNamespace(
            requests=requests, pages=pages, until=until, overtaken=False, moves=work.stores
        )
        self.counts["stores"] += 1

    def _is_abandoned(self, work, next_work):
        preempted = "preempted" not in self.ignores and {
            move.request_id for move in work.stores
        } & set(next_work.preempted)
        return preempted or ("rewritten" not in self.ignores and work.number in next_work.rewritten)

    def _end_due(self):
        for number in [number for number, store in self.live.items() if store.until <= self.step]:
            self._end(number)

    def _end(self, number):
        """The store's chunks are in larderd's index, unless their blocks were taken."""
        store = self.live.pop(number)
        self.ended[number] = self.ranks
        for move in store.moves if not store.overtaken else ():
            ns = self.half.client.add_namespace(self.half._text + move.line)
            names = set.intersection(*(set(split(part.hashes, 32)) for part in move.parts))
            self.half.client.stored.update(name if ns == 0 else (ns, name) for name in names)

    def _update_tables(self, output):
        for new in output.scheduled_new_reqs:
            self.tables[new.req_id] = [list(table) for table in new.block_ids]
        cached = output.scheduled_cached_reqs
        for request_id, added in zip(cached.req_ids, cached.new_block_ids):
            if request_id in cached.resumed_req_ids:
                self.tables[request_id] = [list(table) for table in added]
            elif added is not None:
                for table, more in zip(self.tables[request_id], added):
                    table.extend(more)

    @staticmethod
    def _positions(output):
        cached = output.scheduled_cached_reqs
        new = {one.req_id: one.num_computed_tokens for one in output.scheduled_new_reqs}
        return {**new, **dict(zip(cached.req_ids, cached.num_computed_tokens))}

    def _output(self, output, at, lengths, rests):
        if rests and self.live and self.begun is None:
            self._end(next(iter(self.live)))
        read = set().union(*(store.requests for store in self.live.values()))
        if self.begun is not None:
            read |= {move.request_id for move in self.begun.stores}
        free, self.kept = self.kept - read, self.kept & read
        ended, self.ended = self.ended, {}
        loaded = {name for name, until in self.loads.items() if until <= self.step or rests}
        self.loads = {name: until for name, until in self.loads.items() if name not in loaded}
        ids = list(output.num_scheduled_tokens)
        tokens = [
            [self.rng.randint(5, 500)]
            if at[name] + output.num_scheduled_tokens[name] >= lengths.get(name, 1 << 30)
            else []
            for name in ids
        ]
        report = WorkerReport(ended=ended) if ended else None
        told = KVConnectorOutput(
            finished_sending=free or None,
            finished_recving=loaded or None,
            kv_connector_worker_meta=report,
        )
        return ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={name: i for i, name in enumerate(ids)},
            sampled_token_ids=tokens,
            kv_connector_output=told,
        )


class World:
    """An engine under load. depth: steps that are under way at once."""

    def __init__(self, config, cache, hash_function, rng, depth, late, kind=Worker, **worker):
        self.scheduler = config.scheduler_config.get_scheduler_cls()(
            vllm_config=config,
            kv_cache_config=cache,
            structured_output_manager=StructuredOutputManager(config),
            block_size=BLOCK,
            hash_block_size=BLOCK,
        )
        self.half = getattr(self.scheduler.connector, "sub_connectors", [self.scheduler.connector])[
            -1
        ]._half
        assert self.half.off is None, self.half.off
        self.rng, self.depth, self.blocks = rng, depth, cache.num_blocks
        self.worker = kind(self.half, rng, late, **worker)
        self.counts = self.worker.counts
        init_none_hash(hash_function)
        self.hasher = get_request_block_hasher(BLOCK, hash_function)
        self.prefixes = [self._tokens(256) for _ in range(3)]
        self.lengths = {}

    def _tokens(self, count):
        return [self.rng.randint(5, 500) for _ in range(count)]

    def run(self, requests):
        """All steps, to the end of the last. REQUIRES: called once."""
        under_way = deque()
        while len(self.lengths) < requests or under_way or self.scheduler.has_requests():
            if len(self.lengths) < requests and self.rng.random() < 0.5:
                self._ask()
            if self.rng.random() < 0.03 and self.scheduler.running:
                self.counts["aborted"] += 1
                name = self.rng.choice(self.scheduler.running).request_id
                self.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)
            if self.rng.random() < 0.002:
                self.scheduler.reset_prefix_cache(reset_connector=True)
            if self.scheduler.has_requests():
                output = self.scheduler.schedule()
                self.counts["preempted"] += len(output.preempted_req_ids or ())
                self.counts["loads"] += len(work_of(output).loads)
                under_way.append((output, self.worker.execute(output, self.lengths)))
                self.counts["steps"] += 1
            if under_way and (
                len(under_way) >= self.depth
                or not self.scheduler.has_requests()
                or self.rng.random() < 0.3
            ):
                self.scheduler.update_from_output(*under_way.popleft())
            assert self.counts["steps"] < 20_000, "the engine never comes to rest"
        assert self.half.off is None, self.half.off
        return self.counts

    def _ask(self):
        prompt = self.rng.choice(self.prefixes)[: self.rng.randint(0, 256)] + self._tokens(
            self.rng.randint(10, 200)
        )
        name = f"r{len(self.lengths)}"
        self.lengths[name] = len(prompt)
        params = SamplingParams(max_tokens=self.rng.randint(1, 120), ignore_eos=True)
        self.scheduler.add_request(Request(name, prompt, params, None, block_hasher=self.hasher))

    def left_over(self):
        """Requests and blocks that were not given back."""
        free = self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        return (
            len(self.scheduler.requests),
            self.blocks - 1 - free,
            self.half.waits_for_blocks,
            self.half.holds_blocks,
        )
