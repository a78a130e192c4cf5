"""Multi-modal items of requests: whether each item is named by its content, so that its request may
use the cache.

vLLM names an item, for its own caches, by an identifier: a hash of the content, a client's `uuid`,
or a counter. Larder names an item by the digest of the item's tensors (item_digest), which is in
the request's keys (keys). A request with an undigested item runs without the cache. A request does
not store if vLLM's own caches may have supplied KV of another item (provenance). Items follows
every request with items, also a request that opts out: vLLM's caches keep the KV of all requests.

A digest takes milliseconds, in a thread of its own. Meanwhile vLLM is told to ask again ("None"),
until a deadline. Owned by the scheduler's thread."""

import time
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, field

from larder.vllm.fail_safe import logger
from larder.vllm.item_digest import Digests, Undigested
from larder.vllm.keys import places_of
from larder.vllm.provenance import Past, Provenance, is_inside

DEADLINE_S = 0.25
WORDS = {
    "hidden": "the tensors at the scheduler do not decide the KV",
    "form": "an item holds a value of a type that has no digest",
    "late": f"digests took longer than {DEADLINE_S} s",
    "mixed": "a prompt mixes tokens and embeddings, or has embeddings after such a prompt",
    "other": "vLLM's own caches may have KV of another item under the same identifier, "
    "or vLLM computed an item in parts",
}
LINE = "Larder: requests with pictures, sound or video run without the cache where %s%s (first: %s)"


@dataclass
class Live:
    """A request with items, from the first look-up to the end of the request."""

    request: object
    until: float  # the deadline of the digests
    # Of mm_features, in the same order: a Future, or None until Digests has room for the item.
    digests: list = field(default_factory=list)
    places: tuple | None = None  # for keys.chunk_hashes, once all digests are there
    unnamed: str = ""  # the reason to run without the cache, a key of WORDS
    logged: bool = False
    local_tokens: int | None = None  # of the last look-up, until vLLM admits the request
    past: Past = field(default_factory=Past)
    end: int = 0  # the token behind the last item


class Items:
    def __init__(self, setup, observed, clock=time.monotonic, encoder_adapter=None):
        """observed: engine_metrics.Observed, which counts requests without the cache.
        encoder_adapter: as of Provenance."""
        self._setup = setup
        self._observed = observed
        self._clock = clock
        self._digests = Digests()
        self._provenance = Provenance(setup, encoder_adapter) if setup else None
        self._lives: dict[str, Live] = {}  # until the request ends
        self._waiting: set[str] = set()  # requests that vLLM is to ask for again
        self._logged: set[str] = set()
        self._mixed = False  # a prompt of tokens and embeddings was here

    def asked(self, request, local_tokens, wanted):
        """vLLM looks up the request, and has `local_tokens` in the prefix cache. wanted: the
        request may load otherwise. Returns whether the request may load; None: ask again."""
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
            # For good: the request keeps the decision, even if the digest comes a moment later.
            live.unnamed = "late"
        return wanted and self._serves(live)

    def admitted(self, request, blocks, external_tokens, wanted):
        """vLLM has blocks for the request. wanted: the request may use the cache otherwise. Returns
        whether the request uses the cache."""
        live = self._live_of(request)
        if live is None:
            return wanted
        self._name(live)
        local, live.local_tokens = live.local_tokens, None
        if local is not None and self._setup.stores:
            # Also for requests without the cache: their KV stays in vLLM's own cache, under vLLM's
            # identifiers.
            self._provenance.admitted(live, local, external_tokens, blocks.get_block_ids())
        return wanted and self._serves(live)

    def places(self, request):
        """For keys.chunk_hashes."""
        live = self._lives.get(request.request_id)
        if live is None:
            return ()
        self._name(live)
        # None and an empty tuple differ: None means "no keys", an empty tuple means "no items".
        return None if live.unnamed else live.places

    def places_to_store(self, request):
        """As places(); but None where the request's KV may be of other items."""
        live = self._lives.get(request.request_id)
        if live is None:
            return ()
        clean = live.past.is_clean()
        if clean is False and not live.unnamed:
            live.unnamed = "other"
            self._serves(live)
        return self.places(request) if clean else None

    def are_own(self, request):
        """Whether the request's KV is known to be of its own items. For each request in the last
        step()."""
        live = self._lives.get(request.request_id)
        return live is None or live.past.is_clean() is True

    def hit_of(self, request, chunks):
        """`chunks`, or fewer: the hit ends inside no item that is computed as a whole. vLLM may
        divide the rest of such an item, also between its frames."""
        size = self._setup.chunk_tokens
        for feature in reversed(request.mm_features) if self._setup.items_whole else ():
            if is_inside(feature, chunks * size):
                chunks = feature.mm_position.offset // size
        return chunks

    def step(self, scheduler_output, tables_of):
        """Call for each step that computes, before places_to_store(). tables_of: gives the block
        tables of a request id."""
        self._provenance.step(scheduler_output, tables_of, self._lives)

    def rest(self, wait_ms):
        """Waits `wait_ms` at most for a digest that a request needs. False: no request does."""
        digests = (one for name in self._waiting for one in self._lives[name].digests)
        running = [one for one in digests if one is not None and not one.done()]
        if running:
            wait(running, wait_ms / 1e3, FIRST_COMPLETED)
        return bool(running)

    def reset(self):
        """The model's weights may have changed."""
        self._provenance.reset()

    def adapters_differ(self):
        """See Provenance."""
        if self._provenance is not None:
            self._provenance.adapters_differ()

    def forget(self, request_id):
        """The request ended."""
        self._lives.pop(request_id, None)
        self._waiting.discard(request_id)

    def _live_of(self, request):
        """None: the request has no items."""
        live = self._lives.get(request.request_id)
        mixed = getattr(request, "prompt_embeds", None) is not None and self._mixes(request)
        if live is None and (request.mm_features or mixed):
            live = Live(request, self._clock() + DEADLINE_S)
            self._lives[request.request_id] = live
            # vLLM looks up a streaming session once: this session began with text alone.
            computed = getattr(request, "num_computed_tokens", 0)
            live.past = Past(vouched=computed, noted=computed)
        if live is not None and not live.unnamed:
            live.unnamed = "mixed" if mixed else "hidden" if self._setup.items_hidden else ""
        return live

    def _mixes(self, request):
        """Whether vLLM's block hashes may not cover a prompt that has embeddings.

        The hashes cover the bytes of the embeddings (_gen_prompt_embeds_extra_hash_keys), which
        vLLM has cast to the model's type. The hashes do not cover the mask of token positions
        (prompt_is_token_ids): a masked position and token 0 are equal. After a prompt with a mask,
        vLLM's prefix cache may hold that prompt's KV under the hash of a prompt without a mask."""
        self._mixed = self._mixed or getattr(request, "prompt_is_token_ids", None) is not None
        return self._mixed

    def _name(self, live):
        """Begins missing digests, and makes `places` of complete ones. A streaming session gets
        more items during its life."""
        features = live.request.mm_features
        if live.places is not None and len(live.places) == len(features):
            return
        live.places = None
        ends = (one.mm_position.offset + one.mm_position.length for one in features)
        live.end = max(ends, default=0)
        # A streaming session appends items, so the list grows with the request.
        live.digests += [None] * (len(features) - len(live.digests))
        if not self._setup.items_hidden:
            pairs = zip(live.digests, features)
            live.digests = [one or self._digests.of(feature.data) for one, feature in pairs]
        if all(one is not None and one.done() for one in live.digests):
            try:
                live.places = places_of(features, [one.result() for one in live.digests])
            except Undigested as error:
                live.unnamed = live.unnamed or error.reason

    def _serves(self, live):
        """Whether the request may use the cache. Counts and logs a request that may not."""
        if live.unnamed and not live.logged:
            live.logged = True
            self._observed.unnamed(live.unnamed)
            if live.unnamed not in self._logged:
                self._logged.add(live.unnamed)
                hidden = live.unnamed == "hidden" and self._setup.items_hidden
                why = f": {hidden}" if hidden else ""
                logger.warning(LINE, WORDS[live.unnamed], why, live.request.request_id)
        return not live.unnamed


def items_hidden(vllm_config):
    """The engine's setting for which the scheduler's tensors do not decide the KV of an item and of
    the text behind the item, or ""."""
    multimodal = getattr(vllm_config.model_config, "multimodal_config", None)
    if getattr(multimodal, "mm_processor_cache_type", "lru") == "shm":
        if multimodal.mm_processor_cache_gb > 0:
            return "--mm-processor-cache-type shm gives the scheduler addresses; use lru"
    if getattr(getattr(vllm_config, "ec_transfer_config", None), "is_ec_consumer", False):
        return "--ec-transfer-config takes embeddings from other engines by identifier"
    manager = getattr(vllm_config, "ec_manager_config", None)
    if getattr(manager, "encoder_cache_manager_cls", None):
        return "encoder_cache_manager_cls names a cache that may bring embeddings by identifier"
    # vLLM then scales an item's attention by the greatest values of the items before it, so that
    # equal items have unlike embeddings.
    if getattr(multimodal, "mm_encoder_attn_dtype", None) == "fp8":
        if not getattr(multimodal, "mm_encoder_fp8_scale_path", None):
            return (
                "--mm-encoder-attn-dtype fp8 scales each item by the items before it; give "
                "--mm-encoder-fp8-scale-path"
            )
    # The encoder decides the M-RoPE positions behind a pruned video. A hit of the whole video skips
    # the encoder, and the text behind the video then gets the positions of the unpruned video.
    if getattr(multimodal, "video_pruning_rate", None) and vllm_config.model_config.uses_mrope:
        return "--video-pruning-rate moves the text behind a video, and vLLM undoes this at a hit"
    return ""


def items_whole(model):
    """For Setup.items_whole."""
    if not getattr(model, "is_mm_prefix_lm", False):
        return ""
    # DeepSeek V4: the marks around the embeddings attend in both directions too.
    marks = getattr(model.hf_text_config, "mm_prefix_span_leading_pad_modulus", 0)
    return "item" if marks else "run"
