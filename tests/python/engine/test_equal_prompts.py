"""Equal prompts that reach vLLM's scheduler in one step: one load, and vLLM's own cache for all
others. No server, so that no prompt comes late."""

from engines import prompt, run_offline, start_larderd

CHUNK = 128
COUNT = 12


def test_equal_prompts_are_loaded_once(model, tmp_path):
    """A prompt that ends with a chunk: vLLM shares all blocks but the last one, which each request
    loads."""
    inside, at_end, longer = (
        prompt("inside", 600),
        prompt("at the end", 640),
        prompt("inside", 600) + prompt("tail", 100),
    )
    with start_larderd(tmp_path) as larderd:
        settle = [{"settle": str(larderd.admin_socket)}, {"reset": True}]
        stored = [step for text in (inside, at_end) for step in ({"ask": text}, *settle)]
        asked = [
            {"ask_all": [inside] * COUNT},
            {"reset": True},
            {"ask_all": [at_end] * COUNT},
            {"reset": True},
            {"ask_all": [inside, longer] * 3},
        ]
        results, _ = run_offline(model, larderd.socket, stored + asked, timeout_s=300)
        one, end, mixed = (result for result in results[len(stored) :] if isinstance(result, dict))
        trust = larderd.status()["trust"]
    assert (one["hit"], one["local"]) == (512, (COUNT - 1) * 512)
    assert (end["hit"], end["local"]) == (640 + (COUNT - 1) * CHUNK, (COUNT - 1) * 512)
    assert (mixed["hit"], mixed["local"]) == (512, 5 * 512 + 2 * CHUNK), (
        "the longer ones share the blocks that the first one computes"
    )
    assert [len(tokens) for result in (one, end, mixed) for tokens in result["tokens"]] == [8] * 30
    assert (trust["checksum_failures"], trust["loads_failed"]) == (0, 0)
