"""Whether a path may lead to other bytes than before: a file written, or put in its place."""

import os
import time

import pytest

from larder.changed_since import changed_since


@pytest.fixture
def model(tmp_path):
    """models/v1 and models/v2, and a link models/current to the first."""
    for version in ("v1", "v2"):
        folder = tmp_path / "models" / version
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_text("same size")
    os.symlink("v1", tmp_path / "models" / "current")
    return tmp_path / "models"


def later():
    """A moment behind all writes, by the clock of the file system."""
    time.sleep(0.02)
    now = time.time()
    time.sleep(0.02)
    return now


def test_nothing_changed(model):
    since = later()
    assert changed_since([str(model / "current" / "model.safetensors")], since) is None


def test_all_is_younger_than_the_beginning_of_time(model):
    assert changed_since([str(model / "v1" / "model.safetensors")], 0)


@pytest.mark.parametrize("times", [None, (1, 1)])
def test_a_file_that_was_written_and_whose_mtime_was_put_back(model, times):
    path = str(model / "v1" / "model.safetensors")
    since = later()
    with open(path, "r+") as file:
        file.write("S")
    if times:
        os.utime(path, times)
    assert changed_since([path], since) == path


def test_an_older_file_that_was_renamed_to_the_place(model):
    path = str(model / "v1" / "model.safetensors")
    since = later()
    os.rename(model / "v2" / "model.safetensors", path)
    assert changed_since([path], since) == path


# covers F-071
def test_a_link_that_leads_to_another_folder(model):
    path = str(model / "current" / "model.safetensors")
    since = later()
    os.symlink("v2", model / "new")
    os.rename(model / "new", model / "current")
    assert changed_since([path], since) == str(model / "current")


def test_a_link_behind_a_link(model):
    os.symlink("current", model / "served")
    path = str(model / "served" / "model.safetensors")
    since = later()
    os.unlink(model / "current")
    os.symlink("v2", model / "current")
    assert changed_since([path], since) == str(model / "current")


def test_a_link_that_leads_up_from_where_another_link_leads(model, tmp_path):
    """models/far leads to deep/inner. There up leads to ../weights: to deep/weights."""
    (tmp_path / "deep" / "inner").mkdir(parents=True)
    (tmp_path / "deep" / "weights").mkdir()
    (tmp_path / "deep" / "weights" / "model.safetensors").write_text("x")
    os.symlink("../weights", tmp_path / "deep" / "inner" / "up")
    os.symlink(tmp_path / "deep" / "inner", model / "far")
    for path in ("far/up/model.safetensors", "far/../weights/model.safetensors"):
        path = str(model / path)
        assert os.path.exists(path)
        assert changed_since([path], later()) is None


def test_a_relative_path(model, monkeypatch):
    monkeypatch.chdir(model)
    since = later()
    assert changed_since(["current/model.safetensors"], since) is None
    os.unlink("current")
    os.symlink("v2", "current")
    assert changed_since(["./current/model.safetensors"], since) == str(model / "current")


def test_a_link_that_is_the_file_itself(model):
    os.symlink("../v1/model.safetensors", model / "v2" / "link.safetensors")
    path = str(model / "v2" / "link.safetensors")
    since = later()
    assert changed_since([path], since) is None
    os.unlink(path)
    os.symlink("../v1/model.safetensors", path)
    assert changed_since([path], since) == path


def test_an_older_folder_that_was_renamed_to_the_place(model):
    path = str(model / "v1" / "model.safetensors")
    since = later()
    os.rename(model / "v1", model / "v0")
    os.rename(model / "v2", model / "v1")
    assert changed_since([path], since) == str(model / "v1")


def test_a_neighbour_that_comes_or_goes_is_no_change(model):
    path = str(model / "v1" / "model.safetensors")
    since = later()
    (model / "v1" / "log").write_text("x")
    (model / "v3").mkdir()
    assert changed_since([path], since) is None


def test_a_circle_of_links_ends(tmp_path):
    os.symlink("b", tmp_path / "a")
    os.symlink("a", tmp_path / "b")
    assert changed_since([str(tmp_path / "a" / "model.safetensors")], later())


@pytest.mark.parametrize("place", ["blobs/abc", f"snapshots/{'0' * 40}/model.safetensors"])
def test_files_of_a_hubs_cache_are_written_once(tmp_path, place):
    path = tmp_path / "models--org--name" / place
    path.parent.mkdir(parents=True)
    path.write_text("x")
    assert changed_since([str(path)], 0) is None
