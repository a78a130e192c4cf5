"""Records: the small values that name the large ones. Pure; thread-safe.

A value becomes visible with its first byte, and the server ends at a read of a value that is being
written. So the bytes of an object go to a fresh name that nobody can read yet. A record then says
where they are. It is so small that it is written in one step."""

import hashlib
import secrets
import struct
from typing import NamedTuple

_MAGIC = b"LIS1"
_FORMAT = struct.Struct("<4sQ20s20s")  # magic, bytes of the part, name of the part, the key's hash
RECORD_BYTES = _FORMAT.size


class Record(NamedTuple):
    part: str  # the name of the object's bytes
    size: int


def fresh_name():
    return secrets.token_hex(20)


def name_of(key, generations):
    """The name of a key's record; `generations` are bytes, at most 64."""
    return hashlib.blake2b(key.encode(), digest_size=20, key=generations).hexdigest()


def encode(key, record):
    return _FORMAT.pack(_MAGIC, record.size, bytes.fromhex(record.part), _hash(key))


def decode(key, raw):
    """The Record; None: the bytes are no record of this key."""
    if len(raw) != RECORD_BYTES:
        return None
    magic, size, part, hashed = _FORMAT.unpack(raw)
    return Record(part.hex(), size) if magic == _MAGIC and hashed == _hash(key) else None


def _hash(key):
    return hashlib.blake2b(key.encode(), digest_size=20).digest()
