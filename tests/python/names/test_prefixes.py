"""Engines in which vLLM does not reuse a prefix: Larder does not either, and says why."""

from engine_life import alone, ask, live
from engines import prompt

TEXT = prompt("prefixes", 600)


# covers F-066
def test_an_embedding_engine_that_pools_by_mean_survives_its_second_request(world, with_tokenizer):
    """The model's pooler refuses a prompt with a loaded part: the engine's process once died by
    this, and again after each restart."""
    llm = {
        "runner": "pooling",
        "convert": "embed",
        "pooler_config": {"pooling_type": "MEAN"},
        "skip_tokenizer_init": False,
    }
    for _ in range(2):  # the second life finds the chunks of the first one
        one, two = live(
            world,
            with_tokenizer,
            {"embed": TEXT},
            {"embed": TEXT},
            refused="pooled by MEAN",
            env={"VLLM_ENABLE_V1_MULTIPROCESSING": "1"},
            **llm,
        )
        assert one == two


# covers F-066
def test_a_model_whose_prompt_attends_in_both_directions(world, models):
    """The KV of the first chunk depends on the tail of the prompt."""
    tails = [TEXT[:512] + prompt(f"tail {number}", 60) for number in range(2)]
    first, second, without = live(
        world,
        models("prefix_lm"),
        ask(tails[0]),
        ask(tails[1]),
        alone(tails[1]),
        refused="attend in both directions",
    )
    assert (first["hit"], second["hit"]) == (0, 0)
    assert second["tokens"] == without["tokens"] != first["tokens"]


# covers F-067
def test_a_decoder_whose_user_switched_prefix_caching_off_is_served(world, models):
    """Larder brings reuse back: docs/reference/compatibility.md says so."""
    options = {"enable_prefix_caching": False}
    (stored,) = live(world, models("llama"), ask(TEXT), **options)
    hit, without = live(world, models("llama"), ask(TEXT), alone(TEXT), **options)
    assert (stored["hit"], hit["hit"]) == (0, 512)
    assert stored["tokens"] == hit["tokens"] == without["tokens"]
