"""Answer: where the bytes of one answer go, and where the answer ends. A call may give up, and the
link then reads the rest of the answer before the next request. Owned by one thread."""

import struct

from .requests import OK

_SCRAP_BYTES = 1 << 20


class Answer:
    def __init__(self, most_numbers, room=None):
        """`most_numbers`: the code is the first; a failure has the code alone. `room`: a memoryview
        for the value, whose size is the second number; None: the answer has no value."""
        self.numbers = []
        self._most, self._room = most_numbers, room
        self._number, self._at = bytearray(4), 0  # bytes of this number or of the value
        self._scrap = None

    def give_up(self):
        """The rest of the value goes nowhere: the room may have other bytes by now."""
        if self._room is not None:
            self._room = memoryview(b"")

    def next_room(self):
        """A memoryview for the next bytes; empty: the answer has ended."""
        if not self._has_numbers():
            return memoryview(self._number)[self._at :]
        if self._room is None or self.numbers[0] != OK:
            return memoryview(b"")
        size = self.numbers[1]
        if self._at < min(size, len(self._room)):
            return self._room[self._at : size]
        if self._scrap is None:
            self._scrap = memoryview(bytearray(min(size - self._at, _SCRAP_BYTES)))
        return self._scrap[: size - self._at]

    def took(self, count):
        """The first `count` bytes of next_room() are filled."""
        self._at += count
        if not self._has_numbers() and self._at == len(self._number):
            self.numbers += struct.unpack("<I", self._number)
            self._at = 0

    def _has_numbers(self):
        return len(self.numbers) == self._most or (self.numbers and self.numbers[0] != OK)
