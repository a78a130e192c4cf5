"""LoRA adapters: the lines of the fingerprint for an adapter. The lines name the adapter by the
content of its files and by vLLM's LoRA settings. The engine's block hash covers the adapter's name
alone.

A thread reads the files: a slow or hanging file system costs the adapter its hits, and delays no
step. The files that vLLM loaded decide: workers report the files of each load (loaded_adapters).
Workers also compare files before each load of KV and after each step that stores. Owned by the
scheduler's thread."""

import dataclasses
import json
import os
import time
from collections import OrderedDict

from larder import canonical
from larder.vllm import engine_config
from larder.vllm.adapter_files import FilesUnknown, files_of
from larder.vllm.background_reads import BackgroundReads
from larder.weights import UnknownWeights, files_identity

# The first request of an adapter waits this long at most for the files to be read. Then the request
# runs without the cache.
READ_WAIT_S = 0.1
LOOK_AGAIN_S = 1.0  # between two looks at the files of an adapter that could not be named
_MOST_READERS = 4  # that read at the same time
_readers = BackgroundReads(_MOST_READERS)  # of this process
_MOST_KNOWN = 4096
_REST_S = 0.001

# Fields of vLLM's LoRAConfig that do not change the KV of an adapter, with the reason.
_HARMLESS = {
    "max_loras": "how many at once",
    "max_cpu_loras": "how many are kept",
    "specialize_active_lora": "which launches are recorded",
    "default_mm_loras": "gives a request an adapter, which the request then carries",
    "fully_sharded_loras": "decides which rank computes something, not the result",
    "max_lora_rank": "the room for an adapter; the adapter's files have the rank",
}
# Fields of a LoRARequest that this file handles, or that do not change KV.
_OF_REQUEST = {"lora_name", "lora_int_id", "lora_path", "base_model_name", "load_inplace"}


class Unserved(Exception):
    """Requests of this adapter run without the cache. The text is the reason."""


class NotYet(Exception):
    """The files are being read: ask again."""


@dataclasses.dataclass
class _Adapter:
    files: tuple = ()  # of `identity`
    identity: str = ""
    why_not: str = ""
    reading: object = None  # a Read of _named()
    read_at: float = float("-inf")  # the time at which the last reading began


class Adapters:
    def __init__(self, lora_config, clock=time.monotonic):
        self._settings = _settings(lora_config)
        self._clock = clock
        self._known: OrderedDict[tuple, _Adapter] = OrderedDict()  # by number, name and path
        self._awaited: list[_Adapter] = []  # requests may wait for these
        self._loaded: dict[int, tuple] = {}  # by number: the files that workers reported last

    def line(self, request):
        """The lines of the fingerprint for a vLLM LoRARequest. Unserved: the request runs without
        the cache. NotYet: ask again."""
        if getattr(request, "load_inplace", False):
            raise Unserved("vLLM loads the adapter in place (load_inplace)")
        adapter = self._adapter(request)
        if adapter.reading is not None:
            self._take(adapter)
        if self._is_due(request.lora_int_id, adapter):
            self._read(request, adapter)
        if adapter.identity:
            return (
                f"adapter: {adapter.identity}\nadapter_settings: {self._settings}{_more(request)}\n"
            )
        if (
            adapter.reading is not None
            and not adapter.why_not
            and self._clock() < adapter.read_at + READ_WAIT_S
        ):
            raise NotYet
        raise Unserved(adapter.why_not or "the files are still being read")

    def files(self, request):
        """(number, files) of the last line(). Workers compare these files with the loaded files."""
        return request.lora_int_id, self._adapter(request).files

    def loaded(self, news):
        """Takes the workers' report: {number: files}. Returns whether a request has named an
        adapter by other files."""
        contradicts = False
        for (number, *_), one in self._known.items():
            if number in news:
                contradicts |= bool(one.files) and one.files != news[number]
                if one.reading is None:
                    one.read_at = float("-inf")  # due at once: a downloaded adapter gets its name
        for number, files in news.items():
            self._loaded.pop(number, None)
            self._loaded[number] = files
        while len(self._loaded) > _MOST_KNOWN:
            self._loaded.pop(next(iter(self._loaded)))
        return contradicts

    def rest(self):
        """For a step without computation: leaves the processor to a reading thread for a moment.
        False: no request waits for a reading."""
        due = self._clock() - READ_WAIT_S
        self._awaited = [
            one
            for one in self._awaited
            if one.reading is not None and one.reading.result is None and one.read_at > due
        ]
        if not self._awaited:
            return False
        time.sleep(_REST_S)
        return True

    def _adapter(self, request):
        key = request.lora_int_id, request.lora_name, request.lora_path
        adapter = self._known.pop(key, None) or _Adapter()
        self._known[key] = adapter
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return adapter

    def _is_due(self, number, adapter):
        """Whether the files have to be read (again)."""
        if adapter.reading is not None:
            return False
        if self._loaded.get(number, adapter.files) != adapter.files:
            adapter.identity = adapter.why_not = ""  # vLLM has loaded other files since
        return not adapter.identity and self._clock() >= adapter.read_at + LOOK_AGAIN_S

    def _read(self, request, adapter):
        adapter.read_at = self._clock()
        reading = _readers.begin(_named, request.lora_path, self._loaded.get(request.lora_int_id))
        if reading is None:
            adapter.why_not = (
                f"the files of {_MOST_READERS} other adapters are being read, "
                "as many as may be at once"
            )
            return
        adapter.reading = reading
        self._awaited.append(adapter)

    def _take(self, adapter):
        done = adapter.reading.result
        if done is None:
            return
        adapter.reading = None
        adapter.files, adapter.identity, adapter.why_not = done


def _named(path, held):
    """(files, identity, reason against the adapter). held: the files that vLLM loaded, or None:
    unknown."""
    try:
        # vLLM knows the folder of a name; a folder that was overwritten has other files
        folder = os.path.dirname(held[0].path) if held else path
        files = files_of(folder)
        if held is not None and files != held:
            return (
                held,
                "",
                "the folder has other files than vLLM loaded: load the adapter under another name",
            )
        identity = files_identity([file.path for file in files])
        if files_of(folder) != files:
            return (), "", "the files change during the read"
        return files, identity, ""
    except FilesUnknown as reason:
        return (), "", str(reason)
    # the remedy of UnknownWeights does not help for an adapter
    except (UnknownWeights, OSError) as error:
        return (), "", f"the files cannot be read: {getattr(error, 'why', error)}"
    except Exception as error:  # costs this adapter alone
        return (), "", f"reading the files failed: {type(error).__name__}: {error}"


def _settings(lora_config):
    if lora_config is None:
        return "{}"
    return json.dumps(engine_config.fields_of(lora_config, _HARMLESS), sort_keys=True)


def _more(request):
    """Set fields of the request that this file does not know. Unserved."""
    names = [name for name in getattr(request, "__struct_fields__", ()) if name not in _OF_REQUEST]
    more = {name: value for name in names if (value := getattr(request, name)) is not None}
    try:
        return f" {canonical.text(more)}" if more else ""
    except canonical.Unnameable as reason:
        raise Unserved(f"a field of its request cannot be named: {reason}") from None
