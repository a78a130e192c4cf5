"""Questions to a real driver that the fake driver of the tests cannot answer, and the meaning of
each answer for Larder.

The first part of `make test-gpu`. The probe judges no answer: a driver may answer either way, and
Larder works with both, at different costs. Needs PyTorch. The last question is asked last, since a
fault of the device would end the process."""

from __future__ import annotations

import ctypes as C
import mmap
import os
import subprocess
import sys
import threading
import time

MIB, GIB = 1 << 20, 1 << 30
PTR, SIZE = C.c_void_p, C.c_size_t
POPULATE_WRITE = 23  # MADV_POPULATE_WRITE
READ_WRITE, SHARED = 3, 1
MAPPED = 3  # CU_MEMHOSTREGISTER_PORTABLE | DEVICEMAP
ALREADY_REGISTERED = 712
REGISTERED_BYTES = 4 * GIB
NEIGHBOUR_S = 45


def say(question: str, answer: str, meaning: str) -> None:
    print(f"? {question}\n  {answer}\n  = {meaning}", flush=True)


class Driver:
    """libcuda's functions as the product finds them: by name and version."""

    def __init__(self):
        self._cuda = C.CDLL("libcuda.so.1")
        self.libc = C.CDLL(None, use_errno=True)
        self.libc.mmap.restype, self.libc.mmap.argtypes = (
            PTR,
            [PTR, SIZE, C.c_int, C.c_int, C.c_int, C.c_long],
        )
        self.libc.madvise.argtypes = [PTR, SIZE, C.c_int]
        for name in ("HostRegister", "HostUnregister", "HostAlloc"):
            setattr(self, name, self._find(f"cuMem{name}"))
        self.FreeHost, self.CopyAsync = self._find("cuMemFreeHost"), self._find("cuMemcpyAsync")
        self.Batch, self.Attribute = (
            self._find("cuMemcpyBatchAsync"),
            self._find("cuPointerGetAttribute"),
        )

    def _find(self, name: str, version: int = 12080):
        at = PTR()
        rc = self._cuda.cuGetProcAddress_v2(
            name.encode(), C.byref(at), version, C.c_uint64(0), None
        )
        return (lambda *_: 10**6 + rc) if rc or not at else C.CFUNCTYPE(C.c_int)(at.value)

    def arena(self, size: int) -> int:
        """One mapping is touched, as by larderd; the other, at this address, is the engine's."""
        file = os.memfd_create("probe")
        os.ftruncate(file, size)
        larderds = mmap.mmap(file, size)
        larderds.madvise(POPULATE_WRITE)
        for at in range(0, size, mmap.PAGESIZE):
            larderds[at] = 1
        return self.libc.mmap(None, size, READ_WRITE, SHARED, file, 0)

    def populate(self, base: int, size: int) -> None:
        self.libc.madvise(base, size, POPULATE_WRITE)


class Launches(threading.Thread):
    """An engine's thread: small launches, one after the other."""

    def __init__(self, torch):
        super().__init__(daemon=True)
        self.torch, self.stop, self.us = torch, False, []
        self.x = torch.ones(1024, device="cuda")

    def run(self) -> None:
        while not self.stop:
            start = time.perf_counter()
            self.x.add_(1)
            self.us.append(1e6 * (time.perf_counter() - start))
            if len(self.us) % 64 == 0:
                self.torch.cuda.synchronize()

    def end(self) -> str:
        self.stop = True
        self.join()
        us = sorted(self.us)
        return (
            f"median {us[len(us) // 2]:.0f} us, one in a thousand above "
            f"{us[len(us) * 999 // 1000]:.0f}, worst {us[-1]:.0f}"
        )


def timed(call, *arguments) -> tuple[int, float]:
    start = time.perf_counter()
    code = call(*arguments)
    return code, 1e3 * (time.perf_counter() - start)


def launches_for(torch, seconds: float) -> str:
    launches = Launches(torch)
    launches.start()
    time.sleep(seconds)
    return launches.end()


def registering(torch, driver: Driver, slice_bytes: int, populate: bool) -> None:
    base, free = driver.arena(REGISTERED_BYTES), torch.cuda.mem_get_info()[0]
    launches = Launches(torch)
    launches.start()
    begun, worst, code = time.perf_counter(), 0.0, 0
    for at in range(0, REGISTERED_BYTES, slice_bytes):
        if populate:
            driver.populate(base + at, slice_bytes)
        code, ms = timed(driver.HostRegister, PTR(base + at), SIZE(slice_bytes), MAPPED)
        worst = max(worst, ms)
    rate = (time.perf_counter() - begun) / (REGISTERED_BYTES / GIB)
    cost = (free - torch.cuda.mem_get_info()[0]) / MIB
    print(
        f"  slices of {slice_bytes // MIB:>4} MiB, populated first {populate}: code {code}, "
        f"{rate:.3f} s a GiB, worst call {worst:.0f} ms; launches "
        f"{launches.end()}; GPU memory taken {cost:.0f} MiB",
        flush=True,
    )
    torch.cuda.synchronize()
    for at in range(0, REGISTERED_BYTES, slice_bytes):
        driver.HostUnregister(PTR(base + at))
    driver.libc.munmap(PTR(base), SIZE(REGISTERED_BYTES))


def what_registering_costs(torch, driver: Driver) -> None:
    say(
        "How long do launches wait while memory is registered?",
        f"alone: {launches_for(torch, 2)}",
        "Larder registers slices of 64 MiB, populated first. If smaller slices wait much less, "
        "take smaller ones (RegistrationOptions::slice_bytes)",
    )
    neighbour = subprocess.Popen(
        [sys.executable, __file__, "neighbour"], stdout=subprocess.PIPE, text=True
    )
    time.sleep(6)  # until the process launches
    for slice_bytes, populate in (
        (GIB, False),
        (GIB, True),
        (128 * MIB, True),
        (64 * MIB, True),
        (32 * MIB, True),
    ):
        registering(torch, driver, slice_bytes, populate)
    say(
        "And another process on this GPU?",
        neighbour.communicate(timeout=2 * NEIGHBOUR_S)[0].strip(),
        "a worst launch as long as a call above: the driver's lock is the node's, and one process "
        "at a time should register (Larder does so)",
    )


def as_a_neighbour(torch) -> None:
    launches = Launches(torch)
    launches.start()
    end, worst = time.time() + NEIGHBOUR_S, 0.0
    while time.time() < end:
        worst = max(worst, timed(torch.cuda.mem_get_info)[1])
        time.sleep(0.002)
    print(f"{launches.end()}; worst cudaMemGetInfo {worst:.0f} ms", flush=True)


def what_waits_for_the_gpu(torch, driver: Driver) -> None:
    base, held = driver.arena(64 * MIB), PTR()
    for name, call, arguments, meaning in (
        (
            "cuMemHostRegister",
            driver.HostRegister,
            (PTR(base), SIZE(64 * MIB), MAPPED),
            "registering the arena would stand behind the model's steps",
        ),
        (
            "cuMemHostUnregister",
            driver.HostUnregister,
            (PTR(base),),
            "letting go of an arena does; Larder lets go on a copy thread",
        ),
        (
            "cuMemHostAlloc",
            driver.HostAlloc,
            (C.byref(held), SIZE(4 * MIB), MAPPED),
            "making staging memory does; Larder makes all staging memory before the first copy",
        ),
        (
            "cuMemFreeHost",
            driver.FreeHost,
            (held,),
            "giving staging memory back does; Larder keeps the memory until its end",
        ),
    ):
        torch.cuda._sleep(400_000_000)  # some 200 ms
        code, ms = timed(call, *arguments)
        waited = torch.cuda.current_stream().query()
        torch.cuda.synchronize()
        say(
            f"Does {name} wait for a kernel of somebody's?",
            f"code {code}, {ms:.1f} ms, it {'WAITED' if waited else 'did not wait'}",
            f"where it waits, {meaning}",
        )


def what_a_thread_without_a_context_is_told(torch, driver: Driver) -> None:
    pages = torch.empty(MIB, dtype=torch.uint8, device="cuda")
    codes: dict[str, int] = {}

    def ask() -> None:
        for attribute, name in (
            (1, "context"),
            (2, "memory type"),
            (7, "buffer id"),
            (9, "device ordinal"),
        ):
            codes[name] = driver.Attribute(
                C.byref(C.c_uint64(0)), attribute, C.c_uint64(pages.data_ptr())
            )

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    say(
        "Which attributes of a page does a thread without a context learn?",
        str(codes),
        "0: it does. Context, type and ordinal must be 0, or no engine finds its GPU; Larder asks "
        "for the buffer's id within a context",
    )


def what_a_border_of_registrations_is(torch, driver: Driver) -> None:
    half, stream = 64 * MIB, torch.cuda.Stream()
    base, pages, queue = (
        driver.arena(2 * half),
        torch.empty(4 * MIB, dtype=torch.uint8, device="cuda"),
        PTR(stream.cuda_stream),
    )
    for at in (base, base + half):
        driver.HostRegister(PTR(at), SIZE(half), MAPPED)
    code = driver.HostRegister(PTR(base), SIZE(half), MAPPED)
    say(
        "Which code has the same memory, registered again?",
        f"code {code}",
        f"{ALREADY_REGISTERED} means to Larder: registered by another program; "
        "after any other code Larder stops registering, and logs the code",
    )
    edge, two = base + half - MIB, C.c_uint64 * 2
    attributes, zero, failed = (C.c_uint32 * 6)(1, 0, 0, 0, 0, 1), SIZE(0), SIZE(0)
    code = driver.Batch(
        two(pages.data_ptr(), pages.data_ptr() + MIB),
        two(edge, base + half),
        two(MIB, MIB),
        SIZE(2),
        attributes,
        C.byref(zero),
        SIZE(1),
        C.byref(failed),
        queue,
    )
    stream.synchronize()
    right = bool((pages[: 2 * MIB].view(-1, 4096)[:, 0] == 1).all())
    say(
        "Does a batch with a piece cut at the border copy?",
        f"code {code}, bytes right: {right}",
        "0 and True, or chunks across slices must go through staging memory",
    )
    code = driver.CopyAsync(PTR(pages.data_ptr()), PTR(edge), SIZE(2 * MIB), queue)
    stream.synchronize()
    say(
        "And one copy across both?",
        f"code {code}",
        "Larder never asks for one; 0 would mean that pieces need not be cut",
    )


def main() -> int:
    try:
        import torch
    except ImportError:
        print(f"the driver is not asked: no PyTorch in {sys.executable}")
        return 0
    if not torch.cuda.is_available():
        print("the driver is not asked: no CUDA device")
        return 0
    if sys.argv[1:] == ["neighbour"]:
        as_a_neighbour(torch)
        return 0
    driver = Driver()
    torch.ones(1, device="cuda")
    for asked in (
        what_a_thread_without_a_context_is_told,
        what_waits_for_the_gpu,
        what_registering_costs,
        what_a_border_of_registrations_is,
    ):
        asked(torch, driver)
    return 0


if __name__ == "__main__":
    sys.exit(main())
