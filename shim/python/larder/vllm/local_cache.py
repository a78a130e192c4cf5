"""Whether vLLM's own prefix cache may have old KV under a current name.

vLLM names a block by its tokens and by the name and path of its adapter. After a change of weights,
or of the files of an adapter, the cache keeps its old blocks until the cache is emptied. A request
that hits such a block is answered by old KV, which is vLLM's affair. The request must not store:
its chunks would be old KV under the new name, for other engines too.

Owned by the scheduler's thread."""

_MOST_KNOWN = 65536  # adapters; vLLM's cache has had many others since one that is forgotten here


class LocalCache:
    def __init__(self):
        self.emptied()
        self._files = {}  # by number of an adapter: the files that the workers loaded last

    def emptied(self):
        """vLLM has emptied its cache."""
        # or any other reason to distrust every block, such as too many replaced adapters
        self._old_weights = False
        # by name and path of an adapter: the adapter's number at the first request
        self._number = {}
        self._replaced = set()  # numbers of adapters that were loaded again from other files

    def weights_change(self):
        self._old_weights = True

    def blocks_are_bad(self):
        """A load of another connector has failed, and the cache keeps the blocks under their names
        (neighbours)."""
        self._old_weights = True

    def seen(self, adapter):
        """A request has this LoRARequest, with or without Larder."""
        _put(self._number, (adapter.lora_name, adapter.lora_path), adapter.lora_int_id)

    def loaded(self, news):
        """The report of the workers: {number: files}."""
        for number, files in news.items():
            if self._files.get(number, files) != files or not files:
                self._replaced.add(number)
            self._files.pop(number, None)
            _put(self._files, number, files)
        if len(self._replaced) > _MOST_KNOWN:
            self._old_weights = True
            self._replaced.clear()

    def may_be_old(self, request, files):
        """files: the files in the name of the request's adapter."""
        adapter = request.lora_request
        if self._old_weights or adapter is None:
            return self._old_weights
        first = self._number.get((adapter.lora_name, adapter.lora_path), adapter.lora_int_id)
        if self._replaced & {first, adapter.lora_int_id}:
            return True
        return first != adapter.lora_int_id and self._files.get(first) != files


def _put(table, key, value):
    table.setdefault(key, value)
    if len(table) > _MOST_KNOWN:
        del table[next(iter(table))]
