"""The namespaces of one engine: its own, one for each adapter, and a fresh private one after each reset.

The scheduler's half opens and closes them; the workers hear which ones are closed (take_closed). Owned by the scheduler's thread."""

import secrets
from dataclasses import dataclass

from larder.vllm.messages import OPEN_WAIT_MS

_MOST = 62  # beside the engine's own and one place without a name: kMaxClientNamespaces of shim/protocol/limits.h


class NoSpace(Exception):
    """Every namespace that this engine may have open serves a request just now."""


@dataclass(frozen=True)
class Space:
    number: int  # the client's
    line: str = ""  # what the namespace adds to the engine's fingerprint


class Spaces:
    def __init__(self, client):
        self._client = client
        self._text = self._own = None
        self._private = ""
        self._open: dict[str, Space] = {}  # by line, the least recently used first
        self._users: dict[str, Space] = {}  # by request
        self._closed: list[tuple[str, bool]] = []

    def named(self, text):
        """Opens the engine's own namespace. LarderError."""
        self._own = Space(self._client.add_namespace(text, OPEN_WAIT_MS))
        self._text = text

    def of(self, request_id, line=""):
        """The Space of a request. line: what its adapter adds. LarderError, NoSpace: the request has none."""
        line = self._private + line
        space = self._open.pop(line, None) if line else self._own
        if space is None:
            self._make_room()
            space = Space(self._client.add_namespace(self._text + line, OPEN_WAIT_MS), line)
        if line:
            self._open[line] = space
        self._users[request_id] = space
        return space

    def forget(self, request_id):
        """The request ended."""
        self._users.pop(request_id, None)

    def leave(self):
        """The weights may be others from here on, and no one can tell which. The engine goes on in a private namespace of its own, fresh each
        time, so that an earlier one never comes back. What others may use stays where it is."""
        for line in tuple(self._open):
            self._close(line, drop=bool(self._private))
        self._private = f"private: {secrets.token_hex(16)}\n"

    def take_closed(self):
        """[(line, drop)] closed since the last call: the workers close them too."""
        closed, self._closed = self._closed, []
        return closed

    def _make_room(self):
        if len(self._open) < _MOST:
            return
        used = {space.line for space in self._users.values()}
        unused = next((line for line in self._open if line not in used), None)
        if unused is None:
            raise NoSpace(f"finds all {_MOST} namespaces of this engine in use")
        self._close(unused)

    def _close(self, line, drop=False):
        """drop: nobody else can have it, so that larderd need not keep its chunks."""
        space = self._open.pop(line)
        self._client.close_namespace(space.number, drop)
        self._closed.append((line, drop))
