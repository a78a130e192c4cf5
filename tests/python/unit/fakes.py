"""Small stand-ins for what vLLM and the library give the connector's halves."""

import hashlib
from array import array
from types import SimpleNamespace

from larder.vllm.setup import Setup


def setup(block_size=32, chunk_tokens=128, **changes):
    values = dict(
        block_size=block_size,
        chunk_tokens=chunk_tokens,
        blocks_per_chunk=chunk_tokens // block_size,
        hashes_per_chunk=chunk_tokens // block_size,
        layers=("layer.0",),
        page_bytes=4096,
        fingerprint="engine: test\n",
        model="m",
        socket=None,
        min_tokens=0,
        copy_threads=1,
        stores=True,
        loads=True,
    )
    return Setup(**{**values, **changes})


class Client:
    """A cache in a set; notes every call that has an effect."""

    def __init__(self):
        self.stored = set()
        self.holds = {}
        self.calls = []
        self.fail = None  # name of a method that raises

    def lookup(self, hashes, stride):
        self._maybe_fail("lookup")
        found = 0
        for key in split(hashes, stride):
            if key not in self.stored:
                break
            found += 1
        return found

    def hold(self, hashes, stride):
        self._maybe_fail("hold")
        number = len(self.calls) + 1
        self.holds[number] = split(hashes, stride)
        self.calls.append(("hold", number))
        return number, len(self.holds[number])

    def release(self, hold):
        del self.holds[hold]

    def report_request(self, asked, hit, nanoseconds):
        self.calls.append(("request", asked, hit))

    def drop_namespace(self):
        self.stored.clear()
        return True

    def _maybe_fail(self, name):
        if self.fail == name:
            raise RuntimeError("made to fail")


def split(hashes, stride):
    return [hashes[i : i + stride] for i in range(0, len(hashes), stride)]


class Request:
    """A request whose block hashes are chained over its tokens, as vLLM's are."""

    def __init__(self, request_id, tokens, block_size=32, **fields):
        self.request_id = request_id
        self.tokens = list(tokens)
        self.block_size = block_size
        self.num_prompt_tokens = len(self.tokens)
        self.kv_transfer_params = None
        self.lora_request = None
        self.skip_reading_prefix_cache = False
        self.__dict__.update(fields)

    @property
    def num_tokens(self):
        return len(self.tokens)

    @property
    def block_hashes(self):
        chain, state = [], hashlib.sha256(b"start")
        for end in range(self.block_size, len(self.tokens) + 1, self.block_size):
            state.update(repr(self.tokens[end - self.block_size : end]).encode())
            chain.append(state.digest())
        return chain


def blocks(ids):
    return SimpleNamespace(get_block_ids=lambda: (list(ids),))


def step(new=(), cached=(), tables=None):
    """A SchedulerOutput. new and cached: (request id, computed, scheduled)."""
    scheduled = {name: count for name, _, count in [*new, *cached]}
    return SimpleNamespace(
        scheduled_new_reqs=[SimpleNamespace(req_id=name, num_computed_tokens=computed) for name, computed, _ in new],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=[name for name, *_ in cached], num_computed_tokens=[computed for _, computed, _ in cached]
        ),
        num_scheduled_tokens=scheduled,
        total_num_scheduled_tokens=sum(scheduled.values()),
        kv_connector_block_state=SimpleNamespace(get_block_ids=lambda name: ((tables or {})[name],)),
    )


def ended(done=(), failed=(), meta=None):
    return SimpleNamespace(finished_recving=set(done), failed_recving=set(failed), kv_connector_worker_meta=meta)


def pages(data):
    return list(array("I", data))
