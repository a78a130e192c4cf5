"""The setup of one vLLM engine: the chunk geometry, the options and the facts of the fingerprint.
Or the reason why the engine runs without the cache.

Derived from vllm_config and kv_cache_config alone, which scheduler and workers both have. The
scheduler makes the rest of the fingerprint (naming), since models change their configuration during
the build in the workers' processes."""

import os
import urllib.parse
from dataclasses import dataclass

from larder.vllm import hosts, reusable, sleep_mode
from larder.vllm.attention_kernels import Attention, attention_of
from larder.vllm.drafts import Drafts, drafts_of
from larder.vllm.groups import Shards, Unsupported, check_sizes, groups_of, is_rebuilt, shards_of
from larder.vllm.identity import facts_of
from larder.vllm.items import items_hidden, items_whole
from larder.vllm.layer_specs import inner_specs
from larder.vllm.tail_pieces import Pieces, pieces_of, reason_against

MOST_SOCKET_BYTES = 107  # sockaddr_un
_OPTIONS = (
    "socket",
    "chunk_tokens",
    "min_tokens",
    "tails",
    "weights_id",
    "allow_weak_hash",
    "copy_threads",
    "fetch",
    "trust_other_connectors",
    "traces_endpoint",
)


@dataclass(frozen=True)
class Setup:
    chunk_tokens: int
    hashes_per_chunk: int  # the last of these is the chunk's key
    groups: tuple  # groups.Group
    shards: Shards
    facts: str  # the first part of the fingerprint, which scheduler and workers each derive
    weights_id: str | None
    model: str
    socket: str | None
    min_tokens: int
    copy_threads: int
    stores: bool
    loads: bool
    fetches: bool  # promotes chunks from larderd's lower tiers
    own_cache: bool = True  # vLLM's prefix cache is on: requests share blocks
    fails_by_page: bool = False  # vLLM hears of a failed load by its pages, not by its request
    items_hidden: str = ""  # why the scheduler cannot digest multi-modal items
    # Tokens of an item attend to each other in both directions: those of each "run" of embeddings,
    # or all of the "item".
    items_whole: str = ""
    blocks: int | None = None  # that vLLM manages
    # as this process knows the attention; None: only the layers know
    attention: Attention | None = None
    data_parallel: bool = False  # other ranks compute in step with this engine
    spread: bool = False  # ranks may use another larderd than the scheduler
    v2_runner: bool = False  # vLLM's second model runner, CUDA's default
    trusts_other_connectors: bool = False  # True: KV of other connectors is stored (foreign_kv)
    traces_endpoint: str = ""  # URL for the spans of requests (request_traces); "": no spans
    drafts: Drafts | None = None  # of a drafter whose KV is in vLLM's pages
    lookahead: int = 0  # Drafts.lookahead; without drafts 0
    zeroes: bool = False  # ... zeroes new blocks before the connector hears of preemptions
    # ... computes the KV of some layers anew behind a hit, from a block's end on
    rebuilds: bool = False
    pieces: Pieces | None = None  # of tails; None: hits end at whole chunks
    tails_refused: str = ""  # why there are no tails, although the option asks for them

    @property
    def token_groups(self):
        """The groups before the groups of states and of tails."""
        return tuple(group for group in self.groups if group.of_chunks)

    @property
    def states(self):
        """The number of groups of states."""
        return sum(group.state for group in self.groups)

    @property
    def tails(self):
        """The number of groups of tails."""
        return sum(group.tail for group in self.groups)

    @property
    def numbers(self):
        """The numbers of the groups of tokens, and of those of states."""
        tokens = len(self.token_groups)
        return range(tokens), range(tokens, tokens + self.states)

    def needs_more(self, tokens):
        """Whether a hit of a whole prompt of so many tokens has to give up a chunk."""
        return self.rebuilds or any(
            group.needs_more(tokens) for group in self.groups
        )  # mutation: rebuilt-hit


def setup_of(vllm_config, kv_cache_config):
    """Setup, or Unsupported."""
    options = _options(vllm_config)
    socket = _socket(options)
    drafts = None
    if kv_cache_config.kv_cache_groups:  # else groups_of() has the better reason
        _check_engine(vllm_config)
        drafts = drafts_of(vllm_config)
        _check_pages(vllm_config, kv_cache_config)
        check_scales(vllm_config, kv_cache_config)
    groups, chunk_tokens = groups_of(kv_cache_config, _count(options, "chunk_tokens"))
    # The draft layers may have other heads than the model's configuration says.
    shards = shards_of(
        vllm_config.parallel_config, kv_cache_config, None if drafts else vllm_config.model_config
    )
    check_sizes(groups, shards)
    rebuilds = any(map(is_rebuilt, kv_cache_config.kv_cache_groups))
    _check_together(vllm_config, groups, drafts, rebuilds)
    v2_runner = bool(getattr(vllm_config, "use_v2_model_runner", False))
    hash_block = getattr(kv_cache_config, "hash_block_size", None) or min(
        group.block_size for group in groups
    )
    if chunk_tokens % hash_block:
        raise Unsupported(
            f"chunk_tokens {chunk_tokens} is no multiple of vLLM's hash block of {hash_block} "
            "tokens"
        )
    transfer = vllm_config.kv_transfer_config
    spread = hosts.are_spread(vllm_config.parallel_config)
    pieces, tail_groups, tails_refused = None, (), ""
    if _switch(options, "tails", False):
        tails_refused = reason_against(groups, shards, drafts, rebuilds, spread)
        if not tails_refused:
            pieces, tail_groups = pieces_of(groups, chunk_tokens, hash_block)
    fails_by_page = _fails_by_page()
    if fails_by_page and len(kv_cache_config.kv_cache_groups) > 1:
        raise Unsupported(
            "this vLLM cannot be told of failed loads of several KV groups (get_transfer_results "
            "is missing)"
        )
    return Setup(
        chunk_tokens=chunk_tokens,
        hashes_per_chunk=chunk_tokens // hash_block,
        groups=groups + tail_groups,
        shards=shards,
        facts=facts_of(
            vllm_config, kv_cache_config, options, groups, shards, chunk_tokens, hash_block, drafts
        ),
        weights_id=_text(options, "weights_id"),
        model=_served_name(vllm_config.model_config),
        socket=socket,
        min_tokens=_count(options, "min_tokens"),
        copy_threads=_count(options, "copy_threads"),
        stores=transfer.is_kv_producer,
        loads=transfer.is_kv_consumer,
        fetches=_switch(options, "fetch", True),
        own_cache=bool(vllm_config.cache_config.enable_prefix_caching),
        fails_by_page=fails_by_page,
        items_hidden=items_hidden(vllm_config),
        items_whole=items_whole(vllm_config.model_config),
        blocks=getattr(kv_cache_config, "num_blocks", None),
        attention=_attention(
            vllm_config, kv_cache_config, [group for group in groups if not group.state]
        ),
        data_parallel=getattr(vllm_config.parallel_config, "data_parallel_size", 1) > 1,
        spread=spread,
        v2_runner=v2_runner,
        trusts_other_connectors=_switch(options, "trust_other_connectors", False),
        traces_endpoint=_traces_endpoint(options),
        rebuilds=rebuilds,
        pieces=pieces,
        tails_refused=tails_refused,
        drafts=drafts,
        lookahead=drafts.lookahead if drafts else 0,
        zeroes=v2_runner and bool(getattr(kv_cache_config, "needs_kv_cache_zeroing", False)),
    )


def _options(vllm_config):
    options = dict(vllm_config.kv_transfer_config.kv_connector_extra_config or {})
    unknown = set(options) - set(_OPTIONS)
    if unknown:
        raise Unsupported(
            f"unknown key {sorted(unknown)[0]} in kv_connector_extra_config; known: "
            f"{', '.join(_OPTIONS)}"
        )
    return options


def _check_together(vllm_config, groups, drafts, rebuilds):
    """Features that are served alone, but not together."""
    if drafts and rebuilds:
        raise Unsupported(
            f"speculative decoding by {drafts.method} with KV that vLLM computes anew behind a hit "
            "is not served yet"
        )
    if (
        any(group.state for group in groups)
        and getattr(vllm_config.cache_config, "prefix_cache_retention_interval", 0) != 0
    ):
        raise Unsupported(
            "recurrent states with a prefix_cache_retention_interval are not served yet; "
            "leave the interval at 0"
        )


def _attention(vllm_config, kv_cache_config, groups):
    """None: only the layers know. The specifications of unlike layers are the workers'."""
    return (
        None
        if any(group.unlike for group in groups)
        else attention_of(vllm_config, kv_cache_config, groups)
    )


def _check_engine(vllm_config):
    from vllm.distributed.kv_transfer.kv_connector.v1 import base
    from vllm.platforms import current_platform
    from vllm.v1.core.sched.output import SchedulerOutput

    if not hasattr(base, "KVConnectorWorkerMetadata"):
        raise Unsupported(
            "this vLLM does not carry the reports of workers (build_connector_worker_meta is "
            "missing)"
        )
    if "preempted_req_ids" not in SchedulerOutput.__dataclass_fields__:
        raise Unsupported(
            "this vLLM does not tell which requests it preempts, whose blocks stores may still "
            "read (preempted_req_ids is missing)"
        )
    if not current_platform.is_cpu() and not current_platform.is_cuda():
        raise Unsupported(
            f"KV pages on {current_platform.device_type} are not served yet, only on cpu and cuda"
        )
    if getattr(vllm_config.cache_config, "use_replayssm", False):
        raise Unsupported("recurrent states that vLLM replays (use_replayssm) are not served yet")
    reusable.check(vllm_config)
    if getattr(vllm_config.cache_config, "calculate_kv_scales", False):
        raise Unsupported(
            "KV scales calculated at run time (calculate_kv_scales) differ from start to start and "
            "are not served"
        )


def check_scales(vllm_config, kv_cache_config):
    """Unsupported: scales in the pages would be lost. vLLM's Triton kernels set the scales of all
    tokens to 1 at the first forward pass that sees the cache. The second runner makes this pass
    before serving, unless the runner does not warm up."""
    modes = [
        getattr(spec, "kv_quant_mode", None)
        for group in kv_cache_config.kv_cache_groups
        for spec in inner_specs(group.kv_cache_spec)
    ]
    if not any(getattr(mode, "is_per_token_head", False) for mode in modes):
        return
    warms_up = getattr(getattr(vllm_config, "kernel_config", None), "enable_jit_warmup", False)
    if not getattr(vllm_config, "use_v2_model_runner", False) or not warms_up:
        raise Unsupported(
            f"KV scales of {vllm_config.cache_config.cache_dtype} are set to 1 at the first "
            "forward pass, after loads: only vLLM's second"
            " model runner with its warm-up is served (VLLM_USE_V2_MODEL_RUNNER=1, "
            "no --enforce-eager)"
        )


# Physical orders of layers, blocks, heads, tokens and content in which a block of a layer is one
# run of bytes ...
_LAYOUTS = ("LBHNC", "LBNHC", "BLHNC", "BLNHC")
# ... and orders in which a block of a layer with one head is one run: MLA, or one KV head a rank.
_LAYOUTS_OF_ONE_HEAD = ("LHBNC", "BHLNC")


def _check_pages(vllm_config, kv_cache_config):
    # an older vLLM does not tell, but the tensors will (larder.kv_pages)
    layout = getattr(kv_cache_config, "kv_cache_layout", None)
    name = getattr(layout, "name", layout)
    heads = {
        getattr(spec, "num_heads", None)
        for group in kv_cache_config.kv_cache_groups
        for spec in inner_specs(group.kv_cache_spec)
    }
    served = _LAYOUTS + _LAYOUTS_OF_ONE_HEAD if heads == {1} else _LAYOUTS
    if name is not None and name not in served:
        raise Unsupported(
            f"the KV layout {name} takes a block apart; "
            f"set VLLM_KV_CACHE_LAYOUT to one of {', '.join(_LAYOUTS)}"
        )
    sleep_mode.check(vllm_config.model_config)


def _fails_by_page():
    """vLLM 0.29 and older."""
    from vllm.distributed.kv_transfer.kv_connector.v1 import base

    return not hasattr(base, "KVConnectorTransferResults")


def _count(options, name):
    value = options.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Unsupported(
            f"{name} in kv_connector_extra_config must be a whole number of at least 0, "
            f"not {value!r}"
        )
    return value


def _text(options, name):
    value = options.get(name)
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise Unsupported(f"{name} in kv_connector_extra_config must be a text, not {value!r}")
    return value


def _socket(options):
    """The option, or None: $LARDER_SOCKET or the library's own. A path that no Unix socket can have
    is refused."""
    socket = _text(options, "socket") if options.get("socket") != "" else None
    path = socket or os.environ.get("LARDER_SOCKET") or ""
    if len(os.fsencode(path)) > MOST_SOCKET_BYTES or "\0" in path:
        place = "socket in kv_connector_extra_config" if socket else "LARDER_SOCKET"
        raise Unsupported(
            f"{place} is no path of a Unix socket, which has {MOST_SOCKET_BYTES} bytes at most: "
            f"{path!r}"
        )
    return socket


def _traces_endpoint(options):
    """The option, else $LARDER_TRACES_ENDPOINT, with OTLP's path where the URL has none; "": no
    traces. OTEL_EXPORTER_OTLP_ENDPOINT alone sends nothing."""
    option = _text(options, "traces_endpoint")
    url = option or os.environ.get("LARDER_TRACES_ENDPOINT") or ""
    if not url:
        return ""
    try:
        parts = urllib.parse.urlsplit(url)
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        place = (
            "traces_endpoint in kv_connector_extra_config" if option else "LARDER_TRACES_ENDPOINT"
        )
        raise Unsupported(
            f"{place} must be the URL of an OTLP/HTTP receiver, such as "
            f"http://collector:4318, not {url!r}"
        )
    return url if parts.path.strip("/") else url.rstrip("/") + "/v1/traces"


def _switch(options, name, default):
    value = options.get(name, default)
    if not isinstance(value, bool):
        raise Unsupported(
            f"{name} in kv_connector_extra_config must be true or false, not {value!r}"
        )
    return value


def _served_name(model_config):
    name = model_config.served_model_name or os.path.basename(os.path.normpath(model_config.model))
    return name if isinstance(name, str) else name[0]
