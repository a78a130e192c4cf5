"""Blocks of the KV tensors, and the engine's own prefix cache over the free blocks. The pool gives
out the oldest free block first."""

from collections import Counter, OrderedDict


class NoBlocks(RuntimeError):
    pass


class BlockPool:
    def __init__(self, blocks):
        self._free = OrderedDict.fromkeys(range(1, blocks))  # block 0 stays unused
        self._users = Counter()
        self._by_hash = {}
        self._hash_of = {}

    @property
    def free_blocks(self):
        return len(self._free)

    def hits(self, hashes):
        """The blocks with the longest known prefix, now in use by the caller."""
        blocks = []
        for one in hashes:
            if one not in self._by_hash:
                break
            blocks.append(self._by_hash[one])
        for block in blocks:
            self._users[block] += 1
            self._free.pop(block, None)
        return blocks

    def allocate(self, count):
        if count > len(self._free):
            raise NoBlocks(f"{count} blocks are needed, {len(self._free)} of the pool are free")
        blocks = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in blocks:
            self._forget(block)
            self._users[block] += 1
        return blocks

    def free(self, blocks):
        """Cached blocks stay known until the pool gives them out again. The end of a prefix goes
        before its beginning, so that the rest remains a prefix."""
        for block in reversed(blocks):
            self._users[block] -= 1
            if not self._users[block]:
                self._free[block] = None

    def cache(self, block, block_hash):
        """The block is full and holds the KV for this hash. REQUIRES: the caller uses the block."""
        if block_hash not in self._by_hash and block not in self._hash_of:
            self._by_hash[block_hash], self._hash_of[block] = block, block_hash

    def reset(self):
        """Forgets every prefix."""
        self._by_hash.clear()
        self._hash_of.clear()

    def _forget(self, block):
        known = self._hash_of.pop(block, None)
        if known is not None:
            del self._by_hash[known]
