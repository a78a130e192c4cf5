"""Settings: the arguments of the plug-in, checked. A wrong argument ends the program with its name
and the remedy."""

import argparse
import re
from typing import NamedTuple

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


def master_of(url):
    """HOST:PORT of mooncake://HOST:PORT. Raises ValueError with the remedy."""
    scheme, _, master = url.partition("://")
    if scheme != "mooncake" or not master:
        raise ValueError(f"backend.url is '{url}', not mooncake://HOST:PORT")
    try:
        return _master(master)
    except argparse.ArgumentTypeError as error:
        raise ValueError(f"backend.url: {error}") from error


def _master(text):
    match = re.fullmatch(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9_.-]+):(\d{1,5})", text)
    if text and (not match or not 1 <= int(match[2]) <= 65535):
        raise argparse.ArgumentTypeError(f"'{text}' is not HOST:PORT")
    return text


def _size(text):
    match = re.fullmatch(r"(\d{1,12})(|[KMGT]iB)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is no size such as 8GiB")
    size = int(match[1]) * _UNITS[match[2]]
    if 0 < size < _LEAST_CONTRIBUTION:
        raise argparse.ArgumentTypeError(f"'{text}' is below 16MiB; 0 contributes nothing")
    return size
