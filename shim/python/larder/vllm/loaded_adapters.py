"""The files of each adapter that a worker has loaded.

vLLM reads an adapter when the adapter is added or first used, and again after an eviction. A name
of a hub is downloaded in the same call. A wrapper of WorkerLoRAManager._load_adapter notes the
files before and after vLLM reads them. Other threads look at the folders (adapter_folders): a
hanging mount holds up no step. A process may have several engines: each LoadedAdapters is told of
its own engine's loads. Owned by the worker's thread."""

import dataclasses
import functools
import os
import threading
import weakref

from larder.vllm.adapter_folders import AdapterFolders, look
from larder.vllm.groups import Unsupported

# The longest delay of vLLM's load of an adapter, if the folder does not answer. vLLM reads the same
# folder in the same call, without a bound.
LOOK_WAIT_S = 1.0

_engines = weakref.WeakSet()  # each LoadedAdapters of this process
_records = weakref.WeakKeyDictionary()  # by vLLM's manager: its _Record
_load = threading.local()  # .folder: of the load under way; .files: there, behind a download


@dataclasses.dataclass
class _Record:
    lora_config: object  # of the manager's engine; None: the engine is not known
    # by adapter number: the files of the last load; (): the files changed meanwhile
    loaded: dict = dataclasses.field(default_factory=dict)
    news: dict = dataclasses.field(default_factory=dict)  # not reported yet


class LoadedAdapters:
    """The files that the worker of one engine has loaded. lora_config: vLLM's, which tells the
    engine from other engines of the process."""

    def __init__(self, lora_config=None):
        self.lora_config = lora_config
        self._folders = AdapterFolders()
        _engines.add(self)

    def matches(self, number, files):
        """Whether this worker computes the adapter's KV from these files: the worker has loaded
        these files, or would read these files now. None: not known yet, ask again. Never waits."""
        loaded = self._loaded(number)
        if loaded is not None:
            return loaded == files
        found = self._folders.files(os.path.dirname(files[0].path))
        return None if found is None else found == files

    def holds(self, move):
        """Whether KV of this move is what vLLM computes: the move has no adapter, or matches()."""
        return move.adapter is None or self.matches(*move.adapter)

    def computed(self, number, files):
        """Whether the ending step computed the adapter's KV from these files: vLLM has loaded each
        adapter of the step by then."""
        return self._loaded(number) == files

    def _loaded(self, number):
        """The files of an adapter that vLLM holds, or None."""
        for manager, record in self._mine():
            if number in manager.list_adapters():
                return record.loaded.get(number, ())
        return None

    def wait(self, seconds):
        """Until matches() may know more, so long at most. For a step without computation."""
        self._folders.wait(seconds)

    def take_news(self):
        """{number: files} of the loads since the last call."""
        news = {}
        # an engine without adapters asks in each step, and the iteration below is slow in a cold
        # cache
        if not _records:
            return news
        for _, record in self._mine():
            news.update(record.news)
            record.news.clear()
        return news

    def _mine(self):
        """A manager of an unknown engine counts for each engine: KV of other files is worse than a
        miss."""
        own = self.lora_config
        return [
            (manager, record)
            for manager, record in tuple(_records.items())
            if record.lora_config is None or record.lora_config is own
        ]


def watch():
    """From now on this process notes each load. Unsupported: this vLLM loads adapters in another
    way."""
    try:
        from vllm.lora import worker_manager
        from vllm.lora.worker_manager import WorkerLoRAManager

        original = WorkerLoRAManager._load_adapter
    except (ImportError, AttributeError):
        raise Unsupported(
            "this vLLM does not tell which adapter it loads (WorkerLoRAManager._load_adapter is "
            "missing)"
        ) from None
    if not hasattr(original, "larder_original"):
        WorkerLoRAManager._load_adapter = _noted(original)
        # an older vLLM may have no such function: an adapter then has its name after the next load
        resolve = getattr(worker_manager, "get_adapter_absolute_path", None)
        if resolve is not None:
            worker_manager.get_adapter_absolute_path = _resolved(resolve)


def _noted(original):
    @functools.wraps(original)
    def _load_adapter(self, lora_request):
        _load.folder, _load.files = lora_request.lora_path, ()
        before = look(_load.folder, LOOK_WAIT_S)
        adapter = original(self, lora_request)
        # of a name: the folder that vLLM found, which may be newer than the one in the cache before
        before = _load.files or before
        files = before if before and before == look(_load.folder, LOOK_WAIT_S) else ()
        # As matches() has it: of a name of the hub, the folder is known by the files.
        path = before[0].path if before else os.path.join(_load.folder, "")
        folder = os.path.dirname(path)
        for engine in tuple(_engines):
            engine._folders.forget(folder)
        number, record = lora_request.lora_int_id, _record_of(self)
        record.loaded[number] = record.news[number] = files
        for gone in set(record.loaded) - set(self.list_adapters()) - {number}:
            del record.loaded[gone]
        return adapter

    _load_adapter.larder_original = original
    return _load_adapter


def _resolved(original):
    """The function of vLLM that finds the folder of an adapter, and downloads a name of a hub. vLLM
    reads the folder afterwards."""

    @functools.wraps(original)
    def get_adapter_absolute_path(lora_path):
        folder = original(lora_path)
        if not os.path.isabs(lora_path):
            _load.folder, _load.files = folder, look(folder, LOOK_WAIT_S)
        return folder

    return get_adapter_absolute_path


def _record_of(manager):
    if manager not in _records:
        config = getattr(manager, "lora_config", None)
        _records[manager] = _Record(
            config if any(one.lora_config is config for one in tuple(_engines)) else None
        )
    return _records[manager]
