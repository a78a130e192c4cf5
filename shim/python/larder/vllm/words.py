"""Errors in the words of vLLM's log: the problem and the remedy, without names of C functions and
without numbers.

Pure. All lines of the connector about an exception or the end of a load come from here."""

from larder import _native as native
from larder.client import LarderError

_REPORT = "this is a fault of Larder: please report this line"
_RELEASES = (
    "liblarder.so and the Python package larder do not fit together: install both from one release"
)

# The texts for calls that the library refused without a text.
_REFUSED = {
    native.INVALID_ARGUMENT: _RELEASES,
    native.OUT_OF_RANGE: _RELEASES,
    native.UNSUPPORTED: "this larderd, or this machine, does not serve that",
    native.RESOURCE_EXHAUSTED: (
        "too much work at one time, or the system gives this process no further thread, "
        "memory or file (see ulimit -a)"
    ),
    native.UNAVAILABLE: (
        "no larderd serves this engine now; the engine looks for larderd all the time"
    ),
    native.DEADLINE_EXCEEDED: "larderd did not answer in time",
    native.FAILED_PRECONDITION: (
        "this process was forked from the engine, or a CUDA error has ended its copies"
    ),
    native.PERMISSION_DENIED: "the system forbids this process the operation",
}

# Why a load failed, by the text of its status.
_LOAD_FAILED = {
    "data loss": "bytes do not match their checksum",
    "not found": "a chunk was evicted meanwhile",
    "deadline exceeded": "no thread was free to begin the copy in time",
    "unavailable": "larderd went away, or the engine ends",
    "resource exhausted": "the engine has too many loads at once",
}


def of_error(error):
    """An exception, in one line."""
    if isinstance(error, LarderError):
        return error.why or _REFUSED.get(error.status, f"{error}; {_REPORT}")
    if isinstance(error, OSError) and error.args:
        return str(error)
    return f"{type(error).__name__}: {error}; {_REPORT}"


def of_load(reason):
    """Why a load failed. reason: of larder.client.Completion, or words already."""
    return _LOAD_FAILED.get(reason, reason)


def of_fault(error, where):
    """An exception that Larder did not expect, in its method `where`."""
    if isinstance(error, (LarderError, OSError)):
        return of_error(error)
    return f"unexpected {type(error).__name__} in {where}: {error}; {_REPORT}"
