"""The code of a package by its content, found without an import."""

import base64
import hashlib
import os
import sys
import zipfile

import pytest

from larder import folders, package_files
from larder.package_files import digest_of


@pytest.fixture(autouse=True)
def anew():
    package_files.forget()
    yield
    package_files.forget()


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of sys.path with a package, a single module and a namespace of packages. Each ends
    the process that imports it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in (
        "a_package/__init__.py",
        "a_package/ops.py",
        "a_package/__pycache__/ops.pyc",
        "a_package/.hidden",
        "a_module.py",
        "a_space/inner/__init__.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("raise SystemExit\n")
    return tmp_path


def digests(module="a_package.ops"):
    package_files.forget()
    return digest_of(module).digest


# covers F-352
def test_each_file_of_the_package_counts_and_nothing_is_imported(site):
    before = digests()
    assert digest_of("a_package.ops")[::2] == ("a_package", 2)
    assert digests("a_package") == digests("a_package.other.Class") == before
    for name in ("ops.py", "more.json"):
        (site / "a_package" / name).write_text("raise SystemError")
        assert digests() != before
        before = digests()
    os.rename(site / "a_package" / "ops.py", site / "a_package" / "opt.py")
    assert digests() != before
    assert not {"a_package", "a_module", "a_space"} & set(sys.modules)


def test_byte_code_hidden_files_and_the_place_do_not_count(site, tmp_path_factory, monkeypatch):
    before = digests()
    (site / "a_package" / "__pycache__" / "more.pyc").write_text("x")
    (site / "a_package" / ".hidden").write_text("y")
    (site / "a_package" / "README.md").write_text("z")
    os.utime(site / "a_package" / "ops.py", (1, 1))
    assert digests() == before
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    os.rename(site / "a_package", elsewhere / "a_package")
    monkeypatch.syspath_prepend(str(elsewhere))
    assert digests() == before


def test_a_single_module_and_a_package_inside_a_namespace(site):
    assert digest_of("a_module.Class")[::2] == ("a_module", 1)
    assert digest_of("a_space.inner.x.Class")[::2] == ("a_space.inner", 1)
    assert digest_of("a_space") is digest_of("no_such_module") is digest_of("no name") is None
    assert digest_of("sys") is None and digest_of("__main__") is not None


def test_a_finder_that_fails_is_passed_over(site, monkeypatch):
    class Failing:
        def find_spec(self, name, path, target=None):
            raise ImportError(name)

    monkeypatch.setattr(sys, "meta_path", [Failing(), object(), *sys.meta_path])
    assert digest_of("a_package").files == 2


def record(site, content=b"abc"):
    """A RECORD of the compiled file of the package."""
    compiled = site / "a_package" / "_C.abi3.so"
    compiled.write_bytes(content)
    sha256 = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    rows = [f"a_package/_C.abi3.so,sha256={sha256},{len(content)}"]
    folder = site / "a_package-1.0.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "RECORD").write_text("\n".join([*rows, "a_package-1.0.dist-info/RECORD,,", ""]))
    return folder / "RECORD"


def test_a_compiled_file_counts_by_its_record_and_is_not_read(site):
    record(site)
    before = digests()
    assert digest_of("a_package").files == 3 and digest_of("a_package").read == 2
    record(site, b"abd")
    assert digests() != before, "of equal size, with another digest in RECORD"


# covers F-352
def test_a_source_that_was_patched_after_the_installation_counts(site):
    record(site)
    before, ops = digests(), site / "a_package" / "ops.py"
    ops.write_text("raise SystemExot\n")
    os.utime(ops, (1, 1))  # as `cp -p` and an image's COPY leave the time
    assert digests() != before


@pytest.mark.parametrize(
    "row",
    [
        "a_package/_C.abi3.so,md5=x,3",
        "a_package/_C.abi3.so,sha256=!,3",
        "a_package/_C.abi3.so,,",
        "a,b",
    ],
)
def test_a_row_that_says_nothing_is_no_row(site, row):
    path = record(site)
    path.write_text(f"{row}\n")
    before = digests()
    assert digest_of("a_package").read == 3
    path.unlink()
    assert digests() == before


def test_two_records_of_one_file_are_none(site):
    record(site)
    os.rename(site / "a_package-1.0.dist-info", site / "a_package-0.9.dist-info")
    record(site)
    digests()
    assert digest_of("a_package").read == 3


# covers F-352
def test_byte_code_without_a_source_counts(site):
    before = digests()
    (site / "a_package" / "closed.pyc").write_bytes(b"code")
    assert digests() != before


# covers F-352
def test_code_behind_a_link_counts(site, tmp_path_factory):
    inner = tmp_path_factory.mktemp("inner")
    (inner / "ops.py").write_text("raise SystemExit\n")
    (site / "a_package" / "linked").symlink_to(inner)
    (site / "a_package" / "circle").symlink_to(site / "a_package")
    before = digests()
    (inner / "ops.py").write_text("raise SystemError\n")
    assert digests() != before


def test_a_folder_counts_under_each_of_its_names(site):
    inner = site / "a_package" / "inner"
    inner.mkdir()
    (inner / "ops.py").write_text("raise SystemExit\n")
    before = digests()
    (site / "a_package" / "again").symlink_to(inner)
    assert digests() != before and digest_of("a_package").files == 4


# covers F-351
def test_a_package_inside_an_archive_is_refused(site, monkeypatch):
    with zipfile.ZipFile(site / "a.zip", "w") as archive:
        archive.writestr("zipped/__init__.py", "raise SystemExit\n")
    monkeypatch.syspath_prepend(str(site / "a.zip"))
    with pytest.raises(OSError, match="zipped|a.zip"):
        digests("zipped")


def test_compiled_code_without_a_record_counts_by_its_size(site):
    compiled = site / "a_package" / "_C.abi3.so"
    compiled.write_bytes(b"abc")
    before = digests()
    compiled.write_bytes(b"abd")
    assert digests() == before
    compiled.write_bytes(b"abcd")
    assert digests() != before


def test_a_folder_of_too_many_files_is_refused(site, monkeypatch):
    monkeypatch.setattr(package_files, "MOST_FILES", 1)
    with pytest.raises(folders.TooManyFiles, match="more than 1 files"):
        digests()


# covers F-410
def test_a_word_in_the_files_of_a_module(site):
    """A module of a package is one file, or a folder of files."""
    mentions = package_files.mentions
    assert [mentions(f"a_package{inside}", b"systemexit") for inside in ("", ".ops")] == [True] * 2
    assert not mentions("a_package.ops", b"tokenizer") and not mentions("a_package", b"tokenizer")
    (site / "a_package" / "deep").mkdir()
    (site / "a_package" / "deep" / "one.py").write_text("AutoTokenizer")
    package_files.forget()
    assert not mentions("a_package.ops", b"tokenizer") and mentions("a_package", b"tokenizer")
    assert mentions("a_package.deep", b"tokenizer")
    assert mentions("a_package.other", b"tokenizer") and mentions("nowhere.x", b"x"), "not known"
