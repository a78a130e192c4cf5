"""A picture is named by its content: real vLLM engines, one after the other over one larderd, each
a process of its own.

Each answer is compared with the same engine's answer without the cache. Each test has a control in
which another engine hits the KV of the same picture."""

import pytest
import shapes
from engines import prompt, run_offline

HIT = 512  # whole chunks of a prompt of 616 tokens: 16 for the picture, then the text
COUNTED = {
    "enable_prefix_caching": False,
    "mm_processor_cache_gb": 0,
}  # vLLM names pictures by a counter
TEXT = [max(token, 4) for token in prompt("pictures", 600)]  # token 3 stands for the picture


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return shapes.make_image_model(tmp_path_factory.mktemp("pictures"))


@pytest.fixture
def engine(world, model):
    """engine(*asks, **llm): the answers of one engine's life. Between two asks larderd commits all
    stores, and vLLM's own prefix cache is emptied. processes: the engine core has a process of its
    own, as behind vLLM's server."""

    def live(*asks, processes=False, **llm):
        env = {"OMP_NUM_THREADS": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "1" if processes else "0"}
        steps = []
        for ask in asks:
            steps += [ask, {"settle": world.admin_socket}, {"reset": True}]
        options = {"skip_tokenizer_init": False, "limit_mm_per_prompt": {"image": 1}, **llm}
        results, log = run_offline(model, world.socket, steps, env=env, timeout_s=400, **options)
        assert "Larder is off" not in log
        return [result for result in results if isinstance(result, dict)]

    return live


def ask(image, **fields):
    return {"ask": TEXT, "image": image, **fields}


def alone(image):
    return ask(image, off=True)


# covers F-083
def test_pictures_that_vllm_names_by_a_counter(engine):
    """The first picture of each engine has the same name."""
    (first,) = engine(ask(1), **COUNTED)
    other, without = engine(ask(2), alone(2), **COUNTED)
    again, control = engine(ask(1), alone(1), **COUNTED)
    assert (first["hit"], other["hit"], again["hit"]) == (0, 0, HIT)
    assert other["tokens"] == without["tokens"] != first["tokens"]
    assert again["tokens"] == control["tokens"] == first["tokens"]


# covers F-083
def test_a_client_that_names_its_picture_as_another_one(engine):
    """A client sends picture 2 with vLLM's hash of picture 1 as its uuid, to another engine."""
    (forged,) = engine(ask(2, named_as=1))
    victim, without = engine(ask(1), alone(1))
    again, forger = engine(ask(1), ask(2))
    assert (forged["hit"], victim["hit"]) == (0, 0)
    assert victim["tokens"] == without["tokens"] != forged["tokens"]
    assert (again["hit"], again["tokens"]) == (HIT, victim["tokens"])
    assert (forger["hit"], forger["tokens"]) == (0, forged["tokens"]), (
        "vLLM's hash of the block differs, and so does the key"
    )


# covers F-084
def test_kv_that_vllm_computed_from_another_picture_of_that_name_is_not_stored(engine):
    """vLLM's encoder cache has the client's picture when the victim's comes under the same name to
    the same engine. That answer is vLLM's own fault, and stays in that engine. The processor's
    cache is off, since it would replace the victim's picture before."""
    options = {"mm_processor_cache_gb": 0}
    forged, mixed_up = engine(ask(2, named_as=1), ask(1), **options)
    victim, without = engine(ask(1), alone(1), **options)
    again, named, hit = engine(ask(1, named_as=3), ask(1), ask(1, named_as=3), **options)
    assert mixed_up["tokens"] == forged["tokens"] != without["tokens"], (
        "the control: vLLM alone mixes the pictures up"
    )
    assert (mixed_up["hit"], victim["hit"]) == (0, 0) and victim["tokens"] == without["tokens"]
    assert (again["hit"], named["hit"], hit["hit"]) == (0, HIT, HIT)
    assert again["tokens"] == named["tokens"] == hit["tokens"] == victim["tokens"]


def test_the_engines_way_to_read_a_picture(engine):
    (normalized,) = engine(ask(1))
    other, hit, without = engine(
        ask(1), ask(1), alone(1), mm_processor_kwargs={"do_normalize": False}
    )
    (again,) = engine(ask(1))
    assert (normalized["hit"], other["hit"], hit["hit"], again["hit"]) == (0, 0, HIT, HIT)
    assert other["tokens"] == hit["tokens"] == without["tokens"] != normalized["tokens"]
    assert again["tokens"] == normalized["tokens"]


def test_a_picture_that_comes_from_another_process_has_the_same_name(engine):
    """vLLM's server sends tensors to the engine core, and sends none for a picture it sent
    before."""
    (stored,) = engine(ask(1))
    hit, again, other, without = engine(ask(1), ask(1), ask(2), alone(2), processes=True)
    assert (stored["hit"], hit["hit"], again["hit"], other["hit"]) == (0, HIT, HIT, 0)
    assert stored["tokens"] == hit["tokens"] == again["tokens"]
    assert other["tokens"] == without["tokens"] != stored["tokens"]


def test_an_engine_whose_scheduler_has_addresses_of_pictures(engine):
    """vLLM's cache of processed items in shared memory gives tensors to the workers alone."""
    first, again = engine(ask(1), ask(1), mm_processor_cache_type="shm")
    text, hit = engine({"ask": TEXT}, {"ask": TEXT}, mm_processor_cache_type="shm")
    assert (first["hit"], again["hit"], text["hit"], hit["hit"]) == (0, 0, 0, HIT)
    assert first["tokens"] == again["tokens"]
