"""The text of a fingerprint: its digest covers all, its lines name what was set, and its length has a bound."""

from larder import fingerprint

FACTS = fingerprint.facts_text({"engine": "vllm", "chunk_tokens": 128, "layers": ["0 Full", "1 Window"]})
FIELDS = {"model.hidden": 256, "model.rope": {"theta": 1e4}, "cache.kind": None}


def text(fields, shown=None):
    return fingerprint.text(FACTS, fields, set(fields) if shown is None else shown)


def test_facts_come_first_and_a_list_has_a_line_for_each_entry():
    assert text(FIELDS).startswith("engine: vllm\nchunk_tokens: 128\nlayers.0: 0 Full\nlayers.1: 1 Window\n")


def test_each_field_alone_changes_the_text_by_its_own_line_and_the_digest():
    for path in FIELDS:
        other = {**FIELDS, path: "other"}
        assert fingerprint.differing_fields(text(FIELDS), text(other)) == ["configuration", path]


def test_a_field_without_a_line_changes_the_digest():
    assert fingerprint.differing_fields(text(FIELDS, set()), text({**FIELDS, "model.hidden": 1}, set())) == ["configuration"]


def test_a_field_more_changes_the_digest():
    assert text(FIELDS, set()) != text({**FIELDS, "new": None}, set())


def test_equal_fields_give_equal_text_in_any_order():
    assert text(dict(reversed(FIELDS.items()))) == text(FIELDS)


def test_neither_a_value_nor_a_name_can_forge_a_line():
    forged = text({"a\nweights: forged": "b\nweights: forged"})
    assert [line for line in forged.splitlines() if line.startswith("weights")] == []


def test_a_long_value_is_shortened_and_still_tells_two_apart():
    one, other = (text({"overrides": "x" * 100_000 + end}) for end in "ab")
    assert max(len(one), len(other)) < 2000
    assert fingerprint.differing_fields(one, other) == ["configuration", "overrides"]


def test_the_length_has_a_bound_whatever_a_user_writes():
    """49,152 bytes is the protocol's limit. A quantization_config names every layer that it leaves out."""
    long = {f"ignored_layers.{i}": "v" * 300 for i in range(10_000)}
    one = text(long)
    assert len(one.encode()) <= fingerprint.MAX_BYTES
    changed = fingerprint.differing_fields(one, text({**long, "ignored_layers.9999": "w"}))
    assert changed == ["configuration", "further_fields"]
    assert len(text({"ä" * 30_000: "ö" * 30_000}).encode()) <= fingerprint.MAX_BYTES
