"""larderd's index in shared memory, as engines read the index, also of a dead larderd: the slots
that are being written just now.

shim/protocol/index_layout.h and word.h are the layout."""

import glob
import struct

import numpy

# magic, version, epoch, sizes, entry_count, bucket_count, entries_offset
_HEADER = struct.Struct("<8sIIQQQQQQ")
_ENTRY_WORDS = 8
_STATES = 7
_GRANTED = 1


class IndexWords:
    """Of the living larderd of that name. Keeps its mapping after the file has gone."""

    def __init__(self, shm_name):
        path = max(
            glob.glob(f"/dev/shm/{shm_name}.index.*"), key=lambda name: int(name.rsplit(".", 1)[1])
        )
        words = numpy.memmap(path, dtype="<u8", mode="r")
        magic, _, _, _, _, _, entries, _, offset = _HEADER.unpack_from(words[:8].tobytes())
        assert magic == b"LARINDX1"
        first = offset // 8
        self._words = words[first : first + entries * _ENTRY_WORDS : _ENTRY_WORDS]

    def granted(self):
        return int(((self._words & _STATES) == _GRANTED).sum())
