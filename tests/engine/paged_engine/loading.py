"""One load by layers: the forward pass begins with the first layer while later layers are being
loaded.

Owned by the engine's thread. The load may write its pages until end() returns or raises."""

import time

from larder import LarderError

LAYER_WAIT_MS = 1000
LOAD_DEADLINE_S = 60


class LoadFailed(Exception):
    """The load is void, and all writes to its pages have ended."""


class Loading:
    def __init__(self, ticket, tokens, client, completion_of, ended):
        """tokens: the number of tokens of the prompt after a successful load.
        completion_of(ticket): waits for the end. ended(completion or None): called once."""
        self.tokens = tokens
        self.layers_early = 0  # layers used before the load ended
        self._ticket, self._client, self._completion_of, self._ended = (
            ticket,
            client,
            completion_of,
            ended,
        )

    def wait_layer(self, number):
        """Waits until the layer is usable. LoadFailed: the layer will never be usable."""
        deadline = time.monotonic() + LOAD_DEADLINE_S
        try:
            while not self._client.wait_layer(self._ticket, number, LAYER_WAIT_MS):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"layer {number} was not loaded within {LOAD_DEADLINE_S} s")
        except LarderError:
            self.end()
            raise LoadFailed from None
        self.layers_early += self._client.state().loads_running

    def end(self):
        """Waits until all writes to the pages have ended. LoadFailed: a part of the load failed."""
        completion = None
        try:
            completion = self._completion_of(self._ticket)
        finally:
            self._ended(completion)
        if not completion.ok:
            raise LoadFailed
