"""The text of a fingerprint: the digest covers all fields, the lines name the set fields, and the
length has a bound."""

import json
import os
import re

import pytest

from larder import fingerprint

FACTS = fingerprint.facts_text(
    {"engine": "vllm", "chunk_tokens": 128, "layers": ["0 Full", "1 Window"]}
)
FIELDS = {"model.hidden": 256, "model.rope": {"theta": 1e4}, "cache.kind": None}


def text(fields, shown=None):
    return fingerprint.text(FACTS, fields, set(fields) if shown is None else shown)


def test_facts_come_first_and_a_list_has_a_line_for_each_entry():
    assert text(FIELDS).startswith(
        "engine: vllm\nchunk_tokens: 128\nlayers.0: 0 Full\nlayers.1: 1 Window\n"
    )


def test_each_field_alone_changes_the_text_by_its_own_line_and_the_digest():
    for path in FIELDS:
        other = {**FIELDS, path: "other"}
        assert fingerprint.differing_fields(text(FIELDS), text(other)) == ["configuration", path]


def test_a_field_without_a_line_changes_the_digest():
    assert fingerprint.differing_fields(
        text(FIELDS, set()), text({**FIELDS, "model.hidden": 1}, set())
    ) == ["configuration"]


def test_a_field_more_changes_the_digest():
    assert text(FIELDS, set()) != text({**FIELDS, "new": None}, set())


def test_equal_fields_give_equal_text_in_any_order():
    assert text(dict(reversed(FIELDS.items()))) == text(FIELDS)


def test_neither_a_value_nor_a_name_can_forge_a_line():
    forged = text({"a\nweights: forged": "b\nweights: forged"})
    assert [line for line in forged.splitlines() if line.startswith("weights")] == []


def of_length(length):
    """A list of layers, as in quantization_config and --hf-overrides."""
    layers = (f"model.layers.{number}.mlp.experts.{number % 7}" for number in range(length))
    value, size = [], 0
    for layer in layers:
        if size > length:
            return value
        value.append(layer)
        size += len(layer) + 3


@pytest.mark.parametrize("length", [300, 5000, 30_000])
# covers F-064
def test_a_value_that_has_room_is_whole_however_long_it_is(length):
    value = of_length(length)
    line = next(
        line
        for line in text({"ignored": value, "short": 1}).splitlines()
        if line.startswith("ignored: ")
    )
    assert line.startswith("ignored: " + json.dumps(value, separators=(",", ":")))


# covers F-064
def test_values_that_have_no_room_say_where_they_differ():
    """Begins of all parts of the value are shown, with a digest of the rest of each part."""
    value = of_length(100_000)
    whole = json.dumps(value, separators=(",", ":"))
    for number in (0, 1500, len(value) - 1):
        other = [*value]
        other[number] = "lm_head" + "x" * (len(value[number]) - len("lm_head"))
        at = whole.index(value[number])
        one, two = text({"ignored": value}), text({"ignored": other})
        assert fingerprint.differing_fields(one, two) == ["configuration", "ignored"]
        same = os.path.commonprefix([one[one.index("ignored: ") :], two[two.index("ignored: ") :]])
        cut = re.search(r"\[(\d+)-(\d+) [0-9a-f]*$", same)
        assert (cut and int(cut[1]) <= at < int(cut[2])) or same.endswith(whole[at - 15 : at])


def test_the_engines_log_has_the_begin_of_a_long_line():
    shown = fingerprint.for_log(text({"ignored": of_length(30_000), "short": 1})).splitlines()
    assert "short: 1" in shown and max(map(len, shown)) < 600
    assert any(
        line.startswith('ignored: ["model.layers.0') and line.endswith("...") for line in shown
    )


def test_values_of_other_lengths_are_cut_at_the_same_places():
    value = of_length(100_000)
    one, two = text({"ignored": value}), text({"ignored": [*value, "lm_head"]})
    same = os.path.commonprefix([one[one.index("ignored: ") :], two[two.index("ignored: ") :]])
    assert len(same) > 10_000


def test_a_long_value_ends_with_its_length_and_digest_whether_it_was_cut_or_not():
    """Another field may have taken the room of one of the two."""
    value = of_length(30_000)
    ends = [
        next(line for line in one.splitlines() if line.startswith("ignored: ")).rpartition(" (")[2]
        for one in (text({"ignored": value}), text({"ignored": value, "room": of_length(20_000)}))
    ]
    assert ends[0] == ends[1] and re.fullmatch(r"\d+ characters, [0-9a-f]{32}\)", ends[0])


@pytest.mark.parametrize(
    "path", ["ignored.{}", "ignored.model.layers.{}.weight", "hf.ignored.{}.a.b.c.d"]
)
# covers F-064
def test_two_thousand_fields_of_one_part_are_one_line_and_the_part_is_named(path):
    """A quantization_config may have an entry for each layer."""
    long = {path.format(f"{number:04}"): "v" * 300 for number in range(2000)}
    one, two = (
        text({**long, path.format("0000"): value, "model.hidden": 1})
        for value in ("a" * 300, "b" * 300)
    )
    assert len(one.encode()) <= fingerprint.MAX_BYTES
    (named,) = set(fingerprint.differing_fields(one, two)) - {"configuration"}
    assert named and path.startswith(named)
    differing = [
        dict(line.split(": ", 1) for line in each.splitlines())[named] for each in (one, two)
    ]
    assert "aaaa" in differing[0][:400] and "bbbb" in differing[1][:400]


def test_the_length_has_a_bound_whatever_a_user_writes():
    """49,152 bytes is the protocol's limit."""
    for long in (
        {"ä" * 30_000: "ö" * 30_000},
        {f"one_{number}": "v" * 300 for number in range(2000)},
        {f"{'part' * 100}{number}": "v" * 300 for number in range(300)},
        {f"one_{number}.two_{number}": "\u2028\udcff" * 300 for number in range(2000)},
        {**{f"a.b{number}.c": "v" * 300 for number in range(2000)}, "a": 1, "a.b1": 2, "a.": 3},
    ):
        one, two = text(long), text({**long, max(long): "w"})
        assert len(one.encode()) <= fingerprint.MAX_BYTES
        assert len(fingerprint.differing_fields(one, two)) == 2
