"""Sound and video are named by their content, as pictures are (test_pictures.py).

Real vLLM engines, one after the other over one larderd, each a process of its own."""

from pathlib import Path

import audio_model
import pytest
import shapes
from engine_life import live
from engines import prompt

CHUNK = 128
SCRIPT = Path(__file__).with_name("items_run.py")
WORDS = len(audio_model.SPECIAL)
TEXT = [max(token, WORDS) for token in prompt("order", 600)]
# By kind: the model; the tokens of an item; the token that stands for an item, where vLLM does not
# insert the item's tokens at the prompt's begin; and another way to read equal items. The way of
# the video leaves the pixels as they are, and changes the times of the frames.
KINDS = {
    "audio": (audio_model.make_audio_model, 25, [audio_model.AUDIO_TOKEN], {"n_fft": 200}),
    "video": (shapes.make_image_model, 64, [], {"fps": 100.0}),
}
COUNTED = {"enable_prefix_caching": False, "mm_processor_cache_gb": 0}
UUID = "one uuid for all"


class Kind:
    """One kind of items, and the engines of its model."""

    def __init__(self, world, folder, kind):
        make, tokens, self.placeholder, self.other_way = KINDS[kind]
        self.text_hit, self.hit, self.hit_of_two = (
            (len(TEXT) + tokens * items - 1) // CHUNK * CHUNK for items in range(3)
        )
        self._world, self._model, self.kind = world, make(folder), kind

    def ask(self, item, text=None, uuid=None, processor=None, **fields):
        named = {"multi_modal_uuids": {self.kind: [uuid]}} if uuid else {}
        read = {"mm_processor_kwargs": processor} if processor else {}
        text = text or self.placeholder + TEXT
        return {"ask": text, self.kind: item, "prompt": {**named, **read}, **fields}

    def alone(self, item, **fields):
        """The same engine without the cache."""
        return self.ask(item, off=True, **fields)

    def engine(self, *steps, **llm):
        limits = {"audio": 2} if self.kind == "audio" else {"image": 1, "video": 2}
        options = {"limit_mm_per_prompt": limits, "skip_tokenizer_init": False, **llm}
        return live(self._world, self._model, *steps, script=SCRIPT, **options)


@pytest.fixture(params=KINDS)
def kind(request, world, tmp_path):
    return Kind(world, tmp_path, request.param)


# covers F-083
def test_two_items_never_share_and_equal_ones_do(kind):
    """Under one `uuid` of a client vLLM's block hashes of two items are equal."""
    ask = kind.ask
    first, named = kind.engine(ask(1), ask(1, uuid=UUID))
    assert (first["hit"], named["hit"]) == (0, 0), "vLLM's hash covers the uuid"
    assert first["tokens"] == named["tokens"]
    other, without, uuid_alone, again, unknown = kind.engine(
        ask(2, uuid=UUID),
        kind.alone(2, uuid=UUID),
        ask([None], uuid=UUID),
        ask(1),
        ask([None], uuid="never seen here", refused=True),
    )
    assert other["hit"] == 0 and other["tokens"] == without["tokens"] != first["tokens"]
    assert (uuid_alone["hit"], uuid_alone["tokens"]) == (kind.hit, other["tokens"]), (
        "without content, the item is the last one that this engine got under the uuid"
    )
    assert (again["hit"], again["tokens"]) == (kind.hit, first["tokens"])
    assert "data is not provided" in unknown["refused"], "vLLM has no item, and Larder brings none"


# covers F-332
def test_a_request_that_leaves_the_item_out_is_a_request_of_text(kind):
    """vLLM drops a uuid beside None (not [None]): the prompt has no item and no tokens of one."""
    text = {"ask": kind.placeholder + TEXT}
    item, left_out, without, bare = kind.engine(
        kind.ask(1, uuid=UUID), kind.ask(None, uuid=UUID), {**text, "off": True}, text
    )
    assert (item["hit"], left_out["hit"], bare["hit"]) == (0, 0, kind.text_hit)
    assert left_out["tokens"] == without["tokens"] == bare["tokens"] != item["tokens"]


# covers F-083
def test_items_that_vllm_names_by_a_counter(kind):
    """The first item of each engine has the same name."""
    (first,) = kind.engine(kind.ask(1), **COUNTED)
    other, without = kind.engine(kind.ask(2), kind.alone(2), **COUNTED)
    again, control = kind.engine(kind.ask(1), kind.alone(1), **COUNTED)
    assert (first["hit"], other["hit"], again["hit"]) == (0, 0, kind.hit)
    assert other["tokens"] == without["tokens"] != first["tokens"]
    assert again["tokens"] == control["tokens"] == first["tokens"]


# covers F-333
def test_the_way_to_read_an_item(kind):
    """A request's own way, the engine's, and arguments of the engine's reader of files."""
    ask, way = kind.ask, kind.other_way
    first, other, without = kind.engine(ask(1), ask(1, processor=way), kind.alone(1, processor=way))
    assert (first["hit"], other["hit"]) == (0, 0)
    assert other["tokens"] == without["tokens"] != first["tokens"]
    of_engine, again, control = kind.engine(ask(1), ask(1), kind.alone(1), mm_processor_kwargs=way)
    assert (of_engine["hit"], again["hit"]) == (0, kind.hit)
    assert of_engine["tokens"] == again["tokens"] == control["tokens"] == other["tokens"]
    io = {"media_io_kwargs": {kind.kind: {"num_frames": 2}}}
    assert kind.engine(ask(1), **io)[0]["hit"] == 0
    for hit, before in zip(kind.engine(ask(1), ask(1, processor=way)), (first, other)):
        assert (hit["hit"], hit["tokens"]) == (kind.hit, before["tokens"])


# covers F-083
def test_several_items_and_text_in_other_orders(kind):
    """A chunk in front of the second item is shared; vLLM puts both videos at the begin."""
    text = kind.placeholder + TEXT[:300] + kind.placeholder + TEXT[300:]
    shared = 256 if kind.kind == "audio" else 0

    def ask(*items, **fields):
        return kind.ask(list(items), text=text, **fields)

    (first,) = kind.engine(ask(1, 2))
    turned, last, equal, again = kind.engine(ask(2, 1), ask(1, 3), ask(2, 2), ask(1, 2))
    controls = kind.engine(*(ask(*two, off=True) for two in ((2, 1), (1, 3), (2, 2), (1, 2))))
    found = [turned, last, equal, again]
    # (2, 2) shares with (2, 1), which was stored a moment before
    assert [one["hit"] for one in found] == [0, shared, shared, kind.hit_of_two]
    assert [one["tokens"] for one in found] == [one["tokens"] for one in controls]
    assert first["tokens"] == again["tokens"] and turned["tokens"] != first["tokens"]


# covers F-083
def test_a_picture_beside_a_video(world, tmp_path):
    """Two kinds of items under one uuid, and two pictures beside one video."""
    video = Kind(world, tmp_path, "video")
    both = {"multi_modal_uuids": {"image": [UUID], "video": [f"{UUID}, too"]}}

    def ask(image, film, **fields):
        return {"ask": TEXT, "image": image, "video": film, "prompt": both, **fields}

    pairs = [(1, 1), (2, 1), (1, 2), (2, 2)]
    # no cache of processed items: the cache would replace the second picture by the first
    options = {"mm_processor_cache_gb": 0}
    (first,) = video.engine(ask(1, 1), **options)
    for pair in pairs[1:]:
        other, without = video.engine(ask(*pair), ask(*pair, off=True), **options)
        assert other["hit"] == 0 and other["tokens"] == without["tokens"], pair
    (again,) = video.engine(ask(1, 1), **options)
    assert (again["hit"], again["tokens"]) == (640, first["tokens"])


# covers F-334
def test_a_client_sends_no_embeddings_unasked(world, tmp_path):
    """As without a connector. A size alone would end the engine, which answers the last request."""
    sound = Kind(world, tmp_path, "audio")
    embeddings, size = [{"embeds": 1}], {"tokens": 25}
    refused, sized, answer, control = sound.engine(
        sound.ask(embeddings, refused=True),
        sound.ask(size, uuid=UUID, refused=True),
        sound.ask(1),
        sound.alone(1),
    )
    assert "--enable-mm-embeds" in refused["refused"]
    assert sized["refused"]
    assert answer["tokens"] == control["tokens"]


# covers F-334
def test_embeddings_of_a_client(world, tmp_path):
    """With --enable-mm-embeds, KV goes by the content of the embeddings. A size alone is refused,
    as without a connector."""
    sound = Kind(world, tmp_path, "audio")
    one, two, size = [{"embeds": 1}], [{"embeds": 2}], {"tokens": 25}
    asked = {"enable_mm_embeds": True}
    (first,) = sound.engine(sound.ask(one, uuid=UUID), **asked)
    other, without, renamed, sized = sound.engine(
        sound.ask(two, uuid=UUID),
        sound.alone(two, uuid=UUID),
        sound.ask(one, uuid=f"not {UUID}"),
        sound.ask(size, uuid=UUID, refused=True),
        **asked,
    )
    (hit,) = sound.engine(sound.ask(one, uuid=UUID), **asked)
    assert [found["hit"] for found in (first, other, renamed, hit)] == [0, 0, 0, sound.hit]
    assert other["tokens"] == without["tokens"] != first["tokens"]
    assert first["tokens"] == renamed["tokens"] == hit["tokens"]
    assert sized["refused"]
