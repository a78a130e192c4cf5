"""The stores of `make demo REMOTE=NAME`: the servers, and the configuration of larderd for them."""

from __future__ import annotations

import pathlib

from harness.mooncake import URL, MooncakePool
from harness.redis import RedisServer

MOST_SOCKET_BYTES = 107  # of the path of a Unix socket


class Redis:
    """One redis-server."""

    name = "Redis"

    def __init__(self, folder: pathlib.Path):
        self._server = RedisServer(folder)

    def configuration(self, _: int) -> str:
        """The part `backend` of a node's larderd."""
        return f"backend:\n  url: {self._server.url}\n  prefix: demo\n"

    def join(self) -> None:
        """Once the larderd of the nodes run."""

    def stop(self) -> None:
        self._server.stop()


class Mooncake:
    """A master, two members with 512 MiB each, and a plug-in for each node."""

    name = "Mooncake"

    def __init__(self, folder: pathlib.Path):
        self._folder = folder.resolve()
        self._pool = MooncakePool(self._folder, each_mib=512)
        self._sockets: list[pathlib.Path] = []
        self._plugins: list = []

    def configuration(self, number: int) -> str:
        socket = self._folder / f"{number}.sock"
        if len(str(socket)) > MOST_SOCKET_BYTES:
            raise OSError(f"the path of a socket is too long: {socket}; move the checkout")
        self._sockets.append(socket)
        return f"backend:\n  url: {URL}\n  plugin_socket: {socket}\n  prefix: demo\n"

    def join(self) -> None:
        self._plugins = [self._pool.start_plugin(socket) for socket in self._sockets]
        for plugin in self._plugins:
            plugin.wait_until(lambda plugin=plugin: ": works" in plugin.tail(), 30)

    def stop(self) -> None:
        for plugin in self._plugins:
            plugin.stop(3)
        self._pool.stop()


STORES = {"redis": Redis, "mooncake": Mooncake}
