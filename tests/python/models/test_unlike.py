"""Layers of unlike pages in one KV group of a real vLLM: each page size is a group of Larder, and a
hit needs all groups."""

from pathlib import Path

import pytest
import record
from engines import prompt, start_larderd
from test_models import ask, slow
from walk import Walk

SCRIPT = Path(__file__).with_name("states_run.py")
MODELS = {
    "nemotron_nas": {"trust_remote_code": True},
    "gemma4": {"disable_hybrid_kv_cache_manager": True},
}


@slow
@pytest.mark.parametrize("name", MODELS)
def test_every_page_size_is_loaded_and_a_second_engine_hits_at_once(name, models, tmp_path):
    """The scheduler does not know the attention of such layers. The workers report the attention
    before the first request: the second engine hits with this request."""
    what = f"{name}, one KV group: a second engine's first request; controls for each page size"
    with (
        start_larderd(tmp_path, "512MiB") as larderd,
        record.named(f"{name}_second", what, 600) as told,
    ):
        walk, whole = Walk(larderd, tmp_path, models(name), **MODELS[name]), prompt("unlike", 600)
        controls = [
            one
            for load in ("all", [0], [1])
            for one in ({"clear": True}, {"load": load}, ask(whole), {"reset": True})
        ]
        (alone, cold, right, *wrong), _ = walk.run(
            [ask(whole, off=True), {"reset": True}, ask(whole), *walk.settled(), *controls],
            timeout_s=600,
            script=SCRIPT,
        )
        assert [one["hit"] for one in (cold, right, *wrong)] == [0, 512, 512, 512], (
            "each control has loaded"
        )
        assert cold["tokens"] == right["tokens"] == alone["tokens"]
        for one in wrong:
            assert one["tokens"] != cold["tokens"], (
                "without the KV of one page size the answer must change, "
                "else equal tokens are no proof"
            )
        for processes in ("0", "1"):
            walk.env = {"VLLM_ENABLE_V1_MULTIPROCESSING": processes}
            (second,), _ = walk.run([ask(whole)], timeout_s=600)
            assert (second["hit"], second["tokens"]) == (512, alone["tokens"])
        told(result="equal tokens", hits=second["hit"], zeroed="other tokens")
