"""The requests of InfiniStore's TCP protocol, as bytes.

A request is a header of 9 bytes and a flatbuffer of a fixed layout; PUT has a value behind them.
All names have NAME_BYTES characters of ASCII. Pure; thread-safe."""

import array
import struct

NAME_BYTES = 40
OK, NOT_FOUND, FULL = 200, 404, 507  # answers; others are failures

_MAGIC = 0xDEADBEEF
_PAYLOAD, _MATCH, _DELETE = b"L", b"M", b"X"  # operations
_PUT, _GET = ord("P"), ord("G")  # of a payload
_HEADER = struct.Struct("<IcI")  # magic, operation, bytes of the body
# TCPPayloadRequest {key: string; value_length: int; op: byte}: the offset of the table; its vtable
# at 4; the table at 16; the key at 32, with its length.
_PAYLOAD_REQUEST = struct.Struct(f"<I 5H2x iIiB3x I{NAME_BYTES}s4x")
# {keys: [string]}: the vtable at 4, the table at 12, the vector at 20.
_KEYS_REQUEST = struct.Struct("<I 3H2x iI I")
_STRING = struct.Struct(f"<I{NAME_BYTES}s4x")


def put(name, size):
    """Without the value, which has `size` bytes."""
    return _payload(name, size, _PUT)


def get(name):
    return _payload(name, 0, _GET)


def match(names, order):
    """The server searches the list names[i] for i in `order` by bisection."""
    return _keys(_MATCH, names, order)


def delete(names):
    return _keys(_DELETE, names, range(len(names)))


def _payload(name, size, operation):
    vtable = (10, 16, 4, 8, 12)  # its bytes, the bytes of the table, the offsets of the fields
    body = _PAYLOAD_REQUEST.pack(
        16, *vtable, 12, 12, size, operation, NAME_BYTES, name.encode("ascii")
    )
    return _HEADER.pack(_MAGIC, _PAYLOAD, len(body)) + body


# A string occurs once in the body, whatever the number of its places in the vector.
def _keys(operation, names, order):
    first_place = _KEYS_REQUEST.size
    first_string = first_place + 4 * len(order)
    places = range(first_place, first_string, 4)
    offsets = array.array(
        "I",
        [first_string + _STRING.size * i - place for i, place in zip(order, places, strict=True)],
    )
    strings = b"".join([_STRING.pack(NAME_BYTES, name.encode("ascii")) for name in names])
    body = _KEYS_REQUEST.pack(12, 6, 8, 4, 8, 4, len(order)) + offsets.tobytes() + strings
    return _HEADER.pack(_MAGIC, operation, len(body)) + body
