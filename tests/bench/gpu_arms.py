"""gpu_arms.h from Python: fields of pages and slots, ways to move between the two. One thread
calls; the end of a `with` frees its objects, the moves before their field."""

from __future__ import annotations

import ctypes
import os
import pathlib
import socket
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from typing import Iterator

from harness.bench import Void

LOAD, STORE = 0, 1  # onto the pages, off the pages


WRONG_BYTES = -2
MOST_APART = 64  # the layout in gpu_arms.h


class ArmsError(RuntimeError):
    """A figure that could not be measured, and the reason. Wrong bytes are Void."""


class Moves:
    """A way to move the chunks of a field."""

    def __init__(self, library: ctypes.CDLL, handle: int, field: Field):
        self._library, self._handle, self.field = library, handle, field

    def one_way(self, direction: int, callers: int) -> float:
        """Seconds for all of the field's bytes once."""
        seconds = ctypes.c_double()
        self.field.arms.check(
            self._library.gpu_one_way(self._handle, direction, callers, ctypes.byref(seconds))
        )
        return seconds.value

    def by_events(self, direction: int) -> float:
        """The same by the device's own clock, for the driver's own copies, one chunk behind the
        other."""
        seconds = ctypes.c_double()
        self.field.arms.check(
            self._library.gpu_by_events(self._handle, direction, ctypes.byref(seconds))
        )
        return seconds.value

    def way(self) -> str:
        """The way of the product's copies; empty for the driver's own."""
        return self._library.gpu_moves_way(self._handle).decode()

    def verify(self, callers: int) -> None:
        """All pages scribbled over, loaded and compared byte by byte: Void where one differs."""
        self.field.scribble()
        self.one_way(LOAD, callers)
        self.field.check()

    def both_ways(self, callers: int, copies: int) -> tuple[list[float], list[float]]:
        """The sorted end times of copies in seconds, until the given numbers of loads and of
        stores."""
        room = MOST_APART * copies
        ends, counts = (
            [(ctypes.c_double * room)() for _ in range(2)],
            [ctypes.c_size_t() for _ in range(2)],
        )
        arguments = [
            argument
            for times, count in zip(ends, counts)
            for argument in (times, ctypes.byref(count))
        ]
        self.field.arms.check(
            self._library.gpu_both_ways(self._handle, callers, copies, *arguments)
        )
        loads, stores = (sorted(times[: count.value]) for times, count in zip(ends, counts))
        return loads, stores

    def pace(self, direction: int, bytes_per_s: float, callers: int) -> None:
        self.field.arms.check(
            self._library.gpu_pace(self._handle, direction, ctypes.c_double(bytes_per_s), callers)
        )

    def rest(self) -> float:
        """Ends the work of pace(): the reached bytes per second."""
        rate = ctypes.c_double()
        self.field.arms.check(self._library.gpu_rest(ctypes.byref(rate)))
        return rate.value


class Field:
    """Pages on the GPU and slots in shared memory."""

    def __init__(self, arms: Arms, handle: int, size: int, chunk_bytes: int):
        self.arms, self._handle, self.bytes, self.chunk_bytes = arms, handle, size, chunk_bytes

    @property
    def pages(self) -> int:
        """The address of the first page; the others follow."""
        return self.arms.library.gpu_field_pages(self._handle)

    def fill(self) -> None:
        self.arms.check(self.arms.library.gpu_field_fill(self._handle))

    def scribble(self) -> None:
        self.arms.check(self.arms.library.gpu_field_scribble(self._handle))

    def check(self) -> None:
        """The pages hold the bytes of fill(), or Void."""
        self.arms.check(self.arms.library.gpu_field_check(self._handle))

    @contextmanager
    def moves(self, method: str, blocks: int = 0, plain_bytes: int = 0) -> Iterator[Moves]:
        library = self.arms.library
        handle = library.gpu_moves_make(self._handle, method.encode(), blocks, plain_bytes)
        if not handle:
            raise ArmsError(self.arms.why())
        try:
            yield Moves(library, handle, self)
        finally:
            library.gpu_moves_drop(handle)


class Arms:
    """The library, with a device. ArmsError without a device."""

    def __init__(self, path: str | os.PathLike):
        self.path = os.fspath(path)
        self.library = _declared(ctypes.CDLL(self.path))
        name = self.library.gpu_open()
        if name is None:
            raise ArmsError(self.why())
        self.device = name.decode()

    def why(self) -> str:
        return self.library.gpu_why().decode()

    def check(self, status: int) -> None:
        if status == WRONG_BYTES:
            raise Void(self.why())
        if status != 0:
            raise ArmsError(self.why())

    @contextmanager
    def field(
        self,
        size: int,
        piece_bytes: int,
        chunk_bytes: int,
        slots: bool = True,
        by_hand: bool = False,
    ) -> Iterator[Field]:
        """The pages are filled. A field without slots has no moves. by_hand: the pages lie in
        memory that is mapped by hand and can be shared by a descriptor."""
        with (
            arena(self.library.gpu_arena_bytes(size, piece_bytes, chunk_bytes))
            if slots
            else nullcontext(-1) as file
        ):
            handle = self.library.gpu_field_make(size, piece_bytes, chunk_bytes, file, by_hand)
            if not handle:
                raise ArmsError(self.why())
            try:
                field = Field(self, handle, size, chunk_bytes)
                field.fill()
                yield field
            finally:
                self.library.gpu_field_drop(handle)

    def host_alloc_s(self, size: int) -> float:
        seconds = ctypes.c_double()
        self.check(self.library.gpu_host_alloc(size, ctypes.byref(seconds)))
        return seconds.value

    @contextmanager
    def launches(self) -> Iterator[dict[str, float]]:
        """Small work of the device meanwhile. The dict is filled at the end: microseconds of one
        launch, median, one in a thousand, and the worst."""
        self.check(self.library.gpu_launches_begin())
        took: dict[str, float] = {}
        found = [ctypes.c_double() for _ in range(3)]
        try:
            yield took
        finally:
            self.check(self.library.gpu_launches_end(*map(ctypes.byref, found)))
            took.update(zip(("median_us", "rare_us", "worst_us"), (one.value for one in found)))

    def touch_and_register_s(self, size: int, page_bytes: int) -> tuple[float, float]:
        touch, register = ctypes.c_double(), ctypes.c_double()
        self.check(
            self.library.gpu_touch_and_register(
                size, page_bytes, ctypes.byref(touch), ctypes.byref(register)
            )
        )
        return touch.value, register.value


@contextmanager
def arena(size: int) -> Iterator[int]:
    """A file of the given size that another process made, touched and keeps, like larderd
    (gpu_arena.py)."""
    own, others = socket.socketpair()
    with own:
        with others:
            command = [
                sys.executable,
                str(pathlib.Path(__file__).with_name("gpu_arena.py")),
                str(others.fileno()),
                str(size),
            ]
            process = subprocess.Popen(command, pass_fds=[others.fileno()])
        try:
            files = socket.recv_fds(own, 1, 1)[1]
            if not files:
                raise ArmsError(f"no {size >> 20} MiB of another process's memory")
            try:
                yield files[0]
            finally:
                os.close(files[0])
        finally:
            own.close()  # the event to wait for
            process.wait()


def beside(library: str | os.PathLike) -> pathlib.Path:
    """The place in the build: beside liblarder.so."""
    return pathlib.Path(library).with_name("libgpu_arms.so")


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    handle, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64
    times, count = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_size_t)
    for name, result, arguments in (
        ("gpu_why", ctypes.c_char_p, []),
        ("gpu_open", ctypes.c_char_p, []),
        ("gpu_arena_bytes", size, [size, size, size]),
        ("gpu_field_make", handle, [size, size, size, number, number]),
        ("gpu_field_drop", None, [handle]),
        ("gpu_field_pages", handle, [handle]),
        ("gpu_field_fill", number, [handle]),
        ("gpu_field_scribble", number, [handle]),
        ("gpu_field_check", number, [handle]),
        ("gpu_moves_make", handle, [handle, ctypes.c_char_p, ctypes.c_uint, size]),
        ("gpu_moves_drop", None, [handle]),
        ("gpu_moves_way", ctypes.c_char_p, [handle]),
        ("gpu_launches_begin", number, []),
        ("gpu_launches_end", number, [times, times, times]),
        ("gpu_one_way", number, [handle, number, ctypes.c_uint, times]),
        ("gpu_by_events", number, [handle, number, times]),
        (
            "gpu_both_ways",
            number,
            [handle, ctypes.c_uint, ctypes.c_size_t, times, count, times, count],
        ),
        ("gpu_pace", number, [handle, number, ctypes.c_double, ctypes.c_uint]),
        ("gpu_rest", number, [times]),
        ("gpu_host_alloc", number, [size, times]),
        ("gpu_touch_and_register", number, [size, size, times, times]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
