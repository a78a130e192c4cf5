"""The C ABI of liblarder.so (shim/capi/larder.h) in ctypes: structs, prototypes, and the place of
the library.

This module makes no decisions. A struct with a first field struct_bytes sets the field itself."""

import ctypes
import os
from ctypes import (
    POINTER,
    c_char_p,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)

OK, INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, OUT_OF_RANGE, RESOURCE_EXHAUSTED, UNAVAILABLE = (
    range(7)
)
DEADLINE_EXCEEDED, FAILED_PRECONDITION, DATA_LOSS, UNSUPPORTED, PERMISSION_DENIED, INTERNAL = range(
    7, 13
)

NO_PAGE = 0xFFFFFFFF  # LARDER_NO_PAGE: a block that a load leaves out
CLOSE_DROP = 1  # LARDER_CLOSE_DROP


class _Sized(ctypes.Structure):
    """A struct whose first field gives the library its size."""

    def __init__(self, **fields):
        super().__init__(ctypes.sizeof(type(self)), **fields)


class Options(_Sized):
    _fields_ = [
        ("struct_bytes", c_uint32),
        ("copy_threads", c_uint32),
        ("socket", c_char_p),
        ("engine", c_char_p),
    ]


class Group(ctypes.Structure):
    _fields_ = [("piece_bytes", c_uint64), ("layers", c_uint32), ("blocks_per_chunk", c_uint32)]


class Namespace(_Sized):
    _fields_ = [
        ("struct_bytes", c_uint32),
        ("shard_count", c_uint32),
        ("fingerprint", c_char_p),
        ("model", c_char_p),
        ("groups", POINTER(Group)),
        ("group_count", c_uint32),
        ("chunk_tokens", c_uint32),
        ("layout_of_shard", c_uint32),
        ("state_group_count", c_uint32),
        ("tail_group_count", c_uint32),
        ("tail_tokens", c_uint32),
    ]


class Pages(ctypes.Structure):
    _fields_ = [
        ("base", c_void_p),
        ("stride_bytes", c_uint64),
        ("page_bytes", c_uint64),
        ("page_count", c_uint64),
    ]


class State(_Sized):
    _fields_ = [
        ("struct_bytes", c_uint32),
        ("attached", c_uint32),
        ("usable", c_uint32),
        ("attachments", c_uint32),
        ("epoch", c_uint64),
        ("loads_running", c_uint64),
        ("stores_running", c_uint64),
    ]


class Hashes(ctypes.Structure):
    _fields_ = [
        ("bytes", c_char_p),
        ("stride_bytes", c_size_t),
        ("count", c_size_t),
        ("ns", c_uint32),
        ("reserved", c_uint32),
    ]


def hashes(data, stride, ns):
    """The struct refers to `data`: one hash every `stride` bytes, in the namespace `ns`."""
    return Hashes(data, stride, len(data) // stride, ns)


class Request(_Sized):
    _fields_ = [
        ("struct_bytes", c_uint32),
        ("decision", c_uint32),
        ("tokens_asked", c_uint64),
        ("tokens_hit", c_uint64),
        ("lookup_ns", c_uint64),
        ("hashes", POINTER(Hashes)),
        ("salted", c_uint32),
        ("reserved", c_uint32),
    ]


# LARDER_DECIDED_UNKNOWN and the following constants of larder.h.
DECIDED_LOAD, DECIDED_FETCH, DECIDED_RECOMPUTE, DECIDED_ABSENT = 1, 2, 3, 4


class Transfer(ctypes.Structure):
    """Made with all fields in order, for every load. On the engine's thread, with caches that
    copies have emptied, each step of Python costs microseconds."""

    _fields_ = [
        ("struct_bytes", c_uint32),
        ("shard", c_uint16),
        ("group", c_uint16),
        ("hashes", Hashes),
        ("pages", c_char_p),
        ("page_count", c_size_t),
        ("start_within_ms", c_uint32),
        ("parents", c_char_p),
    ]


_TRANSFER_BYTES = ctypes.sizeof(Transfer)


def transfer(data, stride, pages, group, shard, ns, parents=None):
    """The struct keeps references to `data`, the hashes, to `pages` and to `parents`."""
    if parents is not None and len(parents) != len(data):
        raise ValueError(
            f"parents has {len(parents)} bytes, hashes {len(data)}: name one parent a chunk"
        )
    named, count = hashes(data, stride, ns), len(pages) // 4
    return Transfer(_TRANSFER_BYTES, shard, group, named, pages, count, 0, parents)


class Completion(ctypes.Structure):
    _fields_ = [
        ("ticket", c_uint64),
        ("status", c_uint32),
        ("reserved", c_uint32),
        ("bytes", c_uint64),
        ("wait_ns", c_uint64),
        ("copy_ns", c_uint64),
    ]


class StoreResult(_Sized):
    _fields_ = [
        ("struct_bytes", c_uint32),
        ("reserved", c_uint32),
        ("stored", c_uint64),
        ("present", c_uint64),
        ("refused", c_uint64),
        ("bytes", c_uint64),
        ("copy_ns", c_uint64),
    ]


class StoreCompletion(ctypes.Structure):
    _fields_ = [
        (name, c_uint64) for name in ("ticket", "stored", "present", "refused", "bytes", "copy_ns")
    ]


class ActResult(_Sized):
    _fields_ = [
        ("struct_bytes", c_uint32),
        ("reserved", c_uint32),
        ("found", c_uint64),
        ("absent", c_uint64),
        ("refused", c_uint64),
    ]


class LowerTiers(_Sized):
    _fields_ = [
        ("struct_bytes", c_uint32),
        ("present", c_uint32),
        ("serving", c_uint32),
        ("shared", c_uint32),
        ("read_latency_ns", c_uint64),
        ("read_bytes_per_s", c_uint64),
    ]


class FetchResult(_Sized):
    _fields_ = [
        ("struct_bytes", c_uint32),
        ("running", c_uint32),
        ("chunks", c_uint64),
        ("bytes", c_uint64),
        ("reason", c_uint32),
        ("elapsed_us", c_uint32),
    ]


class ProbeResult(_Sized):
    _fields_ = [
        ("struct_bytes", c_uint32),
        ("running", c_uint32),
        ("chunks", c_uint64),
        ("shared", c_uint64),
        ("read_latency_ns", c_uint64),
        ("read_bytes_per_s", c_uint64),
        ("reason", c_uint32),
        ("elapsed_us", c_uint32),
        ("there", c_uint64 * 16),
    ]


class FileHash(_Sized):
    _fields_ = [
        ("struct_bytes", c_uint32),
        ("limit_local", c_uint32),
        ("uncached_limit", c_uint64),
        ("digest", c_uint8 * 16),
        ("device", c_uint64),
        ("inode", c_uint64),
        ("size_bytes", c_uint64),
        ("mtime_ns", c_int64),
        ("ctime_ns", c_int64),
        ("uncached_bytes", c_uint64),
        ("local", c_uint32),
        ("reserved", c_uint32),
    ]


# LARDER_FETCH_DONE and the following constants of larder.h.
FETCH_REASONS = ("done", "absent", "late", "no room", "it failed", "over a bound", "unknown")
FETCH_LATE, FETCH_FAILED = 2, 4
# LARDER_PROBE_DONE and the following constants of larder.h.
PROBE_REASONS = ("done", "late", "it failed", "over a bound", "unknown")
PROBE_LATE = 1

_ACT = (c_uint32, [c_void_p, POINTER(Hashes), c_uint32, POINTER(ActResult)])

# name: (result, arguments). A client is a c_void_p.
PROTOTYPES = {
    "larder_status_text": (c_char_p, [c_uint32]),
    "larder_version": (c_char_p, []),
    "larder_open": (c_uint32, [POINTER(Options), POINTER(c_void_p)]),
    "larder_close": (None, [c_void_p]),
    "larder_set_namespace": (c_uint32, [c_void_p, POINTER(Namespace)]),
    "larder_set_parts": (c_uint32, [c_void_p, c_char_p, c_size_t]),
    "larder_add_namespace": (c_uint32, [c_void_p, c_char_p, c_char_p, POINTER(c_uint32)]),
    "larder_add_state_namespace": (c_uint32, [c_void_p, c_char_p, c_char_p, POINTER(c_uint32)]),
    "larder_add_tail_namespace": (c_uint32, [c_void_p, c_char_p, c_char_p, POINTER(c_uint32)]),
    "larder_close_namespace": (c_uint32, [c_void_p, c_uint32, c_uint32]),
    "larder_wait_namespace": (c_uint32, [c_void_p, c_uint32, c_uint32]),
    "larder_namespace_id": (c_uint32, [c_char_p, c_char_p, c_size_t]),
    "larder_register_pages": (c_uint32, [c_void_p, c_uint32, POINTER(Pages), c_uint32]),
    "larder_after_stream": (c_uint32, [c_void_p, c_void_p]),
    "larder_pages_leave": (c_uint32, [c_void_p, c_uint32]),
    "larder_pages_are_back": (c_uint32, [c_void_p]),
    "larder_get_state": (c_uint32, [c_void_p, POINTER(State)]),
    "larder_wait_attached": (c_uint32, [c_void_p, c_uint32]),
    "larder_next_log": (c_size_t, [c_void_p, c_char_p, c_size_t]),
    "larder_lookup": (c_size_t, [c_void_p, POINTER(Hashes)]),
    "larder_last": (c_size_t, [c_void_p, POINTER(Hashes)]),
    "larder_hold": (c_uint32, [c_void_p, POINTER(Hashes), POINTER(c_uint64), POINTER(c_size_t)]),
    "larder_release": (None, [c_void_p, c_uint64]),
    "larder_report_request": (None, [c_void_p, POINTER(Request)]),
    "larder_report_prefill": (None, [c_void_p, c_uint64, c_uint64]),
    "larder_load": (c_uint32, [c_void_p, POINTER(Transfer), POINTER(c_uint64)]),
    "larder_load_by_layer": (c_uint32, [c_void_p, POINTER(Transfer), POINTER(c_uint64)]),
    "larder_wait_layer": (c_uint32, [c_void_p, c_uint64, c_uint32, c_uint32]),
    "larder_poll": (c_size_t, [c_void_p, POINTER(Completion), c_size_t, c_uint32]),
    "larder_store_begin": (c_uint32, [c_void_p, POINTER(Transfer)]),
    "larder_store_finish": (c_uint32, [c_void_p, c_uint32, POINTER(StoreResult)]),
    "larder_store_submit": (c_uint32, [c_void_p, c_uint32, POINTER(c_uint64)]),
    "larder_store_poll": (c_size_t, [c_void_p, POINTER(StoreCompletion), c_size_t, c_uint32]),
    "larder_store_overtake": (None, [c_void_p, c_uint64]),
    "larder_store_abandon": (c_uint32, [c_void_p]),
    "larder_drop_namespace": (c_uint32, [c_void_p]),
    "larder_get_lower_tiers": (c_uint32, [c_void_p, POINTER(LowerTiers)]),
    "larder_reachable": (c_size_t, [c_void_p, POINTER(Hashes)]),
    "larder_last_reachable": (c_size_t, [c_void_p, POINTER(Hashes)]),
    "larder_fetch": (c_uint32, [c_void_p, POINTER(Hashes), c_uint32, POINTER(c_uint64)]),
    "larder_fetch_poll": (c_uint32, [c_void_p, c_uint64, c_uint32, POINTER(FetchResult)]),
    "larder_fetch_end": (None, [c_void_p, c_uint64]),
    "larder_probe": (c_uint32, [c_void_p, POINTER(Hashes), c_uint32, POINTER(c_uint64)]),
    "larder_probe_each": (c_uint32, [c_void_p, POINTER(Hashes), c_uint32, POINTER(c_uint64)]),
    "larder_probe_poll": (c_uint32, [c_void_p, c_uint64, c_uint32, POINTER(ProbeResult)]),
    "larder_probe_end": (None, [c_void_p, c_uint64]),
    "larder_prefetch": _ACT,
    "larder_pin": _ACT,
    "larder_unpin": _ACT,
    "larder_evict": _ACT,
    "larder_demote": _ACT,
    "larder_keep": (
        c_uint32,
        [c_void_p, POINTER(Hashes), c_uint32, c_uint32, POINTER(ActResult)],
    ),
    "larder_hash_file": (
        c_uint32,
        [c_char_p, POINTER(c_int32), POINTER(FileHash), c_char_p, c_size_t],
    ),
}


def library_path():
    """$LARDER_LIBRARY if set, else the library packaged beside this file."""
    named = os.environ.get("LARDER_LIBRARY")
    return named or os.path.join(os.path.dirname(os.path.abspath(__file__)), "liblarder.so")


# These calls take microseconds and keep Python's lock. A released lock comes back only when the
# engine's other Python threads release the lock, which may take milliseconds.
_QUICK = (
    "larder_lookup",
    "larder_last",
    "larder_hold",
    "larder_release",
    "larder_report_request",
    "larder_report_prefill",
    "larder_poll",
    "larder_store_begin",
    "larder_get_lower_tiers",
    "larder_reachable",
    "larder_last_reachable",
    "larder_fetch",
    "larder_fetch_end",
    "larder_probe",
    "larder_probe_each",
    "larder_probe_end",
)

_library = None


def library():
    """The loaded library. OSError: the library cannot be loaded; the text names the path and the
    variable."""
    global _library
    if _library is None:
        path = library_path()
        try:
            loaded, quick = ctypes.CDLL(path), ctypes.PyDLL(path)
        except OSError as error:
            raise OSError(
                f"liblarder.so cannot be loaded from {path} ({error}); "
                "LARDER_LIBRARY names another file"
            ) from None
        for name, (result, arguments) in PROTOTYPES.items():
            function = getattr(quick if name in _QUICK else loaded, name, None)
            if function is None:
                raise OSError(
                    f"{path} has no function {name}: the library is of another release than the "
                    "Python package larder. Install both from one "
                    "release; LARDER_LIBRARY names another file"
                )
            setattr(loaded, name, function)
            function.restype, function.argtypes = result, arguments
        _library = loaded
    return _library
