"""The environment variables of a vLLM engine that may change KV: vLLM's own compile_factors(),
minus a list of harmless variables.

As in engine_config, a variable of a newer vLLM is in the fingerprint."""

import os

from larder.vllm.engine_config import form_of

_ANOTHER = "another connector"
_TALK = "how processes talk"
_VERSION = "engine_version names the build"
_LIMITS = "limits the requests of clients"
_MEMORY = "the amount of memory, not the content"
_PLACE = "the place where something runs, listens or lies"
_SAMPLING = "acts behind the last layer"
_TELLS = "logs, metrics or traces"
_START = "the speed of a start, not a result"
_SPREAD = "the rank that computes something, not the result"
_TOKENS = "acts before the engine: the block hashes cover the tokens"

# The reason why variables do not change KV, and the names of these variables.
_BY_REASON = {
    _START: """
        CMAKE_BUILD_TYPE NVCC_THREADS VLLM_CPU_CI_ENV VLLM_DISABLE_COMPILE_CACHE
        VLLM_DOCKER_BUILD_CONTEXT VLLM_ENGINE_READY_TIMEOUT_S VLLM_FASTSAFETENSORS_QUEUE_SIZE
        VLLM_SKIP_P2P_CHECK
    """,
    _VERSION: """
        VLLM_BUILD_COMMIT VLLM_BUILD_PIPELINE VLLM_BUILD_URL VLLM_IMAGE_TAG
    """,
    _TELLS: """
        VERBOSE VLLM_CONFIGURE_LOGGING VLLM_CUSTOM_SCOPES_FOR_PROFILING VLLM_DEBUG_MFU_METRICS
        VLLM_DEBUG_WORKSPACE VLLM_DISABLE_LOG_LOGO VLLM_GC_DEBUG VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES
        VLLM_LOG_BATCHSIZE_INTERVAL VLLM_LOG_MODEL_INSPECTION VLLM_NVTX_SCOPES_FOR_PROFILING
        VLLM_PROCESS_NAME_PREFIX VLLM_TRACE_FUNCTION VLLM_USAGE_SOURCE
    """,
    "a secret of clients": """
        VLLM_API_KEY
    """,
    _PLACE: """
        CUDA_HOME RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES
        RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES RAY_EXPERIMENTAL_NOSET_HABANA_VISIBLE_MODULES
        RAY_EXPERIMENTAL_NOSET_HIP_VISIBLE_DEVICES RAY_EXPERIMENTAL_NOSET_NEURON_RT_VISIBLE_CORES
        RAY_EXPERIMENTAL_NOSET_ONEAPI_DEVICE_SELECTOR RAY_EXPERIMENTAL_NOSET_RBLN_RT_VISIBLE_DEVICES
        RAY_EXPERIMENTAL_NOSET_ROCR_VISIBLE_DEVICES RAY_EXPERIMENTAL_NOSET_TPU_VISIBLE_CHIPS
        VLLM_CPU_NUM_OF_RESERVED_CPU VLLM_CPU_OMP_THREADS_BIND VLLM_CUDART_SO_PATH
        VLLM_CONFIG_ROOT VLLM_EC_SIDE_CHANNEL_HOST VLLM_EC_SIDE_CHANNEL_PORT VLLM_ENABLE_COHERE_API
        VLLM_ENABLE_RESPONSES_API_STORE VLLM_GPU_NIC_PCIE_MAPPING VLLM_LOOPBACK_IP
        VLLM_NCCL_INCLUDE_PATH VLLM_NCCL_SO_PATH VLLM_NIC_SELECTION_VARS VLLM_RAY_BUNDLE_INDICES
        VLLM_RAY_DP_PACK_STRATEGY VLLM_RAY_DP_PLACEMENT_NODE_IPS VLLM_RAY_EXTRA_ENV_VARS_TO_COPY
        VLLM_RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY VLLM_RAY_PER_WORKER_GPUS VLLM_RUST_FRONTEND_PATH
        VLLM_USE_RAY_COMPILED_DAG_CHANNEL_TYPE VLLM_USE_RAY_COMPILED_DAG_OVERLAP_COMM
        VLLM_USE_RAY_V2_EXECUTOR_BACKEND VLLM_USE_RAY_WRAPPED_PP_COMM VLLM_USE_RUST_BENCH
        VLLM_USE_RUST_FRONTEND VLLM_XLA_CACHE_PATH
    """,
    _TOKENS: """
        VLLM_CHAT_TEMPLATE_RENDER_TIMEOUT VLLM_SYSTEM_START_DATE
    """,
    _LIMITS: """
        VLLM_MAX_BAD_WORDS_TOTAL_TOKENS VLLM_MAX_COMPLETION_PROMPTS VLLM_MAX_MEDIA_DOWNLOAD_SIZE_MB
        VLLM_MAX_NUM_BAD_WORDS VLLM_MAX_N_SEQUENCES VLLM_MAX_STOP_STRINGS
    """,
    "a permission; the configuration has the choice": """
        VLLM_ALLOW_LONG_MAX_MODEL_LEN
    """,
    "adapters are named by their content": """
        VLLM_ALLOW_RUNTIME_LORA_UPDATING VLLM_LORA_RESOLVER_CACHE_DIR
        VLLM_LORA_RESOLVER_HF_REPO_LIST
    """,
    _SPREAD: """
        VLLM_DP_RANK VLLM_DP_RANK_LOCAL VLLM_DP_SIZE VLLM_ELASTIC_EP_SCALE_UP_LAUNCH
    """,
    _SAMPLING: """
        VLLM_ENFORCE_STRICT_TOOL_CALLING VLLM_REGEX_COMPILATION_TIMEOUT_S
        VLLM_TOOL_JSON_ERROR_AUTOMATIC_RETRY VLLM_TOOL_PARSE_REGEX_TIMEOUT_SECONDS
        VLLM_V1_USE_OUTLINES_CACHE VLLM_XGRAMMAR_CACHE_MB
    """,
    _TALK: """
        VLLM_ALLOW_INSECURE_SERIALIZATION VLLM_MQ_MAX_CHUNK_BYTES_MB
        VLLM_MSGPACK_ZERO_COPY_THRESHOLD VLLM_USE_SPINLOOP_EXT
    """,
    "names of requests": """
        VLLM_DISABLE_REQUEST_ID_RANDOMIZATION
    """,
    _ANOTHER: """
        MOONCAKE_PREFERRED_SEGMENT MOONCAKE_REQUESTER_LOCAL_HOSTNAME
        VLLM_KV_OFFLOAD_MAX_BATCH_DESCRIPTORS VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT
        VLLM_MOONCAKE_BOOTSTRAP_PORT VLLM_MOONCAKE_CONNECTOR_TIMEOUT
        VLLM_MOONCAKE_DISK_STAGING_USABLE_RATIO VLLM_MOONCAKE_LOAD_RECV_THREADS
        VLLM_MOONCAKE_STORE_TIER_LOG VLLM_NIXL_SIDE_CHANNEL_PORT VLLM_P2P_HANDSHAKE_TIMEOUT_S
        VLLM_P2P_IDLE_TIMEOUT_S VLLM_P2P_MAX_PEERS VLLM_P2P_SIDE_CHANNEL_HOST
        VLLM_P2P_SIDE_CHANNEL_PORT VLLM_USE_SIMPLE_KV_OFFLOAD
    """,
    _MEMORY: """
        VLLM_ENABLE_CUDAGRAPH_GC VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS
    """,
    "says where weights lie": """
        VLLM_WEIGHT_OFFLOADING_DISABLE_PIN_MEMORY VLLM_WEIGHT_OFFLOADING_DISABLE_UVA
    """,
}
HARMLESS = {name: reason for reason, names in _BY_REASON.items() for name in names.split()}


def variables():
    """{name: value} of the variables that are not harmless, set or not."""
    from vllm import envs

    return {
        name: form_of(value, name)
        for name, value in envs.compile_factors().items()
        if name not in HARMLESS
    }


def variables_set():
    """Names of variables() that the environment sets to another value than vLLM's default. A
    variable that is set to its default must not part an engine from engines without it."""
    found = variables()
    return {name for name in found if name in os.environ and found[name] != _default_of(name)}


def _default_of(name):
    """The value of the variable when it is not set. For the start of an engine: the variable is
    away from the environment for a moment."""
    value = os.environ.pop(name)
    try:
        return variables().get(name)
    finally:
        os.environ[name] = value
