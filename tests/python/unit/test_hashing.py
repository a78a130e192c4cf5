"""hash_tokens() against vLLM's own functions, called as in vLLM for a request."""

import random
from types import SimpleNamespace

import pytest

from larder import hash_tokens

kv_cache_utils = pytest.importorskip("vllm.v1.core.kv_cache_utils", reason="vLLM is not installed")
hashing = pytest.importorskip("vllm.utils.hashing", reason="vLLM is not installed")

LORA = SimpleNamespace(lora_name="tone", lora_path="/adapters/tone")


def vllm_hashes(tokens, block_size, algorithm, cache_salt=None, lora=None):
    digest = hashing.get_hash_fn_by_name(algorithm)
    kv_cache_utils.init_none_hash(digest)
    request = SimpleNamespace(
        block_hashes=[],
        num_tokens=len(tokens),
        all_token_ids=tokens,
        mm_features=[],
        lora_request=lora,
        cache_salt=cache_salt,
        prompt_embeds=None,
    )
    return list(kv_cache_utils.get_request_block_hasher(block_size, digest)(request))


def prompt(count, seed=1):
    # Token ids of every CBOR length, small ones too.
    generator = random.Random(seed)
    return [
        generator.choice(
            [generator.randrange(24), generator.randrange(256), generator.randrange(152_064)]
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("algorithm", ["sha256", "sha256_cbor"])
@pytest.mark.parametrize("block_size", [16, 32, 128])
def test_hashes_are_vllms(algorithm, block_size):
    for count in (0, block_size - 1, block_size, 7 * block_size + 3):
        tokens = prompt(count)
        assert hash_tokens(tokens, block_size, algorithm=algorithm) == vllm_hashes(
            tokens, block_size, algorithm
        ), count


@pytest.mark.parametrize("algorithm", ["sha256", "sha256_cbor"])
def test_salt_and_adapter_count_as_in_vllm(algorithm):
    tokens = prompt(64)
    plain = hash_tokens(tokens, 16, algorithm=algorithm)
    lora = (LORA.lora_name, LORA.lora_path)
    salted = hash_tokens(tokens, 16, algorithm=algorithm, cache_salt="mine")
    adapted = hash_tokens(tokens, 16, algorithm=algorithm, lora=lora)
    both = hash_tokens(tokens, 16, algorithm=algorithm, cache_salt="mine", lora=lora)
    assert salted == vllm_hashes(tokens, 16, algorithm, cache_salt="mine")
    assert adapted == vllm_hashes(tokens, 16, algorithm, lora=LORA)
    assert both == vllm_hashes(tokens, 16, algorithm, cache_salt="mine", lora=LORA)
    assert len({one[-1] for one in (plain, salted, adapted, both)}) == 4


@pytest.mark.parametrize("algorithm", ["sha256", "sha256_cbor"])
def test_the_seed_of_the_environment_counts_as_in_vllm(algorithm, monkeypatch):
    tokens = prompt(32)
    monkeypatch.setenv("PYTHONHASHSEED", "42")
    seeded = hash_tokens(tokens, 16, algorithm=algorithm)
    assert seeded == vllm_hashes(tokens, 16, algorithm)
    monkeypatch.delenv("PYTHONHASHSEED")
    assert hash_tokens(tokens, 16, algorithm=algorithm, seed="42") == seeded
    assert hash_tokens(tokens, 16, algorithm=algorithm) != seeded


def test_numbers_of_other_libraries_are_numbers():
    numpy = pytest.importorskip("numpy")
    tokens = prompt(32)
    assert hash_tokens(numpy.array(tokens), 16) == hash_tokens(tokens, 16)


def test_chunks_are_named_by_their_last_block():
    tokens = prompt(16 * 11)
    blocks = hash_tokens(tokens, 16)
    assert hash_tokens(tokens, 16, chunk_tokens=64) == [blocks[3], blocks[7]]
    assert hash_tokens(tokens, 16, chunk_tokens=16) == blocks
    assert hash_tokens(tokens[:63], 16, chunk_tokens=64) == []


@pytest.mark.parametrize("algorithm", ["sha256", "sha256_cbor"])
@pytest.mark.parametrize("lookahead", [1, 3])
def test_names_with_a_lookahead_are_the_connectors_keys(algorithm, lookahead):
    from fakes import setup

    from larder.vllm.keys import chunk_hashes

    for count in (0, 63, 64, 64 + lookahead - 1, 64 + lookahead, 16 * 11):
        tokens = prompt(count)
        request = SimpleNamespace(
            num_tokens=count, all_token_ids=tokens, block_hashes=vllm_hashes(tokens, 16, algorithm)
        )
        keys = chunk_hashes(setup(16, 64, lookahead=lookahead), request, 0, count // 64, ())
        assert (
            b"".join(
                hash_tokens(tokens, 16, chunk_tokens=64, algorithm=algorithm, lookahead=lookahead)
            )
            == keys
        )
    with pytest.raises(ValueError, match="lookahead"):
        hash_tokens([], 16, lookahead=-1)


def test_unsupported_arguments_are_reported():
    with pytest.raises(ValueError, match="xxhash"):
        hash_tokens([], 16, algorithm="xxhash")
    with pytest.raises(ValueError, match="chunk_tokens"):
        hash_tokens([], 16, chunk_tokens=40)
    with pytest.raises(TypeError, match="not its text"):
        hash_tokens("0" * 16, 16)
    with pytest.raises(TypeError, match="float"):
        hash_tokens([1.5] * 16, 16)
    with pytest.raises(ValueError, match="block_size"):
        hash_tokens([], 0)
