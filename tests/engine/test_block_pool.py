"""The engine's own prefix cache."""

import pytest
from paged_engine.block_pool import BlockPool, NoBlocks


def pool_with_abc(size):
    """(pool, blocks): three blocks are cached and free."""
    pool = BlockPool(size)
    blocks = pool.allocate(3)
    for block, name in zip(blocks, "abc"):
        pool.cache(block, name)
    pool.free(blocks)
    return pool, blocks


def test_a_known_prefix_is_found_as_far_as_it_goes():
    pool, blocks = pool_with_abc(10)
    assert pool.hits("abx") == blocks[:2]
    assert pool.hits("xbc") == []


def test_free_blocks_are_given_out_oldest_first_and_a_prefix_from_its_end():
    pool, blocks = pool_with_abc(4)
    assert pool.allocate(1) == [blocks[2]]
    assert pool.hits("abc") == blocks[:2]


def test_blocks_in_use_are_not_allocated():
    pool = BlockPool(4)
    blocks = pool.allocate(3)
    pool.cache(blocks[0], "a")
    pool.free(blocks[:1])
    assert pool.hits("a") == blocks[:1]
    assert pool.free_blocks == 0
    with pytest.raises(NoBlocks):
        pool.allocate(1)


def test_block_0_is_reserved_and_a_reset_clears_the_cache():
    pool = BlockPool(3)
    blocks = pool.allocate(2)
    assert 0 not in blocks
    pool.cache(blocks[0], "a")
    pool.free(blocks)
    pool.reset()
    assert pool.hits("a") == []
    assert sorted(pool.allocate(2)) == [1, 2]
