"""Two engines with a long value of vLLM's configuration. The log, in larderd's words, names the
field and shows both values around the first difference, and larderd's status has both. No vLLM:
fingerprints and clients alone."""

import json
import re

import pytest
from engines import start_larderd

from larder import Client, fingerprint

FIELD = "model_config.hf_config.quantization_config.ignore"
GROUPS = [(4096, 2, 1)]
PATIENCE_S = 20


@pytest.fixture(scope="module")
def larderd(tmp_path_factory):
    with start_larderd(tmp_path_factory.mktemp("long"), "64MiB") as started:
        yield started


def text(value):
    return fingerprint.text("engine: vllm\n", {FIELD: value}, {FIELD})


def layers(count, odd):
    return [
        f"model.layers.{number}.{'self_attn' if number != odd else 'mlp'}.o_proj"
        for number in range(count)
    ]


def told_to(larderd, own, other):
    """The log lines of a client that attaches with the text `own` while another client has
    `other`."""
    with Client(larderd.socket, "other") as first, Client(larderd.socket, "test") as second:
        for client, fingerprint_text in ((first, other), (second, own)):
            client.set_namespace(fingerprint_text, "m", 128, GROUPS)
            assert client.wait_attached(1000 * PATIENCE_S)
        larderd.wait_until(
            lambda: (
                {own, other} <= {space["fingerprint"] for space in larderd.status()["namespaces"]}
            ),
            PATIENCE_S,
        )
        return "\n".join(line for _, line in iter(second.next_log, None))


@pytest.mark.parametrize("odd", [0, 400, 799])
# covers F-064
def test_both_values_are_shown_around_the_first_difference(larderd, odd):
    told = told_to(larderd, text(layers(800, odd)), text(layers(800, None)))
    difference = re.search(rf"differs from namespace [0-9a-f]+ in: {FIELD}: (.+) -> (.+)", told)
    assert (
        difference
        and f"layers.{odd}.self_attn." in difference[1]
        and f"layers.{odd}.mlp." in difference[2]
    ), told
    assert len(difference[0]) < 400


# covers F-064
def test_the_place_is_named_where_values_are_too_long_to_be_shown(larderd):
    many, odd = 8000, 4444
    told = told_to(larderd, text(layers(many, odd)), text(layers(many, None)))
    difference = re.search(rf"in: {FIELD}: (.+) -> (.+)", told)
    places = [re.search(r"\[(\d+)-(\d+) [0-9a-f]{8}\]", one) for one in difference.groups()]
    at = json.dumps(layers(many, None), separators=(",", ":")).index(f"layers.{odd}.")
    assert all(int(place[1]) <= at < int(place[2]) for place in places), told
