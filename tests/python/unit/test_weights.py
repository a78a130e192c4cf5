"""Weights identity: equal bytes agree in any place, one changed byte does not, and a file is read
once."""

import dataclasses
import os
import random
import re
import time

import pytest
from safetensors.torch import save_file

from larder import weights, weights_memo
from larder.weights import Source, UnknownWeights, WeightsReader, files_identity, weights_identity

ROWS, COLUMNS, RETRAINED = 1024, 256, 60


def write_model(folder, seed=0, retrained=False):
    """Embeddings and one layer; `retrained`: 60 of 1,024 rows of the embeddings are drawn anew."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    tensors = {
        "embed": torch.rand(ROWS, COLUMNS, generator=generator),
        "layer": torch.rand(64, 64, generator=generator),
    }
    if retrained:
        rows = random.Random("rows").sample(range(3, ROWS), RETRAINED)
        tensors["embed"][rows] = torch.rand(RETRAINED, COLUMNS, generator=generator)
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text('{"model_type": "llama"}')
    return folder


def source(folder, **fields):
    return Source(str(folder), **{"own_class": True, **fields})


def identity(folder, **reading):
    return weights_identity(source(folder), **reading)


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path / "model")


@pytest.fixture
def reads(monkeypatch):
    """Paths of files that were read."""
    paths, real = [], weights.hash_file

    def hash_file(path, *arguments):
        paths.append(os.path.basename(path))
        return real(path, *arguments)

    monkeypatch.setattr(weights, "hash_file", hash_file)
    return paths


def test_a_copy_elsewhere_at_another_time_is_the_same(model, tmp_path):
    copy = write_model(tmp_path / "another name")
    os.utime(copy / "model.safetensors", (1, 1))
    assert identity(copy) == identity(model)
    assert re.fullmatch(r"files 2 bytes \d+ whole [0-9a-f]{32}", identity(model))


# covers F-070
def test_sixty_rows_drawn_anew_are_another_model(model):
    """W5: the same names, sizes and header; the changed rows lie outside of the places that the old
    sampling read."""
    before, size = identity(model), (model / "model.safetensors").stat().st_size
    write_model(model, retrained=True)
    assert (model / "model.safetensors").stat().st_size == size
    assert identity(model) != before


def test_every_byte_counts_and_the_bytes_of_before_are_the_model_of_before(model):
    path = model / "model.safetensors"
    original, before = path.read_bytes(), identity(model)
    for at in random.Random(5).sample(range(len(original)), 20):
        path.write_bytes(original[:at] + bytes([original[at] ^ 1]) + original[at + 1 :])
        assert identity(model) != before, at
    path.write_bytes(original)
    assert identity(model) == before


def test_names_count_and_so_does_which_name_has_which_bytes(model):
    for name, text in (("b.json", "x"), ("a.json", "y")):
        (model / name).write_text(text)
    before = identity(model)
    (model / "a.json").write_text("x")
    (model / "b.json").write_text("y")
    assert identity(model) != before


def test_named_weights_are_taken_at_their_word():
    assert weights_identity(Source("org/nobody"), named="v7") == "named v7"


def test_a_file_of_adapters_is_hashed_whole(model):
    path = model / "model.safetensors"
    before = files_identity([path])
    write_model(model, retrained=True)
    assert files_identity([path]) != before
    with pytest.raises(UnknownWeights, match="again and again"):
        files_identity([model / "absent"])


# ---- the memo


# covers F-068
def test_a_file_is_read_once_and_again_when_it_changed(model, tmp_path, reads, monkeypatch):
    memo = str(tmp_path / "larder.sock.weights")
    monkeypatch.setattr(weights_memo, "_SETTLED_S", 0)
    first = identity(model, memo_path=memo)
    assert sorted(reads) == ["config.json", "model.safetensors"]
    reads.clear()
    assert identity(model, memo_path=memo) == first and reads == []
    write_model(model, retrained=True)
    assert identity(model, memo_path=memo) != first and "model.safetensors" in reads


def test_a_file_that_was_just_written_is_not_remembered(model, tmp_path, reads):
    """The file may be written once more and keep its stamp."""
    memo = str(tmp_path / "memo")
    identity(model, memo_path=memo)
    reads.clear()
    identity(model, memo_path=memo)
    assert sorted(reads) == ["config.json", "model.safetensors"]


# ---- files that change


# covers F-071
def test_a_change_while_it_is_read_is_seen(model, monkeypatch):
    """The folder changes behind the file that was just hashed: the bytes belong to no one state,
    and are read again."""
    real, changes = weights.hash_file, iter([True, False])

    def hash_file(path, *arguments):
        hashed = real(path, *arguments)
        if path.endswith("model.safetensors") and next(changes, False):
            write_model(model, retrained=True)
        return hashed

    monkeypatch.setattr(weights, "hash_file", hash_file)
    monkeypatch.setattr(weights, "_PAUSE_S", 0)
    said = []
    changed = identity(model, say=said.append)
    assert changed == identity(model) and any("reading again" in line for line in said)


# covers F-071
def test_files_that_never_rest_are_unknown(model, monkeypatch):
    real, seeds = weights.hash_file, iter(range(100))

    def hash_file(path, *arguments):
        hashed = real(path, *arguments)
        write_model(model, next(seeds))
        return hashed

    monkeypatch.setattr(weights, "hash_file", hash_file)
    monkeypatch.setattr(weights, "_PAUSE_S", 0)
    with pytest.raises(UnknownWeights, match="change again and again; set weights_id"):
        identity(model)


# covers F-071
def test_files_changed_since_the_engine_loaded_are_refused(model):
    since = time.time() + 0.05
    time.sleep(0.1)
    assert identity(model, loaded_since=since)
    write_model(model, retrained=True)
    with pytest.raises(
        UnknownWeights,
        match=r"/model/(config|model)\..* changed while vLLM was loading, or later.*weights_id",
    ):
        identity(model, loaded_since=since)


# ---- the limit for network file systems


# covers F-072
def test_too_much_beyond_the_page_cache_is_refused_by_name(model, monkeypatch):
    real = weights.hash_file
    monkeypatch.setattr(
        weights, "hash_file", lambda path, stop, limit: real(path, stop, limit, limit_local=True)
    )
    path = str(model / "model.safetensors")
    assert identity(model, uncached_limit=0), "all is in the page cache"
    if not dropped_from_page_cache(path):
        pytest.skip("this file system keeps its pages")
    with pytest.raises(
        UnknownWeights, match="not in the page cache.*1,000 bytes at most.*weights_id"
    ):
        identity(model, uncached_limit=1000)
    assert identity(model, uncached_limit=os.path.getsize(path))


# covers F-072
def test_the_limit_is_for_all_files_together(model, monkeypatch):
    (model / "model-2.safetensors").write_bytes(os.urandom(1 << 20))
    sizes, limits, real = {}, [], weights.hash_file

    def hash_file(path, stop, limit):
        limits.append(limit)
        sizes[path] = os.path.getsize(path)
        return real(path, stop, limit)._replace(uncached=sizes[path])

    monkeypatch.setattr(weights, "hash_file", hash_file)
    identity(model, uncached_limit=10 << 20)
    before = [sum(list(sizes.values())[:count]) for count in range(3)]
    assert limits == [(10 << 20) - bytes_before for bytes_before in before]


def dropped_from_page_cache(path):
    from larder.file_hash import OverLimit, hash_file

    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    try:
        hash_file(path, uncached_limit=0, limit_local=True)
    except OverLimit:
        return True
    return False


# ---- the reader


def answer_of(reader):
    deadline = time.monotonic() + 20
    while (line := reader.poll()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return line


# covers F-068
def test_the_reader_gives_the_identity_and_two_lines(model):
    reader = WeightsReader(source(model))
    assert reader.poll() is None, "not before start()"
    reader.start()
    assert answer_of(reader) == identity(model)
    begin, end = reader.log_lines()
    assert re.fullmatch(
        r"weights of .*model: 2 files, 0\.001 GB; to be read: 2 files, 0\.001 GB", begin
    )
    assert re.fullmatch(r"weights known after \d+\.\d\d s, 0\.001 GB read at \d+\.\d\d GB/s", end)
    assert reader.log_lines() == [] and reader.stop()


def test_the_reader_tells_why_it_does_not_know(tmp_path):
    reader = WeightsReader(Source(str(tmp_path)))
    reader.start()
    with pytest.raises(UnknownWeights, match="has no weights on this machine; set weights_id"):
        answer_of(reader)


def test_a_reader_is_stopped_in_the_middle_of_a_file(tmp_path):
    folder = write_model(tmp_path / "large")
    with open(folder / "model-2.safetensors", "wb") as file:
        file.truncate(256 << 30)  # a hole: a minute's reading at least
    reader = WeightsReader(source(folder))
    reader.start()
    while not reader.log_lines():
        time.sleep(0.01)
    time.sleep(0.1)
    begin = time.monotonic()
    assert reader.stop(wait_s=10)
    assert time.monotonic() - begin < 5
    with pytest.raises(UnknownWeights, match="stopped"):
        reader.poll()


def test_an_error_that_is_not_foreseen_is_an_answer_too(model, monkeypatch):
    monkeypatch.setattr(weights, "_read_once", lambda *_: 1 / 0)
    reader = WeightsReader(source(model))
    reader.start()
    with pytest.raises(UnknownWeights, match="ZeroDivisionError.*weights_id"):
        answer_of(reader)


def test_the_lines_of_a_dummy_and_of_its_device_differ(model):
    lines = {
        weights_identity(source(model, load_format="dummy", dummy=dummy))
        for dummy in ("seed 1 device cpu", "seed 2 device cpu")
    }
    assert len(lines) == 2 and all(line.startswith("dummy seed ") for line in lines)
    assert weights_identity(
        dataclasses.replace(source(model), load_format="dummy", dummy="x")
    ) != identity(model)
