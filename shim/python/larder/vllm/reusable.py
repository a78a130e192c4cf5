"""Whether an engine may reuse the KV of a prefix at all.

vLLM switches its own prefix caching off for KV that is not reusable. Larder refuses such an engine.
If only the user switched prefix caching off, prefixes are reusable: Larder serves the engine and
brings the reuse back."""

import inspect

from larder.vllm.groups import Unsupported


def check(vllm_config):
    """Unsupported: vLLM does not reuse prefixes in this engine, or for an unknown reason."""
    model = vllm_config.model_config
    if getattr(vllm_config, "diffusion_config", None) is not None or getattr(
        model, "is_diffusion", False
    ):
        raise Unsupported(
            "a diffusion model computes the KV of a block several times: no prefix can be reused"
        )
    if getattr(vllm_config, "is_mm_encoder_only", False):
        raise Unsupported("this engine runs a multi-modal encoder alone, which has no KV cache")
    if getattr(model, "rswa_window", None) is not None:
        raise Unsupported(
            "a generated token attends to a window, and a token of the prompt to all tokens "
            "(rswa_window): equal tokens have unlike KV"
        )
    supported = getattr(model, "is_prefix_caching_supported", None)
    if supported is None:
        raise Unsupported(
            "this vLLM does not tell whether a prefix can be reused (is_prefix_caching_supported "
            "is missing)"
        )
    if not supported:
        raise Unsupported(
            f"vLLM does not reuse prefixes of {_kind(model)}: "
            "a hit would give a wrong answer or end the engine"
        )
    if not vllm_config.cache_config.enable_prefix_caching and not _switched_off_by_hand(model):
        raise Unsupported(
            "vLLM has switched prefix caching off, and Larder cannot tell whether the reason is "
            f"harmless for {_kind(model)}"
        )


def _switched_off_by_hand(model):
    """Whether prefix caching is off for a harmless reason. Such a reason is the user's own flag, or
    a kernel that vLLM lacks on this machine (MLA on a CPU). Neither changes the KV of a prefix. For
    a decoder that generates text vLLM has no other reason."""
    from vllm import envs
    from vllm.platforms import CpuArchEnum, current_platform

    if current_platform.is_cpu() and current_platform.get_cpu_architecture() == CpuArchEnum.RISCV:
        return False
    if envs.VLLM_BATCH_INVARIANT or _model_may_switch_off(model):
        return False
    return model.runner_type == "generate" and model.attn_type in ("decoder", "hybrid")


def _model_may_switch_off(model):
    """Whether vLLM has a rule about prefix caching for this architecture. Unlimited-OCR: a
    generated token attends to a window, a token of the prompt to all, so equal tokens have
    different KV."""
    from vllm.model_executor.models.config import MODELS_CONFIG_MAP

    rule = MODELS_CONFIG_MAP.get(getattr(model, "architecture", None))
    if rule is None:
        return False
    try:
        return "enable_prefix_caching" in inspect.getsource(rule)
    except (OSError, TypeError):
        return True


def _kind(model):
    pooler = getattr(model, "pooler_config", None)
    kind = (
        f"a {getattr(model, 'runner_type', 'generate')} model of attention type "
        f"{getattr(model, 'attn_type', 'unknown')}"
    )
    if pooler is None:
        return kind
    return (
        f"{kind}, pooled by "
        f"{getattr(pooler, 'seq_pooling_type', None) or getattr(pooler, 'tok_pooling_type', None)}"
    )
