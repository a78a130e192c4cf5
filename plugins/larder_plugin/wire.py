"""Packets between larderd and a plug-in, protocol 1: docs/design/plugin.md.

Thread-safe: the functions share no state. MalformedPacket names the fault of a packet."""

import enum
import struct
from typing import NamedTuple

PROTOCOL = 1
MAX_PACKET_BYTES = 256 * 1024
MAX_ENTRIES = 256  # of one PUT, GET, REMOVE or DONE

_HEADER = struct.Struct("<HHIQ")
_HELLO = struct.Struct("<4sHHQIIII")
_DONE = struct.Struct("<QQI4x")


class Kind(enum.IntEnum):
    HELLO = 1
    REFUSED = 2
    PUT = 3
    GET = 4
    EXIST = 5
    REMOVE = 6
    CLEAR = 7
    READY = 16
    DONE = 17
    FOUND = 18
    STATE = 19


class Result(enum.IntEnum):
    OK = 0
    NOT_FOUND = 1
    EXISTS = 2
    FULL = 3
    UNAVAILABLE = 4
    TOO_LARGE = 5
    FAILED = 6


class MalformedPacket(ValueError):
    """A packet that protocol 1 does not have."""


class Hello(NamedTuple):
    protocol: int
    region_bytes: int
    key_bytes: int
    prefix: str
    url: str


class Entry(NamedTuple):
    """One PUT, GET or REMOVE. REMOVE has no offset and no size."""

    ticket: int
    offset: int
    size: int
    key: str


class Call(NamedTuple):
    """A packet of larderd. `entries` of PUT, GET and REMOVE; `keys` of EXIST; `text` of CLEAR."""

    kind: Kind
    ticket: int
    entries: list = []
    keys: list = []
    text: str = ""


class Done(NamedTuple):
    ticket: int
    value: int
    result: Result


def parse_hello(packet):
    """The Hello of the first packet. Raises MalformedPacket, also for REFUSED, with the reason."""
    kind, _, _, body = _split(packet)
    if kind == Kind.REFUSED:
        raise MalformedPacket(f"larderd refused the connection: {_text(body, 0)[0]}")
    if kind != Kind.HELLO or len(body) < _HELLO.size:
        raise MalformedPacket(f"the first packet is no HELLO but kind {kind}")
    magic, protocol, _, region, key_bytes, *_ = _HELLO.unpack_from(body)
    if magic != b"LPG1":
        raise MalformedPacket(f"HELLO has the magic {magic!r} instead of b'LPG1'")
    prefix, end = _text(body, _HELLO.size)
    url, _ = _text(body, end)
    return Hello(protocol, region, key_bytes, prefix, url)


def parse_call(packet, key_bytes):
    """The Call of any later packet. Raises MalformedPacket."""
    number, count, ticket, body = _split(packet)
    if number in (Kind.PUT, Kind.GET):
        entries = _entries(body, count, struct.Struct(f"<QQQ{key_bytes}s"))
        return Call(Kind(number), ticket, [Entry(*e[:3], e[3].decode("ascii")) for e in entries])
    if number == Kind.REMOVE:
        entries = _entries(body, count, struct.Struct(f"<Q{key_bytes}s"))
        return Call(Kind.REMOVE, ticket, [Entry(e[0], 0, 0, e[1].decode("ascii")) for e in entries])
    if number == Kind.EXIST:
        entries = _entries(body, count, struct.Struct(f"<{key_bytes}s"))
        return Call(Kind.EXIST, ticket, keys=[key.decode("ascii") for (key,) in entries])
    if number == Kind.CLEAR:
        return Call(Kind.CLEAR, ticket, text=_text(body, 0)[0])
    raise MalformedPacket(f"a packet of the unknown kind {number}")


def ready(name, version):
    body = struct.pack("<HHI", PROTOCOL, 0, 0) + _packed_text(name, 64) + _packed_text(version, 64)
    return _packet(Kind.READY, 0, 0, body)


def done(answers):
    """One packet for at most MAX_ENTRIES answers."""
    return _packet(Kind.DONE, len(answers), 0, b"".join(_DONE.pack(*answer) for answer in answers))


def found(ticket, result, there):
    """`there`: a bool for each key of the call."""
    return _packet(Kind.FOUND, len(there), ticket, struct.pack("<I4x", result) + bytes(there))


def state(works, reason):
    body = struct.pack("<BBHHH", works, works, 0, 0, 0) + _packed_text(reason, 256)
    return _packet(Kind.STATE, 0, 0, body)


def _packet(kind, count, ticket, body):
    return _HEADER.pack(kind, count, _HEADER.size + len(body), ticket) + body


def _split(packet):
    if len(packet) < _HEADER.size:
        raise MalformedPacket(f"a packet of {len(packet)} bytes")
    kind, count, size, ticket = _HEADER.unpack_from(packet)
    if size != len(packet):
        raise MalformedPacket(f"a packet of {len(packet)} bytes names {size} bytes")
    return kind, count, ticket, packet[_HEADER.size :]


def _entries(body, count, layout):
    if count == 0 or len(body) != count * layout.size:
        raise MalformedPacket(f"{count} entries of {layout.size} bytes in {len(body)} bytes")
    return list(layout.iter_unpack(body))


def _text(body, at):
    """The text at `at`, and the offset behind the text."""
    if len(body) < at + 2:
        raise MalformedPacket("a text is cut")
    (size,) = struct.unpack_from("<H", body, at)
    end = at + 2 + size
    if len(body) < end:
        raise MalformedPacket("a text is cut")
    return body[at + 2 : end].decode(errors="replace"), end


def _packed_text(text, most):
    raw = text.encode()[:most].decode(errors="ignore").encode()
    return struct.pack("<H", len(raw)) + raw
