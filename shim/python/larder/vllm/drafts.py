"""Speculative decoding: the facts of a drafter with KV in vLLM's pages. Or the reason why an engine
with such a drafter runs without the cache.

The KV of a drafter is a part of each chunk. A wrong draft page never changes a token, since the
target model verifies each draft; the page costs accepted drafts. Larder therefore stores draft KV
under exact keys (next_tokens) and only if this engine saw the write (draft_kv)."""

from dataclasses import dataclass

from larder.vllm.groups import Unsupported

# Methods without a drafter's KV, and methods with served KV.
_WITHOUT_KV = ("ngram", "ngram_gpu", "suffix")
_WITH_KV = ("draft_model", "eagle", "eagle3", "mtp")


@dataclass(frozen=True)
class Drafts:
    method: str
    lookahead: int  # tokens behind a position that decide the drafter's KV of the position
    # vLLM's first model runner leaves the drafter out of a step with a longer request
    # (_input_fits_in_drafter).
    longest: int
    layers: int | None  # with KV; None: unknown


def has_kv(speculative):
    """Whether the method of a SpeculativeConfig, or None, has a drafter's KV."""
    return speculative is not None and speculative.method not in _WITHOUT_KV


def drafts_of(vllm_config):
    """Drafts; None: no drafter's KV. Unsupported: the method is not served."""
    speculative = getattr(vllm_config, "speculative_config", None)
    if not has_kv(speculative):
        return None
    _check(speculative, vllm_config)
    draft, method = speculative.draft_model_config, speculative.method
    limits = [
        one
        for one in (draft.max_model_len, vllm_config.model_config.max_model_len)
        if one is not None
    ]
    # One token less than vLLM's own rule: the counts of a step may be behind by a token.
    longest = min(limits) - speculative.num_speculative_tokens - 1
    return Drafts(
        method,
        vllm_config.num_prefill_lookahead_tokens,
        longest,
        None if method == "mtp" else getattr(draft.hf_text_config, "num_hidden_layers", None),
    )


def _check(speculative, vllm_config):
    method, parallel = speculative.method, vllm_config.parallel_config
    shares = any(
        getattr(speculative, name, bool)() for name in ("use_gemma4_mtp", "use_step3p5_mtp")
    )
    if method not in _WITH_KV or shares:
        kind = f"{method} with layers that share the target's KV" if shares else method
        raise Unsupported(
            f"speculative decoding by {kind} is not served yet, only "
            f"{', '.join(_WITHOUT_KV + _WITH_KV)}"
        )
    if not hasattr(vllm_config, "num_prefill_lookahead_tokens"):
        raise Unsupported(
            "speculative decoding: this vLLM does not tell how many tokens a drafter reads ahead "
            "(num_prefill_lookahead_tokens)"
        )
    # vLLM's first model runner leaves the pages of all modules but one unwritten
    if getattr(speculative, "use_multi_module_mtp", bool)():
        raise Unsupported(
            f"speculative decoding by {method} with several modules is not served yet"
        )
    for name in ("num_speculative_tokens_per_batch_size", "use_heterogeneous_vocab"):
        if getattr(speculative, name, None):
            raise Unsupported(f"speculative decoding by {method} with {name} is not served yet")
    stages = getattr(parallel, "pipeline_parallel_size", 1)
    if stages > 1:
        raise Unsupported(
            f"speculative decoding by {method} with pipeline_parallel_size {stages} is not served "
            "yet: the last stage alone has the drafter"
        )
    load = speculative.draft_load_config
    if load is not None and load.load_format == "dummy" != vllm_config.load_config.load_format:
        raise Unsupported(
            f"speculative decoding by {method} with dummy weights in the draft model alone is not "
            "served"
        )
    ranks, own = (
        parallel.tensor_parallel_size,
        speculative.draft_parallel_config.tensor_parallel_size,
    )
    if ranks != own:
        raise Unsupported(
            f"speculative decoding by {method} with draft_tensor_parallel_size {own} beside "
            f"tensor_parallel_size {ranks} is not served yet"
        )
