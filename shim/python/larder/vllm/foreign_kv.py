"""KV that this engine did not compute and Larder did not load: another connector of a
MultiConnector brought the KV. Such KV may come from other weights or through a lossy copy. This
engine does not store such KV under its name, unless the option `trust_other_connectors` allows the
store.

- A request that gets blocks and is not in the same step waits for a load. If the load is not
  Larder's, the tokens behind vLLM's own hit are foreign. Tokens that another connector loads within
  the step are foreign, too.
- Behind its first foreign token all KV of a request is foreign: attention carries the difference
  on.
- vLLM's prefix cache hands foreign blocks to other requests. `_blocks` has each block with a
  foreign token, until a request gets the block for KV of its own.

Owned by the scheduler's thread. Sees each step, and handles the step in vLLM's own order. Requests
without a new look-up come first, then admitted requests, which may hit blocks of the former."""

from larder.vllm.fail_safe import logger

OPTION = "trust_other_connectors"
_LINE = (
    "Larder: another connector of this engine loads KV (first: request %s, from token %d on). Such "
    "KV, and all KV behind it, is not stored. "
    'If every engine that the connector loads from computes the same KV, set "%s": true in '
    'kv_connector_extra_config of LarderConnector'
)


class ForeignKv:
    def __init__(self, setup):
        """setup: None where the engine is not served."""
        self._watches = setup is not None and setup.stores and not setup.trusts_other_connectors
        self._groups = setup.groups if setup is not None else ()
        # by request id, since the last step: (local tokens, tokens of Larder's load, blocks)
        self._admitted = {}
        self._first = {}  # by request id: its first foreign token
        self._blocks = set()  # no more than vLLM has
        self._blind = False  # a vLLM does not tell which blocks another connector fills
        self._told = False

    def admitted(self, request_id, local_tokens, external_tokens, blocks):
        """vLLM has blocks for the request after a look-up. local_tokens: the length of vLLM's own
        hit, as told by vLLM. external_tokens: of Larder's load."""
        if not self._watches:
            return
        self._admitted.pop(request_id, None)  # a load that failed before the next step
        self._admitted[request_id] = local_tokens, external_tokens, blocks

    def first(self, request_id):
        """The request's first foreign token, or None. Of a request in the last step()."""
        return self._first.get(request_id)

    def forget(self, request_id):
        """The request ended. The request's blocks stay in vLLM's prefix cache."""
        self._first.pop(request_id, None)
        self._admitted.pop(request_id, None)

    def step(self, output):
        """Call this for each step, also for a step that computes no token."""
        if not (self._admitted or self._first or self._blocks):
            return
        admitted, self._admitted = self._admitted, {}
        if self._first or self._blocks:
            self._go_on(output, admitted)
        if admitted:
            starts = _starts(output)
            loads_within = getattr(output, "has_sync_kv_loads", True)
            for request_id, (local, external, blocks) in admitted.items():
                self._begin(
                    request_id, local, external, blocks, starts.get(request_id), loads_within
                )

    def _go_on(self, output, admitted):
        """Requests that run, and requests whose load has ended."""
        cached = output.scheduled_cached_reqs
        for request_id, computed, added in zip(
            cached.req_ids, cached.num_computed_tokens, cached.new_block_ids
        ):
            if added is None or request_id in admitted:
                continue
            if request_id in cached.resumed_req_ids:
                self._continue(request_id, computed, added)
            else:
                self._write(request_id in self._first, added)
        for one in output.scheduled_new_reqs:
            if one.req_id not in admitted:
                self._continue(one.req_id, one.num_computed_tokens, one.block_ids)

    def _continue(self, request_id, computed, tables):
        """The load has ended, and the request computes from token `computed` on."""
        first = self._first.get(request_id)
        # the load failed, and the request computes these tokens
        if first is not None and computed <= first:
            del self._first[request_id]
            first = None
        begin = computed if first is None else first
        self._write(first is not None, self._behind(tables, begin))

    def _begin(self, request_id, local, external, blocks, begin, loads_within):
        """begin: the first token of the request that the step computes; None: the request waits for
        a load."""
        self._first.pop(request_id, None)
        waits = begin is None
        if not waits and not loads_within:
            # vLLM's hit may be longer by a part of a block, or shorter, than vLLM told
            local = begin
        loads = not external if waits else begin > local
        if not (loads or self._blocks or self._blind):
            return
        tables = blocks.get_block_ids()
        first = self._hit(tables, local)
        if first is None and loads:
            first = local
        if first is not None:
            self._first[request_id] = first
            self._tell(request_id, first)
            self._blind |= not any(tables)
        self._write(first is not None, self._behind(tables, local if first is None else first))

    def _hit(self, tables, local):
        """The first token of a foreign block in vLLM's hit, or None."""
        if self._blind and local:
            return 0
        found = []
        for group in self._groups:
            hit = tables[group.table][: -(-local // group.block_size)]
            found += [i * group.block_size for i, block in enumerate(hit) if block in self._blocks][
                :1
            ]
        return min(found, default=None)

    def _behind(self, tables, token):
        return [tables[group.table][token // group.block_size :] for group in self._groups]

    def _write(self, foreign, tables):
        """These blocks are given to a request, for foreign KV or for KV of its own. Block 0 stands
        for blocks behind a window."""
        for blocks in tables:
            if foreign:
                self._blocks.update(blocks)
            elif self._blocks:
                self._blocks.difference_update(blocks)
        self._blocks.discard(0)

    def _tell(self, request_id, first):
        if not self._told:
            self._told = True
            logger.warning(_LINE, request_id, first, OPTION)


def _starts(output):
    """The first token that the step computes, of each request that begins in the step."""
    starts = {one.req_id: one.num_computed_tokens for one in output.scheduled_new_reqs}
    cached = output.scheduled_cached_reqs
    if cached.resumed_req_ids:
        starts.update(zip(cached.req_ids, cached.num_computed_tokens))
    return starts
