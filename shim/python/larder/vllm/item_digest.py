"""Digests of multi-modal items. A digest is a name of a picture, a sound or a video, and no client
can choose the name.

An item is the dictionary of tensors that vLLM's processor made (MultiModalKwargsItem). The digest
covers every key, the way in which vLLM batches the key's values, and the type, shape and bytes of
each tensor. The encoding can be decoded in one way only. A value of another kind has no digest
(Undigested). An item without a tensor has no digest either: vLLM's shared-memory cache hands out
addresses in this form.

The hash is BLAKE3: API users are adversaries, so the hash must be cryptographic, and vLLM itself
requires this package. 10 MB take 3.1 ms on one core. hashlib's sha256 takes 10.7 ms with the
processor's SHA instructions. blake3 releases the GIL meanwhile.

`digest` and `item_digest` are pure. The scheduler's thread owns a Digests, which has one thread."""

import struct
import threading
import weakref
from concurrent.futures import Future, ThreadPoolExecutor

MOST_WAITING = 64  # items that are not digested yet


class Undigested(Exception):
    """The item has no digest. `reason`: hidden or form, of engine_metrics.UNNAMED."""

    def __init__(self, reason, text=""):
        super().__init__(text)
        self.reason = reason


def digest(value):
    """32 bytes for None, numbers, texts, bytes, tensors, and tuples, lists and dictionaries of
    these. Raises Undigested for another type."""
    from blake3 import blake3

    state = blake3()
    _encode(value, state.update)
    return state.digest()


def item_digest(item):
    """The digest of a MultiModalKwargsItem."""
    if not any(_holds_array(element.data) for element in item.values()):
        raise Undigested("hidden", "an item without a tensor")
    return digest({key: (*_batching(element.field), element.data) for key, element in item.items()})


def _batching(field):
    """How vLLM joins values of several items. The fields `slices` and `batch_size` describe the
    other items of a request, and are left out."""
    kind = type(field).__name__
    if kind not in ("MultiModalBatchedField", "MultiModalFlatField", "MultiModalSharedField"):
        raise Undigested("form", f"a field of the kind {kind}")
    return kind, getattr(field, "dim", 0)


def _holds_array(value):
    if isinstance(value, (list, tuple)):
        return any(map(_holds_array, value))
    return hasattr(value, "shape")


def _encode(value, put):
    """A letter for the type, then the length, then the content."""
    kind = type(value)
    if value is None:
        put(b"n")
    elif kind is bool:
        put(b"+" if value else b"-")
    elif kind is int:
        _framed(b"i", str(value).encode(), put)
    elif kind is float:
        put(b"f" + struct.pack("<d", value))
    elif kind is str:
        _framed(b"s", value.encode(), put)
    elif kind is bytes:
        _framed(b"b", value, put)
    elif kind is tuple or kind is list:
        put((b"(" if kind is tuple else b"[") + _length(len(value)))
        for one in value:
            _encode(one, put)
    elif kind is dict:
        put(b"{" + _length(len(value)))
        for key in sorted(value):
            _framed(b"s", key.encode(), put)
            _encode(value[key], put)
    else:
        _encode_array(value, put)


def _encode_array(value, put):
    import numpy
    import torch

    if type(value) is numpy.ndarray and value.dtype.kind in "biufc":
        array, kind = numpy.ascontiguousarray(value), value.dtype.str
    elif type(value) is torch.Tensor and _is_plain(value):
        flat = value.detach().contiguous().flatten()
        array, kind = flat.view(torch.uint8).numpy(), str(value.dtype)
    else:
        raise Undigested("form", f"a value of the type {type(value).__name__}")
    put(b"x")
    _encode((kind, tuple(value.shape)), put)  # both give the length in bytes
    put(array.reshape(-1).view(numpy.uint8).data)


def _is_plain(tensor):
    """Whether the bytes in this process's memory are the tensor's whole value."""
    if not tensor.is_cpu or str(tensor.layout) != "torch.strided":
        return False
    return not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())


def _framed(kind, data, put):
    put(kind + _length(len(data)))
    put(data)


def _length(value):
    return value.to_bytes(8, "little")


class Digests:
    """The digest of each item as a Future, made once for each object: vLLM's cache of processed
    items hands out the same object again."""

    def __init__(self):
        # The thread starts with the first item and ends with this object.
        self._thread = ThreadPoolExecutor(1, "larder-digest")
        # By id of the item: (weak reference to the item, Future). The end of an item removes its
        # entry.
        self._known = {}
        self._places = threading.Semaphore(MOST_WAITING)

    def of(self, item):
        """A Future of 32 bytes or Undigested. None: MOST_WAITING items wait, so ask again. Never
        waits."""
        if item is None:
            return _failed(Undigested("hidden", "vLLM keeps the item elsewhere"))
        forget, key = self._known.pop, id(item)
        try:
            reference = weakref.ref(item, lambda _: forget(key, None))
        except TypeError:
            return _failed(Undigested("form", f"an item of the type {type(item).__name__}"))
        known = self._known.get(key)
        if known is not None and known[0]() is item:
            return known[1]
        if not self._places.acquire(blocking=False):
            return None
        future = self._thread.submit(_digest_of, item)
        future.add_done_callback(lambda _, places=self._places: places.release())
        self._known[key] = reference, future
        return future


def _digest_of(item):
    try:
        return item_digest(item)
    except Undigested:
        raise
    except Exception as error:
        raise Undigested("form", f"{type(error).__name__}: {error}") from None


def _failed(error):
    future = Future()
    future.set_exception(error)
    return future


UNKNOWN = _failed(Undigested("form", "an item of unknown content"))
