"""One load by layers: the forward pass begins with the first layer while the rest is on its way.

Owned by the engine's thread. Its pages may be written until end() has returned or raised."""

import time

from larder import LarderError

LAYER_WAIT_MS = 1000
LOAD_DEADLINE_S = 60


class LoadFailed(Exception):
    """What was loaded is void, and nobody writes its pages any more."""


class Loading:
    def __init__(self, ticket, tokens, client, completion_of, ended):
        """tokens: how many of the prompt are there once it has ended well. completion_of(ticket): waits for its end. ended(completion or
        None): is called once."""
        self.tokens = tokens
        self.layers_early = 0  # layers that were used while others were still on their way
        self._ticket, self._client, self._completion_of, self._ended = ticket, client, completion_of, ended

    def wait_layer(self, number):
        """Until that layer can be used. LoadFailed: it never can."""
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
        """Until nobody writes its pages. LoadFailed where any of it failed."""
        completion = None
        try:
            completion = self._completion_of(self._ticket)
        finally:
            self._ended(completion)
        if not completion.ok:
            raise LoadFailed
