"""KV pages as vLLM allocates them for each kind of attention, layout and kernel: each page must be
found, whole and alone.

vLLM's own allocation, on the CPU. The kernel blocks are those of vLLM's CUDA backends
(get_supported_kernel_block_sizes)."""

import ctypes
import json
import subprocess
import sys
from types import SimpleNamespace as Fake

import pytest

pytest.importorskip("vllm")
pytest.importorskip("vllm.v1.kv_cache_layout")

import torch  # noqa: E402
from fakes import setup  # noqa: E402
from vllm.config import VllmConfig, get_current_vllm_config_or_none  # noqa: E402
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheGroupSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
)  # noqa: E402
from vllm.v1.kv_cache_layout import KVCacheLayout  # noqa: E402
from vllm.v1.worker.utils import allocate_kv_cache  # noqa: E402

try:
    from vllm.v1.core import kv_cache_planning as planning
except ImportError:  # before vLLM 0.33
    from vllm.v1.core import kv_cache_utils as planning

from larder.vllm import attention_kernels, pages  # noqa: E402
from larder.vllm.groups import Unsupported, groups_of  # noqa: E402

BLOCKS, LAYERS = 6, 3
WHOLE = ("LBHNC", "LBNHC", "BLHNC", "BLNHC")
COMPACT = ("LBHNC", "LBNHC")
ALL = (*WHOLE, "LHBNC", "BHLNC")


def full(block=16, heads=4, head=64, dtype=torch.bfloat16, **more):
    return FullAttentionSpec(
        block_size=block, num_kv_heads=heads, head_size=head, dtype=dtype, **more
    )


def window(block=16, heads=4, head=64):
    return SlidingWindowSpec(
        block_size=block,
        num_kv_heads=heads,
        head_size=head,
        dtype=torch.bfloat16,
        sliding_window=64,
    )


def mla(block=64, **more):
    return MLAAttentionSpec(
        block_size=block, num_kv_heads=1, head_size=576, dtype=torch.bfloat16, **more
    )


def allocate(specs, layout, kernel_blocks):
    """(kv_cache_config, tensors) of vLLM's."""
    layout = KVCacheLayout[layout]
    found = [
        KVCacheGroupSpec([f"g{g}.l{i}" for i in range(LAYERS)], spec)
        for g, spec in enumerate(specs)
    ]
    cache = Fake(
        get_resolved_kv_cache_layout=lambda: layout,
        prefix_cache_retention_interval=None,
        num_gpu_blocks_override=None,
    )
    config = Fake(
        cache_config=cache,
        attention_config=Fake(hisparse_config=None),
        model_config=None,
        parallel_config=Fake(),
        kv_transfer_config=None,
    )
    kv_cache_config = planning.get_kv_cache_config_from_groups(
        config, found, planning._get_kv_cache_bytes_per_block(found, layout) * BLOCKS
    )
    assert kv_cache_config.num_blocks == BLOCKS
    return kv_cache_config, allocate_kv_cache(
        kv_cache_config, torch.device("cpu"), layout, list(kernel_blocks)
    )


def registered(kv_cache_config, tensors, kernel_blocks):
    """[(layer, (address, stride, bytes, count))] for the library, and the kernel blocks for the
    fingerprint."""
    groups, _ = groups_of(kv_cache_config, 0)
    given = []
    client = Fake(
        register_pages=lambda number, layers: given.extend(zip(groups[number].layers, layers))
    )
    found = pages.register(client, setup(groups=groups, blocks=kv_cache_config.num_blocks), tensors)
    assert found == tuple(kernel_blocks[group.table] for group in groups)
    return given


def check(tensor, address, stride, size, count):
    """Each block of the layer is one of these pages, whole and without other bytes."""
    assert count == BLOCKS
    backing = tensor.untyped_storage()
    every = torch.empty(0, dtype=torch.int8).set_(backing)
    for block in range(count):
        every.zero_()
        tensor.view(torch.int8).unflatten(0, (BLOCKS, -1))[block].fill_(0x5A)
        assert ctypes.string_at(address + block * stride, size) == b"\x5a" * size
        assert int((every == 0x5A).sum()) == size


SERVED = {
    "full attention": ([full()], [16], WHOLE),
    "one KV head": ([full(heads=1)], [16], ALL),
    "fp8": ([full(dtype=torch.uint8)], [16], WHOLE),
    "MLA": ([mla()], [64], ALL),
    "full attention and windows": ([full(), window()], [16, 16], WHOLE),
    "blocks of 128, kernel blocks of 64 (FlashInfer)": ([full(128)], [64], COMPACT),
    "blocks of 128, kernel blocks of 16": ([full(128)], [16], COMPACT),
    "blocks of 256, kernel blocks of 128 (FlashAttention 4, heads of 256)": (
        [full(256, head=256)],
        [128],
        COMPACT,
    ),
    "MLA, blocks of 128, kernel blocks of 64 (FlashMLA)": ([mla(128)], [64], (*COMPACT, "LHBNC")),
    "MLA, blocks of 128, kernel blocks of 32 (FlashInfer MLA)": (
        [mla(128)],
        [32],
        (*COMPACT, "LHBNC"),
    ),
    "MLA, blocks and kernel blocks of 128 (CUTLASS)": ([mla(128)], [128], ALL),
    "padded pages": ([full(heads=3, page_size_padded=16 * 4 * 128 * 2)], [16], WHOLE),
    "padded pages of two groups": (
        [full(heads=3, page_size_padded=16 * 4 * 128 * 2), window()],
        [16, 16],
        WHOLE,
    ),
    "groups that divide unlike": ([full(128), window(128)], [64, 128], COMPACT),
}


@pytest.mark.parametrize(
    ("name", "layout"),
    [(name, layout) for name, (*_, layouts) in SERVED.items() for layout in layouts],
)
def test_each_page_is_one_run_of_bytes_of_its_block(name, layout):
    specs, kernel_blocks, _ = SERVED[name]
    config, tensors = allocate(specs, layout, kernel_blocks)
    found = registered(config, tensors, kernel_blocks)
    assert len(found) == LAYERS * len(specs)
    for layer, page in found:
        assert page[2] == specs[int(layer[1])].unpadded_page_size_bytes
        check(tensors[layer], *page)


BACKENDS = """
import json

from vllm.v1.attention.backend import MultipleOf
from vllm.v1.attention.backends.registry import AttentionBackendEnum

for backend in AttentionBackendEnum:
    try:
        known = backend.get_class()
    except (ImportError, RuntimeError, ValueError):  # without its library, a GPU, or a class that somebody registers
        continue
    sizes = {size for one in known.get_supported_kernel_block_sizes() for size in ((one.base, 2 * one.base) if isinstance(one, MultipleOf) else (one,))}
    print(json.dumps([backend.name, known.is_mla(), sorted(sizes)]), flush=True)
"""


def kernel_blocks_of_vllm():
    """{backend: (whether MLA, kernel block sizes in tokens)} of the backends of this vLLM that
    import here; of a multiple the first two. In a process of its own: the library of a late backend
    (built for another processor) may end the process."""
    ran = subprocess.run(
        [sys.executable, "-c", BACKENDS], capture_output=True, text=True, timeout=120
    )
    told = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("[")]
    return {name: (is_mla, sizes) for name, is_mla, sizes in told}


def test_the_kernel_blocks_of_every_backend_that_imports_here():
    backends = kernel_blocks_of_vllm()
    assert {
        "FLASH_ATTN",
        "TRITON_ATTN",
        "TRITON_MLA",
        "FLASHMLA",
        "TOKENSPEED_MLA",
    } <= backends.keys()
    for is_mla, sizes in {(is_mla, tuple(sizes)) for is_mla, sizes in backends.values()}:
        for size in sizes:
            for block in (max(size, 16), 2 * max(size, 16)):
                spec = mla(block) if is_mla else full(block, heads=1, head=16)
                config, tensors = allocate([spec], "LBNHC", [size])
                for layer, page in registered(config, tensors, [size]):
                    assert page[2] == spec.unpadded_page_size_bytes, (is_mla, size, block)
                    check(tensors[layer], *page)


@pytest.mark.parametrize("layout", ["LHBNC", "BHLNC"])
def test_a_block_that_is_taken_apart_is_refused(layout):
    with pytest.raises(Unsupported, match="is not one run of"):
        registered(*allocate([full()], layout, [16]), [16])


def test_layers_of_one_group_that_divide_blocks_unlike_each_other_are_refused():
    """Within a page tokens stand otherwise, and a group has one name."""
    config, tensors = allocate([full(128)], "LBNHC", [64])
    tensors["g0.l1"] = allocate([full(128)], "LBNHC", [128])[1]["g0.l1"]
    with pytest.raises(Unsupported, match="different sizes, in tokens: g0.l0 64, g0.l1 128"):
        registered(config, tensors, [128])


def test_entries_that_are_no_blocks_are_refused():
    config, tensors = allocate([full()], "LBNHC", [16])
    config.num_blocks = 4
    with pytest.raises(Unsupported, match="6 entries are no multiple of the engine's 4 blocks"):
        registered(config, tensors, [16])


class Backend:
    """An attention backend with kernel blocks of fixed sizes, or of multiples."""

    def __init__(self, *sizes):
        self.sizes = list(sizes)

    def get_supported_kernel_block_sizes(self, spec=None):
        return self.sizes

    def get_name(self):
        return "BACKEND"


class TestKernelBlocks:
    """vLLM's choice (select_common_block_size), which the fingerprint must know."""

    def of(self, monkeypatch, spec, layout, *sizes):
        from vllm.v1.attention.backend import MultipleOf

        backend = Backend(*(MultipleOf(-size) if size < 0 else size for size in sizes))
        monkeypatch.setattr(attention_kernels, "_backend_like", lambda *_: backend)
        monkeypatch.setattr(attention_kernels, "_by_machine", lambda _: False)
        config, _ = allocate([spec], layout, [spec.block_size])
        groups, _ = groups_of(config, 0)
        found = attention_kernels.attention_of(VllmConfig(), config, groups)
        return found and found.blocks[0]

    @pytest.mark.parametrize(
        ("sizes", "block", "kernel"),
        [
            ((16, 32, 64), 128, 64),
            ((16, 32, 64), 64, 64),
            ((-16,), 128, 128),
            ((64,), 256, 64),
            ((128,), 256, 128),
            ((32, 64), 96, 32),
        ],
    )
    def test_of_layouts_in_which_a_layer_is_compact(self, monkeypatch, sizes, block, kernel):
        assert self.of(monkeypatch, full(block), "LBNHC", *sizes) == kernel

    def test_of_a_backend_whose_blocks_depend_on_the_configuration(self, monkeypatch):
        """FlashInfer asks for vLLM's current one, which workers have and schedulers do not."""
        of_none, of_one = [16, 32, 64], [16, 32, 64, 128]
        monkeypatch.setattr(
            Backend,
            "get_supported_kernel_block_sizes",
            lambda *_: of_none if get_current_vllm_config_or_none() is None else of_one,
        )
        assert self.of(monkeypatch, full(128), "LBNHC") == 128

    def test_blocks_beside_those_of_other_layers_are_not_divided(self, monkeypatch):
        assert self.of(monkeypatch, full(128), "BLNHC", 64) == 128

    def test_a_backend_that_is_not_the_layers_own_is_left_to_the_worker(self, monkeypatch):
        assert self.of(monkeypatch, full(48), "LBNHC", 64) is None


def test_a_processor_for_which_vllm_has_no_kernel_is_no_fault_of_larder(monkeypatch):
    from vllm.v1.attention.backends import cpu_attn

    def none(*_):
        raise NotImplementedError("FP8 KV cache on CPU requires x86 with AVX-512 or AMX.")

    monkeypatch.setattr(cpu_attn, "_get_attn_isa", none)
    config = Fake(model_config=Fake(dtype=torch.bfloat16), cache_config=Fake(cache_dtype="fp8"))
    with pytest.raises(Unsupported, match="no attention kernel for this processor: FP8 KV cache"):
        attention_kernels.attention_of(config, None, [Fake(spec=full(), layers=(), block_size=16)])
