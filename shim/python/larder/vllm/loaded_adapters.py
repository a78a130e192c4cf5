"""The files of each adapter that a worker has loaded.

vLLM reads an adapter when the adapter is added or first used, and again after an eviction. A
wrapper of WorkerLoRAManager._load_adapter notes the files before and after vLLM reads them. Owned
by the worker's thread."""

import functools
import os
import weakref

from larder.vllm.adapter_files import FilesUnknown, files_of
from larder.vllm.groups import Unsupported

# By adapter number: the files of the last load; (): the files changed while vLLM read them.
_loaded: dict[int, tuple] = {}
_managers = weakref.WeakSet()
_news: dict[int, tuple] = {}  # not reported yet


def watch():
    """From now on this process notes each load. Unsupported: this vLLM loads adapters in another
    way."""
    try:
        from vllm.lora.worker_manager import WorkerLoRAManager

        original = WorkerLoRAManager._load_adapter
    except (ImportError, AttributeError):
        raise Unsupported("this vLLM does not tell which adapter it loads (WorkerLoRAManager._load_adapter is missing)") from None
    if not hasattr(original, "larder_original"):
        WorkerLoRAManager._load_adapter = _noted(original)


def matches(number, files):
    """Whether this worker computes the adapter's KV from these files: the worker has loaded these
    files, or would read them now."""
    if any(number in manager.list_adapters() for manager in tuple(_managers)):
        return _loaded.get(number) == files
    try:
        return files_of(os.path.dirname(files[0].path)) == files
    except FilesUnknown:
        return False


def take_news():
    """{number: files} of the loads since the last call."""
    news = dict(_news)
    _news.clear()
    return news


def _noted(original):
    @functools.wraps(original)
    def _load_adapter(self, lora_request):
        before = _files(lora_request.lora_path)
        adapter = original(self, lora_request)
        files = before if before == _files(lora_request.lora_path) else ()
        number = lora_request.lora_int_id
        _managers.add(self)
        _loaded[number] = _news[number] = files
        for gone in set(_loaded) - set(self.list_adapters()) - {number}:
            del _loaded[gone]
        return adapter

    _load_adapter.larder_original = original
    return _load_adapter


def _files(path):
    try:
        return files_of(path)
    except FilesUnknown:
        return ()
