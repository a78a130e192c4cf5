"""The origin of the KV in the pages of a request: KV of other connectors (foreign_kv) and draft KV
(draft_kv).

Owned by the scheduler's thread."""

from larder.vllm.draft_kv import DraftKv
from larder.vllm.foreign_kv import ForeignKv


class KvOrigins:
    def __init__(self, setup, items):
        """setup: None where the engine is not served. items: Items."""
        self._foreign = ForeignKv(setup)
        self._drafts = DraftKv(setup, items)

    def admitted(self, request, local_tokens, external_tokens, blocks):
        """vLLM has blocks for the request after a look-up. local_tokens: of vLLM's own hit, as vLLM
        told. external_tokens: of Larder's load."""
        self._foreign.admitted(request.request_id, local_tokens, external_tokens, blocks)
        self._drafts.admitted(request, local_tokens, external_tokens, blocks)

    def step(self, output):
        """Call this for each step, also for a step that computes no token."""
        self._foreign.step(output)

    def computes(self, output, tables_of):
        """Call after step() for each step that computes. tables_of: gives the block tables of a
        request id."""
        self._drafts.step(output, tables_of)

    def first(self, request_id):
        """The first token from which on no KV of the request may be stored, or None. Of a request
        in the last step()."""
        found = [
            one
            for one in (self._foreign.first(request_id), self._drafts.first(request_id))
            if one is not None
        ]
        return min(found, default=None)

    def may_store(self, request_id, chunk):
        """Whether the chunk's draft KV is of this request. Of a request in the last computes()."""
        return self._drafts.may_store(request_id, chunk)

    def reset(self):
        """The model's weights may have changed."""
        self._drafts.reset()

    def forget(self, request_id):
        """The request ended."""
        self._foreign.forget(request_id)
        self._drafts.forget(request_id)
