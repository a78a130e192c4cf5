"""Multi-modal items of requests: which of them are named by their content, so that their requests may use the cache.

vLLM names an item by an identifier for its own caches: a hash of the content, or what the client says (`uuid`), or a counter. Here an item
is named by the digest of its tensors (item_digest), which is in the request's keys (keys). A request runs without the cache where one of
its items has no digest; where vLLM's own caches may have KV of another item under its identifier, it stores nothing (provenance). All
requests with items are followed, also those that do not use the cache: vLLM's caches keep what they compute.

A digest takes milliseconds, in a thread of its own. vLLM is told to ask again meanwhile ("None"), until a deadline. Owned by the scheduler's
thread."""

import time
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, field

from larder.vllm.guard import logger
from larder.vllm.item_digest import Digests, Undigested
from larder.vllm.keys import places_of
from larder.vllm.provenance import Past, Provenance

DEADLINE_S = 0.25
WORDS = {
    "hidden": "the scheduler does not see their tensors",
    "form": "they hold values of a kind that has no digest",
    "late": f"their digests were not there within {DEADLINE_S} s",
    "mixed": "prompts mix tokens and embeddings, or are embeddings and come after one that did",
    "other": "vLLM's own caches may have KV of another item under the same identifier",
}


@dataclass
class Live:
    """A request with items, from its first look-up to its end."""

    request: object
    until: float  # it waits no longer for its digests
    digests: list = field(default_factory=list)  # of mm_features, in their order: a Future, or None until there is room for it
    places: tuple | None = None  # as keys.chunk_hashes takes them, once all digests are there
    unnamed: str = ""  # why it runs without the cache, of WORDS
    told: bool = False
    local_tokens: int | None = None  # of the last look-up, until vLLM has blocks for the request
    past: Past = field(default_factory=Past)
    end: int = 0  # behind the last token of an item


class Items:
    def __init__(self, setup, observed, clock=time.monotonic):
        self._setup = setup
        self._observed = observed
        self._clock = clock
        self._digests = Digests()
        self._provenance = Provenance(setup) if setup else None
        self._lives: dict[str, Live] = {}
        self._waiting: set[str] = set()  # of these vLLM is to ask again
        self._logged: set[str] = set()
        self._mixed = False  # a prompt of tokens and embeddings was here

    def asked(self, request, local_tokens, wanted):
        """vLLM looks for the request's KV, of which it has so much itself. wanted: the request may load. Whether it may; None: ask again."""
        live = self._live_of(request)
        if live is None:
            return wanted
        live.local_tokens = local_tokens
        self._name(live)
        self._waiting.discard(request.request_id)
        if wanted and live.places is None and not live.unnamed:
            if self._clock() < live.until:
                self._waiting.add(request.request_id)
                return None
            live.unnamed = "late"
        return wanted and self._serves(live)

    def admitted(self, request, blocks, external_tokens, wanted):
        """vLLM has blocks for the request. wanted: it may use the cache. Whether it does."""
        live = self._live_of(request)
        if live is None:
            return wanted
        self._name(live)
        if live.local_tokens is not None and self._setup.stores:
            self._provenance.admitted(live, live.local_tokens, external_tokens, blocks.get_block_ids())
        live.local_tokens = None
        return wanted and self._serves(live)

    def places(self, request):
        """As keys.chunk_hashes takes them."""
        live = self._lives.get(request.request_id)
        if live is None:
            return ()
        self._name(live)
        return None if live.unnamed else live.places

    def places_to_store(self, request):
        """The same, but None where the KV that the request computes may be of other items."""
        live = self._lives.get(request.request_id)
        if live is None:
            return ()
        clean = live.past.is_clean()
        if clean is False and not live.unnamed:
            live.unnamed = "other"
            self._serves(live)
        return self.places(request) if clean else None

    def step(self, scheduler_output, tables_of):
        """Of each step that computes, before it is asked what to store. tables_of(request id): its block tables."""
        self._provenance.step(scheduler_output, tables_of, self._lives)

    def rest(self, wait_ms):
        """Waits so long at most for a digest that a request waits for. False: none does."""
        digests = (one for name in self._waiting for one in self._lives[name].digests)
        running = [one for one in digests if one is not None and not one.done()]
        if running:
            wait(running, wait_ms / 1e3, FIRST_COMPLETED)
        return bool(running)

    def forget(self, request_id):
        """The request ended."""
        self._lives.pop(request_id, None)
        self._waiting.discard(request_id)

    def _live_of(self, request):
        """None: it has no items."""
        live = self._lives.get(request.request_id)
        mixed = getattr(request, "prompt_embeds", None) is not None and self._mixes(request)
        if live is None and (request.mm_features or mixed):
            live = self._lives[request.request_id] = Live(request, self._clock() + DEADLINE_S)
            # A session that began with text alone has computed, loaded or hit it: vLLM looks for nothing any more.
            computed = getattr(request, "num_computed_tokens", 0)
            live.past = Past(vouched=computed, noted=computed)
        if live is not None and not live.unnamed:
            live.unnamed = "mixed" if mixed else "hidden" if self._setup.items_hidden else ""
        return live

    def _mixes(self, request):
        """Whether vLLM's block hashes may not cover the prompt. They cover its embeddings by their bytes
        (_gen_prompt_embeds_extra_hash_keys), which vLLM has cast to the model's own type. They do not cover which positions are tokens
        (prompt_is_token_ids): a position that is an embedding has the number 0 among the tokens. Once such a prompt was here vLLM's
        prefix cache may have its KV under the hash of a prompt that is embeddings alone."""
        self._mixed = self._mixed or getattr(request, "prompt_is_token_ids", None) is not None
        return self._mixed

    def _name(self, live):
        """Begins what is not begun, and names what is digested. A session gets more items while it lives."""
        features = live.request.mm_features
        if live.places is not None and len(live.places) == len(features):
            return
        live.places = None
        live.end = max((one.mm_position.offset + one.mm_position.length for one in features), default=0)
        live.digests += [None] * (len(features) - len(live.digests))
        if not self._setup.items_hidden:
            live.digests = [one or self._digests.of(feature.data) for one, feature in zip(live.digests, features)]
        if all(one is not None and one.done() for one in live.digests):
            try:
                live.places = places_of(features, [one.result() for one in live.digests])
            except Undigested as error:
                live.unnamed = live.unnamed or error.reason

    def _serves(self, live):
        """Whether the request may use the cache, which is counted where it may not."""
        if live.unnamed and not live.told:
            live.told = True
            self._observed.unnamed(live.unnamed)
            if live.unnamed not in self._logged:
                self._logged.add(live.unnamed)
                why = self._setup.items_hidden if live.unnamed == "hidden" else ""
                logger.warning(
                    "Larder: requests with pictures, sound or video run without the cache where %s%s (request %s is the first)",
                    WORDS[live.unnamed],
                    f": {why}" if why else "",
                    live.request.request_id,
                )
        return not live.unnamed


def items_hidden(vllm_config):
    """Why the scheduler's process does not see what vLLM computes embeddings from, or "". By the engine's settings."""
    multimodal = getattr(vllm_config.model_config, "multimodal_config", None)
    if getattr(multimodal, "mm_processor_cache_type", "lru") == "shm" and multimodal.mm_processor_cache_gb > 0:
        return "--mm-processor-cache-type shm gives it addresses; use lru"
    if getattr(getattr(vllm_config, "ec_transfer_config", None), "is_ec_consumer", False):
        return "embeddings come from other engines by their identifiers (--ec-transfer-config)"
    if getattr(getattr(vllm_config, "ec_manager_config", None), "encoder_cache_manager_cls", None):
        return "an encoder cache manager of the user's own may bring embeddings by their identifiers"
    return ""
