"""The fingerprint of an engine, which is complete as soon as the content of the weights and the
attention of the layers are known.

A thread reads the weights. Meanwhile the engine runs without the cache. Owned by the scheduler's
thread."""

import math
import multiprocessing
import os
import time

from larder import fingerprint, vllm_plugin
from larder.vllm.groups import Unsupported
from larder.vllm.fail_safe import logger
from larder.vllm.hosts import socket_of
from larder.vllm.identity import configuration_of
from larder.vllm.model_source import draft_source, weights_source
from larder.weights import UnknownWeights, WeightsReader

# An engine's start waits for the weights this long. A model of a few hundred MB, or a remembered
# one, has its name by then.
START_WAIT_S = 0.2
# Workers report with the first step that computes.
REPORT_WAIT_S = 60
MOST_FINGERPRINT_BYTES = 48 * 1024  # kMaxFingerprintBytes of shim/protocol/limits.h


class Naming:
    def __init__(self, setup, vllm_config):
        self._facts, self._attention = setup.facts, setup.attention
        self._configuration = configuration_of(vllm_config)
        draft = draft_source(vllm_config) if setup.weights_id else None
        # weights_id names the model alone
        self._named = f"named {setup.weights_id}, draft " if draft else ""
        source, named = (draft, None) if draft else (weights_source(vllm_config), setup.weights_id)
        self._reader = WeightsReader(
            source, named, memo_path=f"{socket_of(setup)}.weights", loaded_since=_earliest_load()
        )
        self._reader.start()
        self._weights = self._text = self._objection = None
        self._reported = set()  # by workers, in any step
        # time.monotonic(), since the first poll that only workers could answer
        self._warn_at = None

    def poll(self, wait_s=0):
        """The text, or None while the weights are being read or the attention is not known.
        Unsupported: the weights cannot be named, or the workers disagree."""
        until = time.monotonic() + wait_s
        while self._weights is None:
            try:
                weights = self._reader.poll()
            except UnknownWeights as reason:
                if self._named:
                    reason = f"{reason.why}; weights_id names the model, not the draft model"
                raise Unsupported(str(reason)) from None
            finally:
                for line in self._reader.log_lines():
                    logger.info("Larder: %s", line)
            if weights is not None:
                self._weights = f"weights: {' '.join((self._named + weights).split())}\n"
            elif time.monotonic() >= until:
                return None
            else:
                time.sleep(0.005)
        if self._objection is not None:
            raise Unsupported(self._objection)
        if self._attention is None:
            self.warn_of_silent_workers()
        elif self._text is None:
            facts = self._facts + self._attention.text()
            self._text = _checked(fingerprint.text(facts, *self._configuration) + self._weights)
        return self._text

    def warn_of_silent_workers(self):
        """Call when only workers can tell more."""
        now = time.monotonic()
        if self._warn_at is None:
            self._warn_at = now + REPORT_WAIT_S
        elif now >= self._warn_at:
            self._warn_at = math.inf  # once
            logger.warning(
                "Larder: the workers have not all reported their layers within %d s of requests: "
                "this engine runs without the cache until they do. "
                "A connector beside Larder, or a vLLM that drops build_connector_worker_meta, "
                "can be the cause",
                REPORT_WAIT_S,
            )

    def correct(self, reported):
        """reported: each Attention of the workers' layers. Returns whether the text of the
        fingerprint has changed."""
        self._reported |= reported
        if self._reported == {self._attention}:
            return False
        if self._attention is not None:
            logger.info(
                "Larder: the layers' attention is not what vLLM's configuration lets expect: %s",
                self._attention,
            )
        if len(self._reported) > 1:
            self._objection = (
                "the workers of this engine differ in the attention of their layers: "
                f"{', '.join(sorted(map(str, self._reported)))}"
            )
        self._attention, self._text = next(iter(reported)), None
        return True

    def stop(self):
        self._reader.stop()


def _checked(text):
    size = len(text.encode())
    if size > MOST_FINGERPRINT_BYTES:
        raise Unsupported(
            f"the engine's fingerprint has {size} bytes, and larderd takes "
            f"{MOST_FINGERPRINT_BYTES} at most: please report the longest values of "
            "the model's config.json"
        )
    return text


def _earliest_load():
    """The earliest time at which vLLM may have begun to load the weights, in seconds since the
    epoch. The user's own process, or an actor of Ray, may have written the files itself, before
    vLLM called its plug-ins; None: vLLM has not called them. A process that vLLM made for the
    engine began with the engine."""
    if multiprocessing.parent_process() is None:
        return vllm_plugin.called_at()
    with open("/proc/self/stat") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    with open("/proc/stat") as file:
        booted = next(int(line.split()[1]) for line in file if line.startswith("btime "))
    return booted + ticks / os.sysconf("SC_CLK_TCK")
