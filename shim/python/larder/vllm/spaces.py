"""The namespaces of one engine: the engine's own, one for each adapter, and a fresh private one
after each reset. With recurrent states each has a second one, for chunks of states; with tails,
for the pieces of tails.

The scheduler's half opens and closes namespaces. The workers close the namespaces that
take_closed() names. Owned by the scheduler's thread."""

import secrets
from dataclasses import dataclass

from larder.client import LarderError
from larder.vllm.messages import OPEN_WAIT_MS

# kMaxClientNamespaces of shim/protocol/limits.h, less the unnamed place of the handshake.
_PLACES = 63
# kStatesLine and kTailsLine of shim/protocol/namespace_kind.h
_STATES, _TAILS = "chunks: states\n", "chunks: tails\n"


class NoSpace(Exception):
    """A running request uses each of the namespaces that this engine may have open."""


@dataclass(frozen=True)
class Space:
    number: int  # of larder.Client
    line: str = ""  # lines that follow the engine's fingerprint
    states: int | None = None  # the number of the namespace of states
    tails: int | None = None  # ... and of that of tails

    def of_group(self, group):
        """The number of the namespace of that group's chunks."""
        return self.states if group.state else self.tails if group.tail else self.number


def open_space(client, setup, text, line=""):
    """The Space of the engine with the fingerprint `text`. LarderError."""
    text += line
    number, states, tails = client.add_namespace(text, OPEN_WAIT_MS), None, None
    try:
        if setup.states:
            states = client.add_namespace(text + _STATES, OPEN_WAIT_MS, states=True)
        if setup.tails:
            tails = client.add_namespace(text + _TAILS, OPEN_WAIT_MS, tails=True)
        return Space(number, line, states, tails)
    except LarderError:
        close_space(client, Space(number, line, states))
        raise


def close_space(client, space, drop=False):
    for number in (space.number, space.states, space.tails):
        if number is not None:
            client.close_namespace(number, drop)


class Spaces:
    def __init__(self, client, setup):
        self._client, self._setup = client, setup
        # besides the engine's own
        two = setup is not None and (setup.states or setup.tails)
        self._most = (_PLACES // 2 if two else _PLACES) - 1
        self._text = self._own = None
        self._private = ""
        self._open: dict[str, Space] = {}  # by line, the least recently used first
        self._users: dict[str, Space] = {}  # by request
        self._closed: list[tuple[str, bool]] = []

    def named(self, text):
        """Opens the engine's own namespace. LarderError."""
        self._own = open_space(self._client, self._setup, text)
        self._text = text

    def unnamed(self):
        """The engine has another fingerprint, and the fingerprint is not known yet. No worker has
        opened the namespaces so far."""
        for line in tuple(self._open):
            self._close(line)
        if self._own is not None:
            close_space(self._client, self._own)
        self._own = self._text = None

    def of(self, request_id, line=""):
        """The Space of a request. line: the lines of the request's adapter. LarderError, NoSpace:
        the request has no Space."""
        line = self._private + line
        space = self._open.pop(line, None) if line else self._own
        if space is None:
            self._make_room()
            space = open_space(self._client, self._setup, self._text, line)
        if line:
            self._open[line] = space
        self._users[request_id] = space
        return space

    def is_open(self, line):
        """Whether the Space of the line is open, for a request that has ended."""
        return line in self._open or not line and self._own is not None

    def forget(self, request_id):
        """The request ended."""
        self._users.pop(request_id, None)

    def leave(self):
        """From now on the engine may have unknown weights. The engine moves to a private namespace
        with a new random line, so that no earlier chunk is found again. Chunks that other engines
        may use stay."""
        for line in tuple(self._open):
            self._close(line, drop=bool(self._private))
        self._private = f"private: {secrets.token_hex(16)}\n"

    def take_closed(self):
        """[(line, drop)] of the namespaces closed since the last call."""
        closed, self._closed = self._closed, []
        return closed

    def _make_room(self):
        if len(self._open) < self._most:
            return
        used = {space.line for space in self._users.values()}
        unused = next((line for line in self._open if line not in used), None)
        if unused is None:
            raise NoSpace(
                f"requests use all {self._most} namespaces that this engine may have open"
            )
        self._close(unused)

    def _close(self, line, drop=False):
        """drop: the namespace is private, and larderd drops its chunks from memory."""
        space = self._open.pop(line)
        close_space(self._client, space, drop)
        self._closed.append((line, drop))
