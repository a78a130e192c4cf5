"""The fingerprint of an engine, which is complete as soon as the content of the weights is known.

A thread reads the weights. Meanwhile the engine runs without the cache. Owned by the scheduler's
thread."""

import multiprocessing
import os
import time

from larder.vllm.groups import Unsupported
from larder.vllm.guard import logger
from larder.vllm.identity import text_of
from larder.vllm.model_source import weights_source
from larder.weights import UnknownWeights, WeightsReader

# An engine's start waits for the weights this long. A model of a few hundred MB, or a remembered
# one, has its name by then.
START_WAIT_S = 0.2
MOST_FINGERPRINT_BYTES = 48 * 1024  # kMaxFingerprintBytes of shim/protocol/limits.h
_DEFAULT_SOCKET = "/run/larder/larder.sock"  # as the library has it


class Naming:
    def __init__(self, setup, vllm_config):
        self._before_weights = text_of(setup.facts, vllm_config)
        socket = setup.socket or os.environ.get("LARDER_SOCKET") or _DEFAULT_SOCKET
        self._reader = WeightsReader(
            weights_source(vllm_config), setup.weights_id, memo_path=f"{socket}.weights", loaded_since=_process_began()
        )
        self._reader.start()
        self._text = None

    def poll(self, wait_s=0):
        """The text, or None while the weights are being read. Unsupported: the weights cannot be
        named."""
        until = time.monotonic() + wait_s
        while self._text is None:
            try:
                weights = self._reader.poll()
            except UnknownWeights as reason:
                raise Unsupported(str(reason)) from None
            finally:
                for line in self._reader.log_lines():
                    logger.info("Larder: %s", line)
            if weights is not None:
                self._text = _checked(f"{self._before_weights}weights: {' '.join(weights.split())}\n")
            elif time.monotonic() >= until:
                return None
            else:
                time.sleep(0.005)
        return self._text

    def stop(self):
        self._reader.stop()


def _checked(text):
    size = len(text.encode())
    if size > MOST_FINGERPRINT_BYTES:
        raise Unsupported(
            f"the engine's fingerprint has {size} bytes, and larderd takes {MOST_FINGERPRINT_BYTES} at most: please report the longest values of "
            "the model's config.json"
        )
    return text


def _process_began():
    """The earliest time at which vLLM may have begun to load the weights, in seconds since the
    epoch: the start of this process, where vLLM made the process for the engine. None in the user's
    own process, which may have written the files itself before."""
    if multiprocessing.parent_process() is None:
        return None
    with open("/proc/self/stat") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    with open("/proc/stat") as file:
        booted = next(int(line.split()[1]) for line in file if line.startswith("btime "))
    return booted + ticks / os.sysconf("SC_CLK_TCK")
