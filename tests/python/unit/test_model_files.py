"""The files of a model that count: all but the known exceptions, by format and by kind."""

import fnmatch
import json
import os

import pytest

from larder import model_files
from larder.folders import TooManyFiles
from larder.model_files import HARMLESS, files_below

# Folder like a hub repository. True: counts in format auto.
REPOSITORY = {
    "config.json": True,
    "model-00001-of-00002.safetensors": True,
    "model-00002-of-00002.safetensors": True,
    "model.safetensors.index.json": True,
    "preprocessor_config.json": True,
    "processor_config.json": True,
    "video_preprocessor_config.json": True,
    "hf_quant_config.json": True,
    "quantize_config.json": True,
    "tekken.json": True,
    "params.json": True,
    "modeling_mine.py": True,
    "code/layers.py": True,
    "sparse_linear.pt": True,
    "2_Dense/model.safetensors": True,
    "2_Dense/pytorch_model.bin": True,
    "audio_tokenizer/weights.bin": True,
    "something.new": True,
    "tokenizer.json": False,
    "tokenizer_config.json": False,
    "vocab.json": False,
    "merges.txt": False,
    "chat_template.jinja": False,
    "generation_config.json": False,
    "README.md": False,
    "LICENSE": False,
    ".gitattributes": False,
    ".git/index": False,
    ".cache/huggingface/download/config.json.metadata": False,
    "__pycache__/modeling_mine.cpython-311.pyc": False,
    "assets/figure.png": False,
    "pytorch_model-00001-of-00001.bin": False,
    "consolidated.00.pth": False,
    "optimizer.pt": False,
    "tf_model.h5": False,
    "onnx/model.onnx_data": False,
    "original/consolidated.00.pth": False,
    "checkpoint-500/model.safetensors": False,
    "model-q4.gguf": False,
}


def write(folder, names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def names(folder, load_format="auto", **kwargs):
    return sorted(files_below(str(folder), load_format, **kwargs))


def test_a_repository_in_format_auto(tmp_path):
    write(tmp_path, REPOSITORY)
    assert names(tmp_path) == sorted(name for name, counts in REPOSITORY.items() if counts)


def test_all_weights_count_where_the_models_class_or_format_is_not_known(tmp_path):
    write(tmp_path, REPOSITORY)
    more = set(names(tmp_path, None)) - set(names(tmp_path))
    assert more == {
        "pytorch_model-00001-of-00001.bin",
        "consolidated.00.pth",
        "tf_model.h5",
        "onnx/model.onnx_data",
        "original/consolidated.00.pth",
        "checkpoint-500/model.safetensors",
        "model-q4.gguf",
    }


WEIGHTS = ["model.safetensors", "pytorch_model.bin", "consolidated.safetensors", "model.pt"]


@pytest.mark.parametrize(
    "load_format, files, read",
    [
        ("auto", WEIGHTS, ["consolidated.safetensors", "model.pt"]),
        ("auto", ["model.safetensors", "pytorch_model.bin"], ["model.safetensors"]),
        ("auto", ["pytorch_model.bin", "consolidated.00.pth"], ["pytorch_model.bin"]),
        ("hf", WEIGHTS, ["consolidated.safetensors", "model.pt", "model.safetensors"]),
        ("safetensors", WEIGHTS, ["consolidated.safetensors", "model.pt", "model.safetensors"]),
        ("mistral", WEIGHTS, ["consolidated.safetensors", "model.pt"]),
        ("pt", WEIGHTS, ["model.pt"]),
        ("npcache", WEIGHTS, sorted(WEIGHTS)),
    ],
)
def test_the_weights_of_the_chosen_format_count(tmp_path, load_format, files, read):
    """model.pt has no name that others give to the weights of a whole model: always in."""
    write(tmp_path, files)
    assert names(tmp_path, load_format) == read


def test_an_index_selects_the_files(tmp_path):
    write(tmp_path, ["model-1.safetensors", "model-2.safetensors", "consolidated.safetensors"])
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-1.safetensors"}}))
    assert names(tmp_path, "hf") == ["model-1.safetensors", "model.safetensors.index.json"]
    for broken in ("{", "[]", '{"weight_map": 3}', '{"weight_map": {}}'):
        index.write_text(broken)
        assert len(names(tmp_path, "hf")) == 4, broken


def test_files_read_by_vllm_count(tmp_path):
    """vLLM's own choice over every format: a file that vLLM reads is never left out."""
    default_loader = pytest.importorskip("vllm.model_executor.model_loader.default_loader")
    from vllm.config.load import LoadConfig

    for number, files in enumerate(
        [
            WEIGHTS,
            WEIGHTS[:2],
            WEIGHTS[1:2],
            WEIGHTS[2:],
            WEIGHTS[1:],
            ["x.bin", "y.pt"],
            ["x.safetensors"],
        ]
    ):
        folder = tmp_path / str(number)
        write(folder, files)
        for load_format in ("auto", "hf", "safetensors", "mistral", "pt", "npcache"):
            loader = default_loader.DefaultModelLoader(LoadConfig(load_format=load_format))
            try:
                _, read, *_ = loader._prepare_weights(str(folder), None, None, True, None)
            except RuntimeError:  # no weights in this format
                continue
            assert {os.path.basename(path) for path in read} <= set(names(folder, load_format)), (
                files,
                load_format,
            )


def test_no_harmless_kind_is_a_weights_file_or_code():
    for reason, patterns in HARMLESS.items():
        assert reason
        for pattern in patterns.split():
            for name in (
                "model.safetensors",
                "config.json",
                "modeling.py",
                "quantize_config.json",
                "preprocessor_config.json",
            ):
                assert not fnmatch.fnmatchcase(name, pattern), (pattern, name)


def test_only_settings_and_code(tmp_path):
    write(tmp_path, ["config.json", "model.safetensors", "modeling.py", "np/x.npz"])
    assert names(tmp_path, weights=False) == ["config.json", "modeling.py"]


def test_links_are_followed_and_circles_end(tmp_path):
    folder = tmp_path / "model"
    write(tmp_path, ["elsewhere/weights/model.safetensors"])
    folder.mkdir()
    os.symlink(tmp_path / "elsewhere" / "weights", folder / "more")
    os.symlink(folder, folder / "circle")
    os.symlink(tmp_path / "absent", folder / "broken")
    os.mkfifo(folder / "fifo")
    assert names(folder, None) == ["more/model.safetensors"]


def test_a_folder_that_is_no_model_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(model_files, "MOST_FILES", 3)
    write(tmp_path, [f"{number}.json" for number in range(4)])
    with pytest.raises(TooManyFiles, match="more than 3 files"):
        names(tmp_path)
