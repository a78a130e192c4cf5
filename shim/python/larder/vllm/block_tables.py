"""The block tables of the requests of a step. vLLM 0.29 and later hand the tables out. For an older
vLLM, this class builds the tables from the blocks that each step adds.

Owned by the scheduler's thread. Holds one entry for each request that ran and has not ended."""

from array import array

from larder import _native as native


class BlockTables:
    def __init__(self):
        self._tables: dict[str, tuple[list, ...]] = {}  # by request; one for each KV group

    def of_step(self, scheduler_output):
        """A function that gives a request's tables. Must see every step that computes."""
        state = getattr(scheduler_output, "kv_connector_block_state", None)
        if state is not None:
            return _tables_of_manager(state) or state.get_block_ids
        for new in scheduler_output.scheduled_new_reqs:
            self._tables[new.req_id] = _copy(new.block_ids)
        cached = scheduler_output.scheduled_cached_reqs
        for request_id, added in zip(cached.req_ids, cached.new_block_ids):
            if request_id in cached.resumed_req_ids:
                self._tables[request_id] = _copy(added)
            elif added is not None:
                for table, more in zip(self._tables[request_id], added):
                    table.extend(more)
        return self._tables.__getitem__

    def forget(self, request_id):
        """The request ended."""
        self._tables.pop(request_id, None)


class LiveTable:
    """One of vLLM's own tables, as of this step. Reading a slice costs the slice, not the table."""

    def __init__(self, blocks):
        self._blocks = blocks

    def __len__(self):
        return len(self._blocks)

    def __getitem__(self, at):
        found = self._blocks[at]
        return [block.block_id for block in found] if isinstance(at, slice) else found.block_id


def _tables_of_manager(state):
    """Tables without a copy. The state's own function copies whole tables: 60,000 numbers of a long
    request, while a chunk needs sixteen. The function is a method of vLLM's KVCacheManager, whose
    get_blocks() does not copy. None: this vLLM has another manager."""
    get_blocks = getattr(
        getattr(getattr(state, "resolve_block_ids", None), "__self__", None), "get_blocks", None
    )
    if get_blocks is None:
        return None
    return lambda request_id: tuple(LiveTable(blocks) for blocks in get_blocks(request_id).blocks)


def _copy(tables):
    return tuple(list(table) for table in tables)


def load_pages(group, table, chunk, local_blocks):
    """The pages for the kept blocks of a chunk, with NO_PAGE for a block that a load must not
    write. vLLM has hit the block by itself and may share it with running requests, or a window has
    left the block behind. None: no block of the chunk is written."""
    pages = array("I", group.pages(table, chunk))
    local = local_blocks - (chunk + 1) * group.span + group.blocks
    if local > 0 or 0 in pages:
        for i, page in enumerate(pages):
            if i < local or page == 0:
                pages[i] = native.NO_PAGE
        if all(page == native.NO_PAGE for page in pages):
            return None
    return pages.tobytes()
