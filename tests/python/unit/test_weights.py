"""Weights identity: equal bytes agree wherever they lie, one changed tensor does not."""

import json
import struct

import pytest

from larder.weights import UnknownWeights, weights_identity

TENSORS = {"a.weight": 1 << 16, "b.bias": 40, "c.norm": 2048}


def write_safetensors(path, fill=b"\x01", changed=None, metadata=None):
    """A file with TENSORS; `changed` names one whose second half differs."""
    header, offset, body = {}, 0, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, size in TENSORS.items():
        header[name] = {"dtype": "BF16", "shape": [size // 2], "data_offsets": [offset, offset + size]}
        half = size // 2
        body += fill * half + (b"\x77" if name == changed else fill) * (size - half)
        offset += size
    encoded = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + body)


def identity(folder, **kwargs):
    return weights_identity(str(folder), **kwargs)


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    write_safetensors(folder / "model.safetensors")
    return folder


def test_a_copy_elsewhere_is_the_same(model, tmp_path):
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    write_safetensors(copy / "model.safetensors")
    assert identity(copy) == identity(model)


@pytest.mark.parametrize("tensor", TENSORS)
def test_one_tensor_changed_in_place_is_another_model(model, tensor):
    before = identity(model)
    write_safetensors(model / "model.safetensors", changed=tensor)
    assert identity(model) != before


def test_header_file_name_and_file_count_count(model):
    before = identity(model)
    write_safetensors(model / "model.safetensors", metadata={"format": "pt"})
    assert identity(model) != before
    write_safetensors(model / "model.safetensors")
    assert identity(model) == before
    write_safetensors(model / "model-2.safetensors")
    assert identity(model) != before


def test_what_is_no_safetensors_file_is_sampled_whole(model):
    (model / "model.safetensors").write_bytes(b"\xff" * 5000)
    before = identity(model)
    (model / "model.safetensors").write_bytes(b"\xff" * 4999 + b"\x00")
    assert identity(model) != before


def test_other_formats_are_found(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"1" * 100)
    assert identity(tmp_path).startswith("files 1 bytes 100 ")


def test_a_hub_commit_names_itself_and_a_name_alone_does_not():
    commit = "0123456789abcdef0123456789abcdef01234567"
    assert weights_identity("org/model", commit) == f"hub org/model@{commit}"
    with pytest.raises(UnknownWeights, match="weights_id"):
        weights_identity("org/model-that-nobody-has", "main")


def test_dummy_and_named_weights():
    assert weights_identity("x", load_format="dummy", seed=3) == "dummy seed 3"
    assert weights_identity("x", named="v7") == "named v7"
