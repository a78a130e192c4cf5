"""XXH3-128 of whole files, by liblarder.so. Python's lock is free while a file is read.

Thread-safe. A call blocks until the file is read; Stop.set() from another thread ends it within 1
MiB."""

import ctypes
import os
from collections import namedtuple

from larder import _native as native

# Names one state of one file. A changed file has another ctime.
Stamp = namedtuple("Stamp", "device inode size mtime_ns ctime_ns")
# digest: 32 hex digits. uncached: bytes that were not in the page cache, counted where the limit
# holds.
Hashed = namedtuple("Hashed", "digest stamp uncached")

_WHY_BYTES = 1024


class Stopped(Exception):
    """The call was ended by Stop.set()."""


class FileChanged(Exception):
    """The file changed during the read: hash the file again."""


class OverLimit(Exception):
    """Too much of the file is not in the page cache, and the file is not on a local disk. No byte
    was read."""


class Stop:
    """A flag that liblarder.so can see."""

    def __init__(self):
        self.flag = ctypes.c_int32()

    def set(self):
        self.flag.value = 1

    def is_set(self):
        return self.flag.value != 0


_KINDS = {
    native.DEADLINE_EXCEEDED: Stopped,
    native.UNAVAILABLE: FileChanged,
    native.OUT_OF_RANGE: OverLimit,
    native.NOT_FOUND: FileNotFoundError,
    native.PERMISSION_DENIED: PermissionError,
}


def stamp_of(path):
    """The Stamp of the file behind `path`. OSError: there is no such file."""
    found = os.stat(path)
    return Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def hash_file(path, stop=None, uncached_limit=None, limit_local=False):
    """Hashed. `uncached_limit`: the most bytes outside the page cache to read from a file that is
    not on a local file system (with limit_local: from any file). OSError, or one of the three
    errors above."""
    limit = 2**64 - 1 if uncached_limit is None else max(0, uncached_limit)
    file = native.FileHash(uncached_limit=limit, limit_local=limit_local)
    why = ctypes.create_string_buffer(_WHY_BYTES)
    status = native.library().larder_hash_file(
        os.fsencode(path), stop.flag if stop else None, file, why, _WHY_BYTES
    )
    if status == native.OK:
        stamp = Stamp(file.device, file.inode, file.size_bytes, file.mtime_ns, file.ctime_ns)
        return Hashed(bytes(file.digest).hex(), stamp, file.uncached_bytes)
    text = why.value.decode(errors="replace")
    raise _KINDS.get(status, OSError)(text or f"{path} cannot be read")
