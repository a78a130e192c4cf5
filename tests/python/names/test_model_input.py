"""Engines in which vLLM gives the model another input for the same text."""

from engine_life import alone, ask, live
from engines import prompt

TEXT = prompt("model input", 600)
HIT = 512


# covers F-413
def test_embeddings_of_tokens_in_place_of_tokens(world, models):
    """Gemma 4 embeds each token once more for each layer. With --enable-prompt-embeds vLLM embeds
    the tokens of all requests itself, and the model has no token to embed once more."""
    model, embeds = models("gemma4_per_layer"), {"enable_prompt_embeds": True}
    (of_tokens,) = live(world, model, ask(TEXT))
    missed, hit, without = live(world, model, ask(TEXT), ask(TEXT), alone(TEXT), **embeds)
    assert (of_tokens["hit"], missed["hit"], hit["hit"]) == (0, 0, HIT)
    assert missed["tokens"] == hit["tokens"] == without["tokens"] != of_tokens["tokens"]
    again, control = live(world, model, ask(TEXT), alone(TEXT))
    assert (again["hit"], again["tokens"]) == (HIT, of_tokens["tokens"])
    assert control["tokens"] == of_tokens["tokens"]
