"""The name of an engine's KV: the whole fingerprint, as soon as the content of the weights is known.

Reading the weights takes as long as reading files takes, so a thread does it: the engine runs meanwhile, without the cache. Owned by the
scheduler's thread."""

import time

from larder.vllm.groups import Unsupported
from larder.vllm.identity import text_of
from larder.weights import UnknownWeights, WeightsReader

# How long an engine's start waits for small or remembered weights. A model of a few hundred MB, or a known one, is named by then.
START_WAIT_S = 0.2


class Naming:
    def __init__(self, setup, vllm_config):
        self._before_weights = text_of(setup.facts, vllm_config)
        self._reader = WeightsReader.of(vllm_config, setup.weights_id, setup.socket)
        self._reader.start()
        self._text = None

    def poll(self, wait_s=0):
        """The text, or None while the weights are being read. Unsupported: they cannot be named."""
        until = time.monotonic() + wait_s
        while self._text is None:
            try:
                weights = self._reader.poll()
            except UnknownWeights as reason:
                raise Unsupported(str(reason)) from None
            if weights is not None:
                self._text = f"{self._before_weights}weights: {' '.join(weights.split())}\n"
            elif time.monotonic() >= until:
                return None
            else:
                time.sleep(0.005)
        return self._text

    def stop(self):
        self._reader.stop()
