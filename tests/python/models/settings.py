"""Every tried model shape and engine setting, and its expected result."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Setting:
    name: str
    what: str  # for people: the row of docs/reference/compatibility.md
    model: str = "llama"
    llm: dict = field(default_factory=dict)  # arguments of LLM()
    ask: dict = field(default_factory=dict)  # fields of each request
    extra: dict = field(default_factory=dict)  # kv_connector_extra_config
    tokens: int = 600  # of the prompt
    ahead: int = 0  # the part of these that vLLM puts before the prompt (an image)
    hit: int = 512  # of these, from Larder
    local: int | None = None  # of these, from vLLM's own cache; None: as many
    full: int | None = None  # from Larder for a prompt of the first `hit` tokens; None: all tokens
    chunks: int = 0  # larderd's commits in all; 0: not checked
    pattern: int = 0  # the prompt repeats its first tokens: drafts for speculation
    max_tokens: int = 16
    # False: the setting may hit chunks of other settings, so its prompt is its own
    own_namespace: bool = True
    env: dict = field(default_factory=dict)
    processes: bool = False  # needs vLLM's engine core in a process of its own
    script: str = ""  # runs in place of offline_run.py
    needs: str = ""  # a Python package that not every environment has
    in_test: bool = False  # a part of `make test`

    @property
    def local_hit(self):
        return self.hit if self.local is None else self.local

    @property
    def full_hit(self):
        return self.hit if self.full is None else self.full


_PIPELINE = {"enforce_eager": False, "compilation_config": {"mode": 2, "backend": "eager"}}
_NGRAM = {
    "method": "ngram",
    "num_speculative_tokens": 3,
    "prompt_lookup_max": 3,
    "prompt_lookup_min": 1,
}

SETTINGS = [
    Setting("llama", "Llama; blocks of 128 tokens"),
    Setting("qwen2", "Qwen2", "qwen2"),
    Setting("qwen3", "Qwen3", "qwen3"),
    Setting("mixtral", "Mixtral", "mixtral"),
    Setting("mistral_window", "Mistral, all layers with a sliding window of 256", "mistral_window"),
    Setting(
        "window_33",
        "Mistral with a window of 33, blocks of 32: the last token of a full hit needs a block "
        "that vLLM does not allocate",
        "window_33",
        {"block_size": 32},
        tokens=520,  # a longer one forgets the hit
        full=256,
    ),
    Setting(
        "gemma3",
        "Gemma 3: windows of 256 and full attention, hybrid allocation",
        "gemma3",
        tokens=800,
        hit=768,
        in_test=True,
    ),
    Setting(
        "gemma4",
        "Gemma 4: windows of 256 and full attention with wider heads; "
        "KV groups with blocks of 256 and of 128",
        "gemma4",
    ),
    Setting(
        "gemma4_one_group",
        "Gemma 4, one KV group for all layers (hybrid allocation off): pages of two sizes",
        "gemma4",
        {"disable_hybrid_kv_cache_manager": True},
    ),
    Setting(
        "nemotron_nas",
        "Nemotron-NAS: layers with 2 and 4 KV heads in one KV group",
        "nemotron_nas",
        {"trust_remote_code": True},
    ),
    Setting(
        "nemotron_nas_tp2",
        "Nemotron-NAS, tensor parallel 2",
        "nemotron_nas",
        {"trust_remote_code": True, "tensor_parallel_size": 2},
        processes=True,
    ),
    Setting("gpt_oss", "GPT-OSS: windows of 128 and full attention, hybrid allocation", "gpt_oss"),
    Setting(
        "gpt_oss_96",
        "GPT-OSS, blocks of 32, prefill in steps of 96 tokens: "
        "blocks leave the window before a chunk is full",
        "gpt_oss",
        {"block_size": 32, "max_num_batched_tokens": 96},
        local=576,
    ),
    Setting(
        "llama4",
        "Llama 4: chunked local attention over spans of 256 and full attention; a full hit that "
        "ends with a span gives up a chunk",
        "llama4",
        full=384,
    ),
    Setting(
        "llama4_96",
        "Llama 4, blocks of 32, prefill in steps of 96 tokens",
        "llama4",
        {"block_size": 32, "max_num_batched_tokens": 96},
        local=576,
        full=256,
    ),
    # float32: MLA's prefill and decode are different kernels, whose rounding decides bfloat16's
    # tokens. vLLM keeps no prefix cache for this.
    Setting(
        "mla", "MLA (DeepSeek-V2 shape, float32)", "mla", {"dtype": "float32"}, local=0, chunks=2
    ),
    Setting(
        "mla_ranks",
        "MLA, tensor parallel 2: stored once",
        "mla",
        {"dtype": "float32", "tensor_parallel_size": 2},
        local=0,
        chunks=2,
        processes=True,
    ),
    Setting("fp8_e4m3", "KV in fp8_e4m3", llm={"kv_cache_dtype": "fp8_e4m3"}),
    Setting("fp8_e5m2", "KV in fp8_e5m2", llm={"kv_cache_dtype": "fp8_e5m2"}),
    Setting("float32", "float32", llm={"dtype": "float32"}),
    Setting("block_32", "blocks of 32 tokens", llm={"block_size": 32}, local=576),
    Setting(
        "prefill_96",
        "blocks of 32, prefill in steps of 96 tokens",
        llm={"block_size": 32, "max_num_batched_tokens": 96},
        local=576,
        own_namespace=False,
    ),
    Setting(
        "tp2",
        "tensor parallel 2",
        llm={"tensor_parallel_size": 2},
        chunks=8,
        processes=True,
        in_test=True,
    ),
    Setting(
        "tp2_replicated",
        "tensor parallel 2, one KV head: stored once",
        "llama_one_head",
        {"tensor_parallel_size": 2},
        chunks=4,
        processes=True,
    ),
    Setting(
        "pp2",
        "pipeline parallel 2",
        llm={"pipeline_parallel_size": 2, **_PIPELINE},
        chunks=8,
        processes=True,
    ),
    Setting(
        "pp2_gpt_oss",
        "pipeline parallel 2, GPT-OSS: layers of both KV groups in each stage",
        "gpt_oss",
        {"pipeline_parallel_size": 2, **_PIPELINE},
        chunks=16,
        processes=True,
    ),
    Setting(
        "pp2_gemma3",
        "pipeline parallel 2, Gemma 3: stages without a layer of some KV group",
        "gemma3",
        {"pipeline_parallel_size": 2, **_PIPELINE},
        tokens=800,
        hit=768,
        processes=True,
    ),
    Setting(
        "pp2_no_window",
        "pipeline parallel 2, GPT-OSS with 3 layers and 1: the second stage has no window",
        "gpt_oss",
        {"pipeline_parallel_size": 2, **_PIPELINE},
        env={"VLLM_PP_LAYER_PARTITION": "3,1"},
        processes=True,
    ),
    # float32: several drafts are computed at once, unlike an answer without drafts.
    Setting(
        "ngram",
        "n-gram speculation (float32)",
        llm={"speculative_config": _NGRAM, "dtype": "float32"},
        pattern=100,
        max_tokens=150,
        own_namespace=False,
    ),
    Setting(
        "suffix",
        "suffix decoding (float32)",
        llm={
            "speculative_config": {"method": "suffix", "num_speculative_tokens": 3},
            "dtype": "float32",
        },
        pattern=100,
        max_tokens=150,
        own_namespace=False,
        needs="arctic_inference",
    ),
    Setting("salt", "cache_salt", ask={"salt": "one"}, own_namespace=False),
    Setting(
        "qwen3_next",
        "Qwen3-Next: recurrent states (Gated DeltaNet) and full attention; blocks of 256",
        "qwen3_next",
        {"block_size": 256},
        full=0,
    ),
    Setting(
        "qwen3_next_tp2",
        "Qwen3-Next, tensor parallel 2",
        "qwen3_next",
        {"tensor_parallel_size": 2, "block_size": 256},
        full=0,
        processes=True,
    ),
    # Blocks of fixed sizes: vLLM's own choice for such models depends on the processor's kernels.
    # float32: in bfloat16 vLLM alone gives other tokens if a prompt is computed in other steps.
    Setting(
        "lfm2",
        "LFM2: states of short convolutions and full attention (float32)",
        "lfm2",
        {"dtype": "float32"},
        full=0,
    ),
    Setting(
        "granite4",
        "Granite 4: states of Mamba2 and full attention (with a stand-in for vLLM's specification "
        "of Mamba2 on CPUs); blocks of 640",
        "granite4",
        {"block_size": 640},
        tokens=1400,
        hit=1280,
        full=0,
        env={"LARDER_TEST_MAMBA2": "1"},
        script="states_run.py",
    ),
]
ORDER = [setting.name for setting in SETTINGS]
