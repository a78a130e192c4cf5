"""Reads vLLM's own sources for ways to change weights in place. Each way is told to the scheduler's
half (weight_changes), or is listed here with a reason. An unsorted method of a newer vLLM fails.

A client reaches the workers in two ways: EngineCore.collective_rpc, which is watched, and other
methods of EngineCore, which call the executor directly."""

import ast
import pathlib
import re

import pytest

vllm = pytest.importorskip("vllm")

from larder.vllm import weight_changes  # noqa: E402

ROOT = pathlib.Path(vllm.__file__).parent
_TOLD = "passes EngineCore.collective_rpc, which is watched"
_RESETS = "vLLM resets the connector (_reset_caches): a fresh private namespace"
_REQUESTS = "requests and steps"
_READS = "reads, and changes nothing"
_ADAPTERS = "adapters are named by their files (loaded_adapters)"
_END = "the engine ends or starts"
_RANKS = "moves experts between ranks; each keeps its values"
# Every public method of vLLM's EngineCore classes.
CORE = {
    _TOLD: "collective_rpc compute_weight_checksums",
    _RESETS: "sleep pause_scheduler pause_generation release_kv_cache_memory",
    "empties vLLM's own cache, or resets the connector too": "reset_prefix_cache",
    "weights that a sleep discarded; the sleep before has reset the connector": "wake_up",
    "a text that a client reads back": "set_weight_version",
    _ADAPTERS: "add_lora remove_lora list_loras pin_lora",
    _REQUESTS: "add_request abort_requests preprocess_add_request step post_step "
    "step_with_batch_queue execute_dummy_batch resume_scheduler barrier has_work is_running "
    "run_busy_loop process_input_sockets process_output_sockets run",
    _READS: "get_supported_tasks get_kv_cache_group_metadata get_weight_version is_sleeping "
    "is_scheduler_paused log_error_detail capture_iteration_details profile save_sharded_state",
    "encoder outputs, not weights": "reset_mm_cache reset_encoder_cache",
    _END: "shutdown startup_handshake run_engine_core wait_for_init",
    _RANKS: "reinitialize_distributed commit_prepared_elastic_ep",
}
# Every method of the executor that EngineCore, elastic expert parallelism and fault tolerance call.
EXECUTOR = {
    _TOLD: "collective_rpc",
    _RESETS: "sleep discard",
    "weights that a sleep discarded; the sleep before has reset the connector": "wake_up",
    _ADAPTERS: "add_lora remove_lora list_loras pin_lora",
    _REQUESTS: "execute_model sample_tokens execute_dummy_batch take_draft_token_ids",
    _READS: "determine_available_memory get_kv_cache_specs get_kv_connector_handshake_metadata "
    "get_supported_kv_cache_layouts get_simple_cpu_offload_num_blocks profile save_sharded_state "
    "supports_draft_weight_updates",
    "encoder outputs, not weights": "reset_mm_cache reset_encoder_cache",
    _END: "initialize_from_config set_kv_cache_layout init_ec_output_aggregator "
    "init_kv_output_aggregator register_failure_callback compile_or_warm_up_model shutdown",
}
# Names in calls of collective_rpc that pass the executor, and not EngineCore.
DIRECT = {
    "waits for the device": "synchronize_device",
    "states of requests (WorkerSentinel)": "handle_ft_command",
    _RANKS: "elastic_ep_execute",
}
# Names and words of methods that change weights.
CHANGES = re.compile(
    r"weight|reload|load_model|restore|apply_model|named_parameters|state_dict|\.parameters\(|"
    r"param(eter)?s?\b.*copy_"
)
# Harmless calls with such a word, and the reason.
LEAVES_THEM = {
    "compile_or_warm_up_model": "before the first request; the words are of a log line",
    "compute_weight_checksums": _READS,
    "determine_available_memory": "a run before the first request",
    "get_model_inspection": _READS,
    "init_weight_transfer_engine": "opens a connection; update_weights brings the weights",
    "save_sharded_state": _READS,
    "save_tensorized_model": _READS,
    "shutdown_weight_transfer_engine": "closes a connection",
}


def names(table):
    return {name for group in table.values() for name in group.split()}


def classes(pattern, *paths):
    """{method: [source without comments and docstrings]} of public methods of classes that the
    pattern matches."""
    found = {}
    for path in (one for glob in paths for one in sorted(ROOT.glob(glob))):
        for kind in ast.parse(path.read_text()).body:
            if isinstance(kind, ast.ClassDef) and re.search(pattern, kind.name):
                for part in kind.body:
                    if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
                        found.setdefault(part.name, []).append(code_of(part))
    return {name: codes for name, codes in found.items() if not name.startswith("_")}


def code_of(function):
    """Without the docstring; the parser has dropped the comments."""
    if ast.get_docstring(function) is not None:
        function.body = function.body[1:] or [ast.Pass()]
    return ast.unparse(function)


@pytest.fixture(scope="module")
def workers():
    return classes(r"Worker|ModelRunner|Mixin", "v1/worker/*.py", "v1/worker/gpu/model_runner.py")


def test_every_method_of_vllms_engine_core_is_sorted():
    """A public method of EngineCore is a call that any client of the engine can make."""
    found = classes(r"EngineCore(?!ShutdownState)", "v1/engine/core.py")
    assert {"collective_rpc", "sleep", "step"} <= set(found), "this vLLM keeps them elsewhere"
    assert set(found) - names(CORE) == set()


def test_the_methods_that_reset_the_connector_do():
    resets = classes("EngineCore", "v1/engine/core.py")
    core = (ROOT / "v1/engine/core.py").read_text()
    for name in {"sleep", "pause_scheduler", "release_kv_cache_memory"} & set(resets):
        assert any(
            re.search(r"clear_cache|_reset_caches|pause_scheduler", code) for code in resets[name]
        ), name
    assert re.search(r"def _reset_caches.*?reset_connector\s*=\s*True", core, re.DOTALL)


def test_every_call_that_bypasses_the_watched_one_is_sorted():
    called, direct = set(), set()
    for path in ("v1/engine", "v1/fault_tolerance", "distributed/elastic_ep"):
        for file in sorted((ROOT / path).rglob("*.py")):
            text = file.read_text()
            called |= set(re.findall(r"model_executor\.([a-z]\w*)\(", text))
            direct |= set(
                re.findall(r"""(?:executor\.|self\._)collective_rpc\(\s*["'](\w+)""", text)
            )
    assert "collective_rpc" in called and "synchronize_device" in direct
    assert called - names(EXECUTOR) == set()
    assert direct - names(DIRECT) == set()


# covers F-074
def test_no_call_that_changes_weights_is_on_the_list_of_harmless_ones(workers):
    """By the name, and by the body of each worker and model runner."""
    changing = {
        name
        for name, codes in workers.items()
        if CHANGES.search(name) or any(CHANGES.search(code) for code in codes)
    }
    known = {"reload_weights", "update_weights", "finish_weight_update", "reset_weights"}
    assert known <= changing
    assert changing & weight_changes._HARMLESS <= set(LEAVES_THEM)
    assert not known & weight_changes._HARMLESS


def test_the_harmless_calls_do_not_call_one_that_changes_weights(workers):
    """One level below: the model runner's method, or another method of the worker."""
    changing = {
        name for name, codes in workers.items() if name not in LEAVES_THEM and CHANGES.search(name)
    }
    for name in weight_changes._HARMLESS & set(workers):
        for code in workers[name]:
            called = set(re.findall(r"self(?:\.model_runner)?\.(\w+)\(", code))
            assert not called & changing, f"{name} calls {sorted(called & changing)}"


def test_every_name_that_vllm_itself_sends_to_the_workers_is_told_or_harmless(workers):
    """By vLLM's front ends. A call with another name than those listed is told, so only an error in
    the list could lose one."""
    sent = set()
    for path in ("entrypoints", "v1/engine", "snapshot"):
        for file in sorted((ROOT / path).rglob("*.py")):
            sent |= set(re.findall(r"""\bcollective_rpc\(\s*["'](\w+)""", file.read_text()))
    assert "start_weight_update" in sent
    for name in sent & weight_changes._HARMLESS:
        assert name in LEAVES_THEM or not CHANGES.search(name), name
