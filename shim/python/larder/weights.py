"""Identity of a model's weights: a digest over the whole content of every file that decides the
weights.

A name identifies no weights (every model that KServe serves is /mnt/models, and a fine-tune is
often written over its base). The identity does not depend on the place or the times of the files,
so copies agree. A digest is remembered by the state of its file (weights_memo). A file of the hub's
cache is known by its SHA-256, which is its name there."""

import hashlib
import json
import os
import re
import threading
import time

from larder.changed_since import changed_since
from larder.file_hash import FileChanged, OverLimit, Stop, Stopped, hash_file, stamp_of
from larder.weights_memo import Memo
from larder.weights_source import Source, UnknownWeights, files_of, reads_as_usual

__all__ = ["Source", "UnknownWeights", "WeightsReader", "files_identity", "weights_identity"]

# Of files on a network file system: bytes that the page cache does not hold are read again from
# the network, up to here.
UNCACHED_LIMIT_BYTES = 4 << 30
_ROUNDS = 3  # for files that change while they are read
_PAUSE_S = 0.5
_BLOB = re.compile(r"/models--[^/]+/blobs/([0-9a-f]{64})$")


def weights_identity(source, named=None, **reading):
    """One line, equal for equal weights. `named` (weights_id) is taken at its word. `reading`:
    arguments of files_identity(). Blocks while files are read. UnknownWeights; Stopped."""
    if named:
        return f"named {named}"
    try:
        line = _identity(lambda: files_of(source), source.model, **reading)
    except OSError as error:
        raise UnknownWeights(f"the weights of {source.model} cannot be read: {error}") from None
    if source.load_format == "dummy":
        return f"dummy {source.dummy} {line}"
    return line if reads_as_usual(source) else f"format {source.load_format} {line}"


def files_identity(paths, **reading):
    """The same of a list of files, known by their names without folders. OSError where one cannot
    be read; UnknownWeights.

    memo_path: a file that remembers digests (Memo). stop: a Stop. say(line): is told of the
    progress. loaded_since: when the engine began to load the files at the earliest, in seconds
    since the epoch; files that changed later are refused. uncached_limit: bytes."""
    files = sorted((os.path.basename(path), path) for path in paths)
    return _identity(lambda: files, os.path.dirname(files[0][1]) if files else "nothing", **reading)


class WeightsReader:
    """Finds the identity of a model's weights on a daemon thread of its own, of low priority. Owned
    by the thread that made the object."""

    def __init__(self, source, named=None, **reading):
        """Arguments of weights_identity() but for stop and say."""
        self._stop, self._lines, self._answer = Stop(), [], None
        arguments = {**reading, "stop": self._stop, "say": self._lines.append}
        self._thread = threading.Thread(
            target=self._run, args=(source, named, arguments), name="larder-weights", daemon=True
        )

    def start(self):
        self._thread.start()

    def poll(self):
        """The identity, or None while unknown. UnknownWeights: there will be no identity. Never
        waits."""
        if self._answer is None:
            return None
        line, error = self._answer
        if error is not None:
            raise error
        return line

    def log_lines(self):
        """Lines for the engine's log since the last call."""
        return [self._lines.pop(0) for _ in range(len(self._lines))]

    def stop(self, wait_s=1.0):
        """Ends the thread; poll() raises UnknownWeights then, unless the identity was found. False:
        the thread sits in a read of a file system that does not answer, and ends with the read or
        with the process."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(wait_s)
        return not self._thread.is_alive()

    def _run(self, source, named, arguments):
        try:
            # Of this thread alone: the engine comes first.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        except OSError:
            pass
        try:
            self._answer = (weights_identity(source, named, **arguments), None)
        except UnknownWeights as error:
            self._answer = (None, error)
        except Stopped:
            self._answer = (None, UnknownWeights("reading the weights was stopped"))
        except Exception as error:  # the engine goes on without the cache
            self._answer = (None, UnknownWeights(f"reading the weights failed: {error!r}"))


def _identity(
    files_now,
    where,
    memo_path=None,
    stop=None,
    say=None,
    loaded_since=None,
    uncached_limit=UNCACHED_LIMIT_BYTES,
):
    memo, stop, say = Memo(memo_path), stop or Stop(), say or (lambda line: None)
    budget = [uncached_limit]
    for attempt in range(_ROUNDS):
        if attempt:
            time.sleep(_PAUSE_S)
        try:
            line = _read_once(files_now, where, memo, stop, say, loaded_since, budget)
        except (FileChanged, FileNotFoundError) as error:
            say(f"{error}: reading again")
            continue
        except OverLimit as error:
            raise UnknownWeights(
                f"{error}, and the bytes are not on a local disk: "
                f"{uncached_limit:,} bytes at most are read again over a network"
            ) from None
        return line
    raise UnknownWeights(f"files of {where} change again and again")


def _read_once(files_now, where, memo, stop, say, loaded_since, budget):
    """The identity, if the files were the same before and after. FileChanged if not."""
    files = files_now()
    stamps = {path: stamp_of(path) for _, path in files}
    _check_age(stamps, loaded_since)
    known = {path: _known(path, stamp, memo) for path, stamp in stamps.items()}
    unknown = [path for path, digest in known.items() if digest is None]
    say(_plan(where, stamps, unknown))
    begin = time.monotonic()
    for path in unknown:
        hashed = hash_file(path, stop, budget[0])
        budget[0] -= hashed.uncached
        if hashed.stamp != stamps[path]:
            raise FileChanged(f"{path} changed")
        memo.put(hashed.stamp, hashed.digest)
        known[path] = f"xxh3 {hashed.digest}"
    _check_age(stamps, loaded_since)
    if files_now() != files or any(stamp_of(path) != stamp for path, stamp in stamps.items()):
        raise FileChanged(f"the folder of {where} changed")
    say(_summary(stamps, unknown, time.monotonic() - begin))
    parts = [json.dumps([name, stamps[path].size, known[path]]) for name, path in files]
    total = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
    return f"files {len(files)} bytes {sum(stamp.size for stamp in stamps.values())} whole {total}"


def _check_age(stamps, loaded_since):
    changed = loaded_since is not None and changed_since(stamps, loaded_since)
    if changed:
        raise UnknownWeights(
            f"{changed} changed while vLLM was loading, or later: "
            "the engine's weights are not known"
        )


def _known(path, stamp, memo):
    """The digest in the form of the identity, without reading the file; None: the file must be
    read."""
    blob = _BLOB.search(os.path.realpath(path))
    if blob:
        return f"sha256 {blob[1]}"
    digest = memo.get(stamp)
    return digest and f"xxh3 {digest}"


def _plan(where, stamps, unknown):
    total = sum(stamp.size for stamp in stamps.values())
    to_read = sum(stamps[path].size for path in unknown)
    have, need = f"{len(stamps)} files, {_gb(total)}", f"{len(unknown)} files, {_gb(to_read)}"
    return f"weights of {where}: {have}; to be read: {need}"


def _summary(stamps, unknown, seconds):
    read = sum(stamps[path].size for path in unknown)
    speed = read / max(seconds, 1e-9) / 1e9
    return f"weights known after {seconds:.2f} s, {_gb(read)} read at {speed:.2f} GB/s"


def _gb(size_bytes):
    return f"{size_bytes / 1e9:.3f} GB"
