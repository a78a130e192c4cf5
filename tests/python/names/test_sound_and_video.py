"""Sound and video are named by their content, as pictures are (test_pictures.py). Each kind has two
real vLLM engines, one after the other over one larderd."""

from pathlib import Path

import audio_model
import pytest
import shapes
from engine_life import live
from engines import prompt

HIT = 512  # whole chunks of a prompt of 600 tokens and more
SCRIPT = Path(__file__).with_name("items_run.py")
# The model, and the tokens of the prompt that stand for the item; vLLM inserts those of a video.
KINDS = {
    "audio": (audio_model.make_audio_model, [audio_model.AUDIO_TOKEN]),
    "video": (shapes.make_image_model, []),
}
UUID = "one uuid for all"


# covers F-083
@pytest.mark.parametrize("kind", KINDS)
def test_two_items_never_share_and_equal_ones_do(world, tmp_path, kind):
    """Under one `uuid` of a client vLLM's block hashes of two items are equal."""
    make, placeholder = KINDS[kind]
    model, words = make(tmp_path), len(audio_model.SPECIAL)
    text = [*placeholder, *(max(one, words) for one in prompt(kind, 600))]

    def ask(number, **fields):
        return {"ask": text, kind: number, **fields}

    def engine(*steps):
        options = {"limit_mm_per_prompt": {kind: 1}, "skip_tokenizer_init": False}
        return live(world, model, *steps, script=SCRIPT, **options)

    first, named = engine(ask(1), ask(1, uuid=UUID))
    assert (first["hit"], named["hit"]) == (0, 0), "vLLM's hash covers the uuid"
    assert first["tokens"] == named["tokens"]
    other, without, uuid_alone, again, unknown = engine(
        ask(2, uuid=UUID),
        ask(2, uuid=UUID, off=True),
        ask(None, uuid=UUID),
        ask(1),
        ask(None, uuid="never seen here", refused=True),
    )
    assert other["hit"] == 0 and other["tokens"] == without["tokens"] != first["tokens"]
    assert (uuid_alone["hit"], uuid_alone["tokens"]) == (HIT, other["tokens"]), (
        "without content, the item is the last one that this engine got under the uuid"
    )
    assert (again["hit"], again["tokens"]) == (HIT, first["tokens"])
    assert "never seen here" in unknown["refused"], "vLLM has no item, and Larder brings none"
