"""One prompt on its way through the engine."""

from dataclasses import dataclass, field

from larder import hash_tokens


@dataclass
class Request:
    tokens: list[int]  # prompt and what was generated
    prompt_tokens: int
    hashes: list[bytes]  # of all full blocks
    block_size: int
    table: list[int] = field(default_factory=list)  # block ids
    local_tokens: int = 0  # found in the engine's own prefix cache
    computed: int = 0  # tokens whose KV is in the blocks
    cached_blocks: int = 0  # blocks before it are known to the engine's own prefix cache
    stored_chunks: int = 0  # chunks before it were given to the cache, or are there
    load_failed: bool = False  # and is never looked up again

    @classmethod
    def of(cls, prompt, block_size):
        return cls(list(prompt), len(prompt), hash_tokens(prompt, block_size), block_size)

    def append(self, token):
        self.tokens.append(token)
        if len(self.tokens) % self.block_size == 0:
            self.hashes = hash_tokens(self.tokens, self.block_size)

    def chunk_hashes(self, chunk_blocks, first, last):
        """Of the chunks first..last-1, one after the other: a chunk's is that of its last block."""
        return b"".join(self.hashes[(first + 1) * chunk_blocks - 1 : last * chunk_blocks : chunk_blocks])
