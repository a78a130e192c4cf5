"""The slow network of the benchmarks: the given number of bytes a second, in order."""

import socket
import threading
import time

import pytest
from harness.slow_link import STALLED, SlowLink

MEGABYTE = bytes(range(256)) * 4096


@pytest.fixture
def link():
    """A link to a server that answers each byte with a megabyte."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                while connection.recv(1):
                    connection.sendall(MEGABYTE)

    threading.Thread(target=serve, daemon=True).start()
    with SlowLink(listener.getsockname()[1]) as link:
        yield link
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def megabyte(connection):
    """Seconds until the bytes are here."""
    began, got = time.monotonic(), b""
    connection.sendall(b"?")
    while len(got) < len(MEGABYTE):
        piece = connection.recv(1 << 16)
        assert piece
        got += piece
    assert got == MEGABYTE
    return time.monotonic() - began


def test_the_link_passes_the_configured_rate(link):
    with socket.create_connection(("127.0.0.1", link.port), timeout=30) as connection:
        megabyte(connection)
        link.reads(4_000_000)
        assert 0.2 < megabyte(connection) < 30
        link.reads(0)
        megabyte(connection)


def test_a_stalled_link_passes_nothing_until_resumed(link):
    with socket.create_connection(("127.0.0.1", link.port), timeout=30) as connection:
        link.reads(STALLED)
        connection.sendall(b"?")
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        link.reads(0)
        connection.settimeout(30)
        left = len(MEGABYTE)
        while left:
            left -= len(connection.recv(1 << 16))


def test_a_closed_link_ends_its_connections(link):
    connection = socket.create_connection(("127.0.0.1", link.port), timeout=30)
    megabyte(connection)
    link.close()
    assert connection.recv(1) == b""
    connection.close()
