"""Generations: a random number of the whole pool and of each namespace. The names of all records
contain both, so a new number hides all records at once: the server can list no names.

The numbers live on the server, so all plug-ins of the pool share them. A plug-in reads each number
again every second; for so long another plug-in may find objects that were dropped. An absent number
is replaced by a new one: an evicted or purged number hides objects and never shows dropped ones.
Thread-safe."""

import secrets
import threading
import time
from collections import OrderedDict

from .record import name_of

_BYTES = 20
_MOST = 1024  # scopes
_FORGET_S = 60.0  # after the last use


class Generations:
    def __init__(self):
        self._numbers = OrderedDict()  # by scope
        self._used = {}  # scope: the time of the last use
        self._lock = threading.Lock()
        # Else two threads would both make the number of a new namespace.
        self._reading = threading.Lock()

    def of(self, link, prefix, key):
        """The bytes for name_of() of a key PREFIX:1:NAMESPACE:CHUNK."""
        namespace = key.rpartition(":")[0] + ":"
        return self._number(link, f"{prefix}:1:") + self._number(link, namespace)

    def renew(self, link, scope):
        """Hides all records below the scope, "PREFIX:1:" or "PREFIX:1:NAMESPACE:"."""
        number = secrets.token_bytes(_BYTES)
        link.put_small(_name(scope), number)
        with self._lock:
            self._learn(scope, number)

    def refresh(self, link):
        """Reads all numbers in use again. Also keeps them away from the server's eviction."""
        before = time.monotonic() - _FORGET_S
        with self._lock:
            for scope in [scope for scope, used in self._used.items() if used < before]:
                self._forget(scope)
            scopes = list(self._numbers)
        for scope in scopes:
            self._read(link, scope)

    def _number(self, link, scope):
        with self._lock:
            self._used[scope] = time.monotonic()
            known = self._numbers.get(scope)
        if known:
            return known
        with self._reading:
            return self._numbers.get(scope) or self._read(link, scope)

    def _read(self, link, scope):
        before = self._numbers.get(scope)
        raw = bytearray(_BYTES)
        if link.get(_name(scope), memoryview(raw)) != _BYTES:
            raw = secrets.token_bytes(_BYTES)
            link.put_small(_name(scope), raw)
        with self._lock:
            # A number that renew() made meanwhile is newer.
            if self._numbers.get(scope) == before:
                self._learn(scope, bytes(raw))
            return self._numbers.get(scope, bytes(raw))  # forgotten meanwhile

    def _learn(self, scope, number):
        self._numbers[scope] = number
        self._used.setdefault(scope, time.monotonic())
        while len(self._numbers) > _MOST:
            self._forget(next(iter(self._numbers)))

    def _forget(self, scope):
        self._numbers.pop(scope, None)
        self._used.pop(scope, None)


def _name(scope):
    return name_of(scope, b"generation")
