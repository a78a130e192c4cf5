"""The block tables of the requests of a step. vLLM 0.29 and later hand them out; for those before, they are put together from what each
step adds.

Owned by the scheduler's thread. As many as vLLM has requests that ran and have not ended."""

from array import array

from larder import _native as native


class BlockTables:
    def __init__(self):
        self._tables: dict[str, tuple[list, ...]] = {}  # by request; one for each KV group

    def of_step(self, scheduler_output):
        """A function that gives a request's tables. Must see every step that computes."""
        state = getattr(scheduler_output, "kv_connector_block_state", None)
        if state is not None:
            return state.get_block_ids
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


def _copy(tables):
    return tuple(list(table) for table in tables)


def load_pages(group, table, chunk, local_blocks):
    """Where the kept blocks of a chunk go, or None where none of them is to be written: vLLM has hit it by itself, and may share it
    with running requests, or it lies behind a window."""
    pages = array("I", group.pages(table, chunk))
    local = local_blocks - (chunk + 1) * group.span + group.blocks
    if local > 0 or 0 in pages:
        for i, page in enumerate(pages):
            if i < local or page == 0:
                pages[i] = native.NO_PAGE
        if all(page == native.NO_PAGE for page in pages):
            return None
    return pages.tobytes()
