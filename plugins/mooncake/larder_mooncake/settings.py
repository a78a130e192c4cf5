"""Settings: the arguments of the plug-in, checked. A wrong argument ends the program with its name
and the remedy."""

import argparse
import re
from typing import NamedTuple

from larder_plugin.address import host_and_port, place_of

_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_LEAST_CONTRIBUTION = 16 << 20


class Settings(NamedTuple):
    socket: str
    master: str  # HOST:PORT; empty: as larderd's backend.url says
    metadata: str
    protocol: str
    devices: str
    host: str  # empty: the address by which the master is reached
    contribute: int
    part: str  # empty: the supervisor of the parts


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="larder-mooncake",
        description="Moves chunks between larderd and a Mooncake pool.",
    )
    add = parser.add_argument
    add("--socket", required=True, help="larderd's backend.plugin_socket")
    add("--master", default="", type=_master, help="HOST:PORT; default: larderd's backend.url")
    add("--metadata", default="P2PHANDSHAKE", help="Mooncake's metadata server")
    add("--protocol", default="tcp", choices=["tcp", "rdma"])
    add("--devices", default="", help="RDMA devices, for example mlx5_0,mlx5_1")
    add("--host", default="", help="own address, as other members of the pool reach it")
    add("--contribute", default=0, type=_size, help="memory for the pool, for example 8GiB")
    add("--part", default="", choices=["", "plugin", "owner"], help=argparse.SUPPRESS)
    found = Settings(**vars(parser.parse_args(arguments)))
    if found.contribute and not found.master:
        parser.error("--contribute needs --master HOST:PORT: memory joins the pool without larderd")
    if found.devices and found.protocol != "rdma":
        parser.error("--devices is for --protocol rdma alone")
    return found


def with_master_of(settings, url):
    """The Settings with the master of mooncake://HOST:PORT. Raises ValueError with the remedy."""
    master = place_of(url, "mooncake")
    if settings.master not in ("", master):
        raise ValueError(f"--master is {settings.master}, but backend.url names {master}")
    return settings._replace(master=master)


def _master(text):
    try:
        if text:
            host_and_port(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _size(text):
    match = re.fullmatch(r"(\d{1,12})(|[KMGT]iB)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is no size such as 8GiB")
    size = int(match[1]) * _UNITS[match[2]]
    if 0 < size < _LEAST_CONTRIBUTION:
        raise argparse.ArgumentTypeError(f"'{text}' is below 16MiB; 0 contributes nothing")
    return size
