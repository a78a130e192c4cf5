"""The content of a Python package: a digest over its files, found without an import.

Every file counts by its SHA-256, except for cached byte code, hidden files and texts for people.
Compiled files have MB or GB: each counts by the SHA-256 in the RECORD of its distribution, if the
file has the recorded size and is not younger than RECORD, else by its size. Links are followed. A
package without files, such as one inside a zip archive, is an OSError. Thread-safe; blocks while
files are read.
"""

import base64
import csv
import functools
import hashlib
import os
import re
import sys
import time
from collections import namedtuple

from larder import folders

# digest: 32 hex digits. read: files without a fitting row in RECORD, for tests.
Code = namedtuple("Code", "name digest files read")

MOST_FILES = 50_000
_LEFT_OUT = re.compile(r"\.(md|txt|rst|html|png|jpg|svg)$|^\.", re.IGNORECASE)
_COMPILED = re.compile(r"\.(so|a|o|pyd|dll|dylib|cubin|fatbin|hsaco)(\.|$)", re.IGNORECASE)
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
# pip writes the files of a distribution first, and its RECORD last.
_SLACK_NS = 2 * 10**9


def digest_of(module):
    """Code of the package (or of the single file) that has the module `a.b.c`; None: this process
    would find no source of the module. OSError."""
    if not _DOTTED.fullmatch(str(module)):
        return None
    return _digest(*found) if (found := _place_of(str(module))) else None


@functools.lru_cache(maxsize=64)
def mentions(module, word):
    """Whether a file of that module of a package has the word, in lower case; of a folder of
    modules, any file of the folder. Also True where the files cannot be read."""
    name, place = _place_of(module) or ("", "")
    place = os.path.join(place, *module[len(name) + 1 :].split("."))
    try:
        paths = list(_files_below(place).values()) if os.path.isdir(place) else [f"{place}.py"]
        return any(word in _content(path).lower() for path in paths)
    except OSError:
        return True


def forget():
    """For tests: the files of packages may have changed."""
    _digest.cache_clear()
    mentions.cache_clear()


@functools.lru_cache(maxsize=64)
def _digest(name, place):
    """A process runs the code that it loaded once, so one reading is enough."""
    if os.path.isfile(place):
        return _of_files(name, {os.path.basename(place): place}, {})
    return _of_files(name, _files_below(place), _recorded(name, place))


def _of_files(name, files, recorded):
    lines, read = [], 0
    for inside, path in sorted(files.items()):
        try:
            found = os.stat(path)
        except FileNotFoundError:  # a link that leads nowhere
            continue
        size, sha256, newest_ns = recorded.get(inside, (None, None, 0))
        # A copied source keeps its time, and a change of one character its size: RECORD is believed
        # for compiled files alone.
        compiled = _COMPILED.search(inside)
        if not compiled or size != found.st_size or found.st_mtime_ns > newest_ns:
            sha256 = f"size {found.st_size}" if compiled else _sha256_of(path)
            read += 1
        lines.append(f"{inside} {sha256}")
    if not lines:  # inside a zip archive, or an empty folder
        raise FileNotFoundError(f"the code of {name} is in no file that can be read")
    total = hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()
    return Code(name, total[:32], len(lines), read)


def _place_of(module):
    """(name, folder or file) of the outermost package of the module with files of its own."""
    if module in ("__main__", "__mp_main__"):
        place = getattr(sys.modules.get(module), "__file__", None)
        return ("__main__", os.path.abspath(place)) if place and os.path.isfile(place) else None
    name, path = "", None
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = _spec(name, path)
        if spec is None:
            return None
        if spec.has_location and spec.origin:
            below = spec.submodule_search_locations
            return name, os.path.dirname(spec.origin) if below is not None else spec.origin
        path = spec.submodule_search_locations  # a namespace without files of its own
        if path is None:
            return None
    return None


def _spec(name, path):
    """importlib.util.find_spec() would import the packages above."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        try:
            spec = find(name, path) if find else None
        except (ImportError, AttributeError, ValueError):  # of a finder that a package added
            spec = None
        if spec is not None:
            return spec
    return None


def _files_below(folder):
    return folders.files_below(
        folder,
        lambda name: name != "__pycache__" and not name.startswith("."),
        lambda name: not _LEFT_OUT.search(name),
        MOST_FILES,
    )


def _recorded(name, folder):
    """{path inside the package: (size, sha256, newest mtime)} of the distribution's RECORD; {} for
    an editable one. A path in two RECORDs is in neither."""
    above, found, twice = os.path.dirname(folder), {}, set()
    begin = re.compile(rf"{name.replace('_', '[-_.]')}[-_.\w+!]*\.dist-info", re.IGNORECASE)
    try:
        records = [one for one in os.listdir(above) if begin.fullmatch(one)]
    except OSError:
        return {}
    for record in sorted(records):
        path = os.path.join(above, record, "RECORD")
        try:
            newest_ns = min(os.stat(path).st_mtime_ns + _SLACK_NS, time.time_ns())
            with open(path, newline="", encoding="utf-8") as file:
                rows = [row for row in csv.reader(file) if len(row) == 3]
        except (OSError, ValueError, csv.Error):
            continue
        for inside, digest, size in rows:
            if not inside.startswith(f"{name}/") or not size.isdigit():
                continue
            inside, sha256 = inside[len(name) + 1 :], _hex_of(digest)
            if inside in found:
                twice.add(inside)
            elif sha256:
                found[inside] = int(size), sha256, newest_ns
    return {inside: row for inside, row in found.items() if inside not in twice}


def _hex_of(digest):
    """Of sha256=BASE64, as RECORD has it; None for another algorithm."""
    kind, _, text = digest.partition("=")
    try:
        return base64.urlsafe_b64decode(text + "=").hex() if kind == "sha256" else None
    except ValueError:
        return None


def _sha256_of(path):
    return hashlib.sha256(_content(path)).hexdigest()


def _content(path):
    with open(path, "rb") as file:
        return file.read()
