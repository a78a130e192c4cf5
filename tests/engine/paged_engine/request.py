"""One prompt on its way through the engine."""

from dataclasses import dataclass, field

from larder import hash_tokens


@dataclass
class Request:
    tokens: list[int]  # the prompt and the generated tokens
    prompt_tokens: int
    hashes: list[bytes]  # of all full blocks
    block_size: int
    table: list[int] = field(default_factory=list)  # block ids
    local_tokens: int = 0  # found in the engine's own prefix cache
    computed: int = 0  # tokens whose KV is in the blocks
    cached_blocks: int = 0  # earlier blocks are in the engine's own prefix cache
    stored_chunks: int = 0  # earlier chunks are stored or in the cache already
    load_failed: bool = False  # the request is never looked up again

    @classmethod
    def of(cls, prompt, block_size):
        return cls(list(prompt), len(prompt), hash_tokens(prompt, block_size), block_size)

    def append(self, token):
        self.tokens.append(token)
        if len(self.tokens) % self.block_size == 0:
            self.hashes = hash_tokens(self.tokens, self.block_size)

    def chunk_hashes(self, chunk_blocks, first, last):
        """The hashes of chunks first..last-1, joined. The hash of a chunk is that of its last
        block."""
        return b"".join(
            self.hashes[(first + 1) * chunk_blocks - 1 : last * chunk_blocks : chunk_blocks]
        )
