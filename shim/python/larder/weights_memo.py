"""A file that remembers digests of files, so that a restarted engine reads no weights twice.

Line by line: "larder-weights-1 DEVICE INODE SIZE MTIME_NS CTIME_NS DIGEST CHECK". Engines append to
the file without a lock. A line is one write() of at most 200 bytes, and a line with a wrong check
is ignored. A file of more than _MOST lines is written anew with the newer half and renamed. The
file of an engine with another user is written anew with all lines. A line that another engine
appends meanwhile may be lost, which costs one more reading.

A process that may write the folder of larderd's socket is in the pool's trust domain, and so is the
memo. In a folder without write access there is no memo, and no error. Thread-compatible."""

import hashlib
import os
import re
import stat
import time

from larder.file_hash import Stamp

_MOST = 8192  # lines, about 1 MiB
_MOST_BYTES = 4 << 20  # a longer file is not a memo, and is written anew
_MODE = 0o664  # read by engines of all users of the pool
# A young file may change once more and keep its ctime. This happens within the same tick of the
# clock, and through a mapping until the page is written back. Linux writes back after 35 s at the
# latest.
_SETTLED_S = 60
_LINE = re.compile(
    r"larder-weights-1 (\d{1,20}) (\d{1,20}) (\d{1,20}) (-?\d{1,20}) (-?\d{1,20}) "
    r"([0-9a-f]{32}) ([0-9a-f]{16})"
)


class Memo:
    def __init__(self, path):
        """`path`: of the file, or None for no memo."""
        self._path = path
        self._known = {}
        if path:
            self._read()

    def get(self, stamp):
        """The digest of the file in this state, or None."""
        return self._known.get(stamp)

    def put(self, stamp, digest):
        """Remembers the digest, unless the stamp could also stand for another content. Never raises
        OSError."""
        if not self._path or stamp in self._known or not _names_one_content(stamp, time.time()):
            return
        self._known[stamp] = digest
        try:
            if len(self._known) > _MOST or not self._append(_line(stamp, digest)):
                self._write_anew()
        except OSError:
            self._path = None  # a folder of another user, or a full one: go on without the memo

    def _read(self):
        try:
            descriptor = os.open(
                self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            )
            with os.fdopen(descriptor, "rb") as file:
                found = os.fstat(descriptor)
                if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
                    raise OSError("no memo")
                lines = file.read(_MOST_BYTES).decode(errors="replace").splitlines()
        except (FileNotFoundError, PermissionError):
            return
        except OSError:  # a link, something else than a file, or a file that is far too long
            self._start_anew()
            return
        for line in lines:
            self._known.update(_parse(line))
        if len(lines) > _MOST:
            self._start_anew()

    def _start_anew(self):
        try:
            self._write_anew()
        except OSError:
            self._path = None

    def _append(self, line):
        """False where the file is another user's."""
        flags = (
            os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
        try:
            descriptor = os.open(self._path, flags, _MODE)
        except PermissionError:
            return False
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
        return True

    def _write_anew(self):
        """All lines, or the newer half of too many, in a new file that replaces the old one."""
        if len(self._known) > _MOST:
            self._known = dict(list(self._known.items())[-_MOST // 2 :])
        fresh = f"{self._path}.{os.getpid()}"
        descriptor = os.open(
            fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE
        )
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(b"".join(_line(stamp, digest) for stamp, digest in self._known.items()))
            os.rename(fresh, self._path)
        except OSError:
            os.unlink(fresh)
            raise


def _names_one_content(stamp, now_s):
    """False if the same stamp may come back with other bytes: the file was written just now, or its
    ctime is not the kernel's. Images of file systems (SquashFS, ISO 9660) and some FUSE file
    systems give a file the ctime of the build or of the upload, in whole seconds. A new image has
    the old device and inode numbers."""
    return stamp.ctime_ns % 10**9 != 0 and stamp.ctime_ns <= (now_s - _SETTLED_S) * 1e9


def _line(stamp, digest):
    text = f"larder-weights-1 {' '.join(map(str, stamp))} {digest}"
    return f"{text} {_check(text)}\n".encode()


def _check(text):
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _parse(line):
    """{stamp: digest} of a whole line, else {}."""
    found = _LINE.fullmatch(line)
    if not found or _check(line.rsplit(" ", 1)[0]) != found[7]:
        return {}
    return {Stamp(*map(int, found.groups()[:5])): found[6]}
