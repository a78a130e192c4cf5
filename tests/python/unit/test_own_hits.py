"""The part of an equal prompt that vLLM's own cache can give to a request: the assumption of
SharedLoads, asked of vLLM's own manager."""

import pytest

pytest.importorskip("vllm")

import late_world  # noqa: E402
from fakes import setup  # noqa: E402
from vllm.sampling_params import SamplingParams  # noqa: E402
from vllm.utils.hashing import sha256  # noqa: E402
from vllm.v1.core.kv_cache_manager import KVCacheManager  # noqa: E402
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash  # noqa: E402
from vllm.v1.request import Request  # noqa: E402

from larder.vllm.shared_loads import SharedLoads  # noqa: E402

BLOCK = late_world.BLOCK
MOST = 5 * BLOCK


class Cached:
    """vLLM's manager with each block of a prompt of MOST tokens, which a load has brought."""

    def __init__(self):
        init_none_hash(sha256)
        self.hasher = get_request_block_hasher(BLOCK, sha256)
        cache = late_world.cache_of([late_world.full()], blocks=40)
        self.manager = KVCacheManager(
            cache, max_model_len=4096, scheduler_block_size=BLOCK, hash_block_size=BLOCK
        )
        self.loaded = self.request("loads", MOST)
        self.manager.get_computed_blocks(self.loaded)
        self.manager.allocate_slots(
            self.loaded, 0, num_external_computed_tokens=MOST, delay_cache_blocks=True
        )
        self.blocks = self.manager.get_block_ids(self.loaded.request_id)[0]
        self.manager.cache_blocks(self.loaded, MOST)

    def request(self, name, tokens):
        params = SamplingParams(max_tokens=1)
        return Request(name, list(range(tokens)), params, None, block_hasher=self.hasher)

    def own_hit(self, request):
        """(block numbers, tokens)"""
        blocks, tokens, *_ = self.manager.get_computed_blocks(request)
        return blocks.get_block_ids()[0], tokens


@pytest.fixture(scope="module")
def cached():
    return Cached()


@pytest.mark.parametrize(
    "tokens", [BLOCK, BLOCK + 1, 2 * BLOCK - 1, 2 * BLOCK, 4 * BLOCK, 4 * BLOCK + 1, MOST]
)
# covers F-043
def test_a_request_waits_for_as_much_as_vllm_would_share(cached, tokens):
    """The last block of a prompt of whole blocks is in vLLM's cache, and vLLM computes the block
    all the same."""
    loads = SharedLoads(setup(block_size=BLOCK, chunk_tokens=BLOCK))
    request = cached.request(f"asks {tokens}", tokens)
    blocks, own = cached.own_hit(request)
    assert own == (tokens - 1) // BLOCK * BLOCK and blocks == cached.blocks[: own // BLOCK]
    assert loads._shareable(request, tokens // BLOCK, ends_with_it=tokens == MOST) == own


# covers F-043
def test_a_block_that_vllm_does_not_share_comes_into_a_block_of_the_requests_own(cached):
    """Larder can give vLLM tokens, not the number of a block: the tokens get a new block, and are
    loaded into this block."""
    request = cached.request("asks for all", MOST)
    blocks, own, *_ = cached.manager.get_computed_blocks(request)
    here = {"num_new_computed_tokens": own, "new_computed_blocks": blocks}
    cached.manager.allocate_slots(
        request, 0, **here, num_external_computed_tokens=BLOCK, delay_cache_blocks=True
    )
    try:
        whole = cached.manager.get_block_ids(request.request_id)[0]
        assert whole[:-1] == cached.blocks[:-1] and whole[-1] not in cached.blocks
    finally:
        cached.manager.free(request)
