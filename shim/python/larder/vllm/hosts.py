"""Which larderd a process uses, as other processes of its engine can compare: engines share
larderd's memory on one machine alone. Containers of one machine are one host."""

import os

from larder.vllm.groups import Unsupported

DEFAULT_SOCKET = "/run/larder/larder.sock"  # as the library has it


def socket_of(setup):
    """The path of larderd's socket, as the library chooses it."""
    return setup.socket or os.environ.get("LARDER_SOCKET") or DEFAULT_SOCKET


def larderd_of(setup):
    """The same text in all processes of this container that use one larderd, and in no others: the
    running kernel, the mount namespace, the path of the socket. larderd need not run yet. A larderd
    that containers share has several."""
    return (
        f"{_kernels('/proc/sys/kernel/random/boot_id', _read)} "
        f"{_kernels('/proc/self/ns/mnt', os.readlink)} {os.path.abspath(socket_of(setup))}"
    )


def _read(path):
    with open(path) as file:
        return file.read().strip()


def _kernels(path, read):
    """Answers "-": the kernel does not tell."""
    try:
        return read(path)
    except OSError:
        return "-"


def are_spread(parallel_config):
    """Whether ranks of the engine may use another larderd than its scheduler. With Ray nobody tells
    before the engine runs. Unsupported: the scheduler could not ask them."""
    launcher = getattr(parallel_config, "distributed_executor_backend", None)
    if launcher == "external_launcher" and getattr(parallel_config, "world_size", 1) > 1:
        raise Unsupported(
            "ranks that an external_launcher starts have a scheduler each, which hears of its own "
            "worker alone: they are not served"
        )
    return getattr(parallel_config, "nnodes_within_dp", 1) > 1
