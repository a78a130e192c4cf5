"""Where the weights of each load format are, and which cannot be known."""

import os

import pytest

from larder.weights import Source, UnknownWeights, weights_identity
from larder.weights_source import files_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHA256 = "ab" * 32


def write(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


def names(model, **fields):
    return [name for name, _ in files_of(Source(str(model), **{"own_class": True, **fields}))]


@pytest.fixture
def model(tmp_path):
    return write(tmp_path / "model", "config.json", "model.safetensors", "pytorch_model.bin")


@pytest.mark.parametrize(
    "load_format", ["auto", "hf", "safetensors", "fastsafetensors", "instanttensor"]
)
def test_formats_of_the_default_loader(model, load_format):
    assert names(model, load_format=load_format) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize(
    "load_format",
    ["sharded_state", "runai_streamer", "runai_streamer_sharded", "bitsandbytes", "gguf"],
)
def test_formats_that_have_rules_of_their_own_count_the_whole_folder(model, load_format):
    assert names(model, load_format=load_format) == [
        "config.json",
        "model.safetensors",
        "pytorch_model.bin",
    ]


@pytest.mark.parametrize(
    "fields, why",
    [
        ({"load_format": "my_plugin"}, "loader that Larder does not know"),
        ({"load_format": "modelexpress"}, "another process"),
        ({"load_format": "ipc_cache"}, "weight cache daemon"),
        ({"load_format": "dummy", "quantization": "awq"}, "memory that was never written"),
        (
            {
                "load_format": "sharded_state",
                "loader_options": {"pattern": "../other-{rank}-{part}"},
            },
            "leads out",
        ),
        (
            {"load_format": "sharded_state", "loader_options": {"pattern": "/other-{rank}-{part}"}},
            "leads out",
        ),
        (
            {
                "load_format": "tensorizer",
                "loader_options": {"tensorizer_config": {"tensorizer_uri": "s3://b/m"}},
            },
            "object store",
        ),
        (
            {"load_format": "tensorizer", "loader_options": {"tensorizer_uri": "/absent/m"}},
            "are not there",
        ),
    ],
)
# covers F-069
def test_unknown_weights_name_the_setting_weights_id(model, fields, why):
    with pytest.raises(UnknownWeights, match=f"{why}.*set weights_id"):
        names(model, **fields)
    assert weights_identity(Source(str(model), **fields), named="v1") == "named v1"


@pytest.mark.parametrize("uri", ["s3://bucket/model", "gs://bucket/model", "az://container/model"])
def test_object_stores_cannot_be_known(uri):
    with pytest.raises(UnknownWeights, match="object store"):
        names(uri, load_format="runai_streamer")


def test_a_folder_without_weights_is_unknown_but_for_dummy_ones(tmp_path):
    folder = write(tmp_path / "model", "config.json")
    with pytest.raises(UnknownWeights, match="has no weights on this machine"):
        names(folder)
    assert names(folder, load_format="dummy") == ["config.json"]


def test_tensorizers_files_of_all_ranks_count_and_the_models_weights_do_not(model, tmp_path):
    write(tmp_path / "t", "model-rank-000.tensors", "model-rank-001.tensors", "other")
    options = {
        "tensorizer_config": {"tensorizer_uri": str(tmp_path / "t" / "model-rank-%03d.tensors")}
    }
    found = names(model, load_format="tensorizer", loader_options=options)
    assert found == [
        "config.json",
        "tensorizer/model-rank-000.tensors",
        "tensorizer/model-rank-001.tensors",
    ]


def test_a_gguf_file_with_its_parts_and_its_tower(tmp_path):
    write(
        tmp_path,
        "m-Q4-00001-of-00002.gguf",
        "m-Q4-00002-of-00002.gguf",
        "m-Q8-00001-of-00002.gguf",
        "mmproj-F16.gguf",
    )
    assert names(tmp_path / "m-Q4-00001-of-00002.gguf", load_format="gguf") == [
        "m-Q4-00001-of-00002.gguf",
        "m-Q4-00002-of-00002.gguf",
        "mmproj-F16.gguf",
    ]


def test_others_count_with_names_of_their_own(model, tmp_path):
    code = write(tmp_path / "code", "modeling.py", "model.safetensors")
    others = (Source(str(code), weights=False), Source("org/absent", weights=False, optional=True))
    assert names(model, others=others) == ["0:modeling.py", "config.json", "model.safetensors"]
    with pytest.raises(UnknownWeights, match="org/absent"):
        names(model, others=(Source("org/absent"),))


# ---- the hub's cache


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A cache laid out by huggingface_hub: large files by SHA-256, small ones by Git's hash."""
    cache = tmp_path / "hub"
    repository = cache / "models--org--name"
    snapshot = repository / "snapshots" / COMMIT
    write(repository, f"blobs/{SHA256}", f"blobs/{COMMIT}", "refs/main")
    (repository / "refs" / "main").write_text(COMMIT)
    snapshot.mkdir(parents=True)
    os.symlink(f"../../blobs/{SHA256}", snapshot / "model.safetensors")
    os.symlink(f"../../blobs/{COMMIT}", snapshot / "config.json")
    return cache


def hub_source(cache, **fields):
    return Source("org/name", download_dir=str(cache), **fields)


def test_the_files_of_a_cached_commit_are_found_by_name(hub):
    for revision in (None, "main", COMMIT):
        assert [name for name, _ in files_of(hub_source(hub, revision=revision))] == [
            "config.json",
            "model.safetensors",
        ]
    with pytest.raises(UnknownWeights, match="neither local files nor a cached hub commit"):
        files_of(hub_source(hub, revision="f" * 40))


def test_the_sha256_of_a_blob_counts_as_it_is(hub, monkeypatch):
    from larder import weights

    read, real = [], weights.hash_file
    monkeypatch.setattr(
        weights,
        "hash_file",
        lambda path, *arguments: (read.append(path), real(path, *arguments))[1],
    )
    by_name = weights_identity(hub_source(hub))
    assert [os.path.basename(path) for path in read] == ["config.json"]
    snapshot = str(hub / "models--org--name" / "snapshots" / COMMIT)
    assert weights_identity(Source(snapshot)) == by_name, "vLLM offline names the folder"
    blobs = hub / "models--org--name" / "blobs"
    os.rename(blobs / SHA256, blobs / ("cd" * 32))
    os.unlink(os.path.join(snapshot, "model.safetensors"))
    os.symlink(f"../../blobs/{'cd' * 32}", os.path.join(snapshot, "model.safetensors"))
    assert weights_identity(hub_source(hub)) != by_name


def test_files_downloaded_by_this_start_are_not_refused(hub):
    assert weights_identity(hub_source(hub), loaded_since=0) == weights_identity(hub_source(hub))


def test_modelscope_is_unknown(monkeypatch):
    monkeypatch.setenv("VLLM_USE_MODELSCOPE", "True")
    with pytest.raises(UnknownWeights, match="ModelScope"):
        names("org/name")


def lines(folder, *formats, **fields):
    return {weights_identity(Source(str(folder), load_format=one, **fields)) for one in formats}


@pytest.mark.parametrize("own_class", [True, False])
def test_formats_that_read_other_files_of_one_folder_are_other_weights(tmp_path, own_class):
    """Files of two models with names that every format reads."""
    folder = write(
        tmp_path / "m",
        "config.json",
        "one.safetensors",
        "two.pt",
        "model-rank-0-part-0.safetensors",
    )
    formats = ("safetensors", "pt", "sharded_state", "npcache")
    assert len(lines(folder, *formats, own_class=own_class)) == len(formats)
    usual = ("auto", "hf", "safetensors", "fastsafetensors", "instanttensor")
    assert len(lines(folder, *usual, own_class=own_class)) == 1


def test_of_another_class_auto_may_choose_mistrals_files(tmp_path):
    folder = write(tmp_path / "m", "config.json", "model.safetensors", "consolidated.safetensors")
    assert len(lines(folder, "auto", "hf", own_class=False)) == 2
