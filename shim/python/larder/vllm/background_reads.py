"""Reads of a file system on threads of their own. A hanging mount holds up one such thread, and no
step of the engine.

Thread-safe. A thread ends with its read. A hanging read ends with the mount's answer or with the
process."""

import threading


class Read:
    """`result`: None while the read runs, then the function's."""

    def __init__(self):
        self.result = None
        self._done = threading.Event()

    def wait(self, seconds):
        """The result, or None after so long."""
        self._done.wait(seconds)
        return self.result

    def end(self, result):
        self.result = result
        self._done.set()


class BackgroundReads:
    """At most `most` reads at a time. A hanging read keeps its place until the read returns."""

    def __init__(self, most):
        self.running = 0
        self._most = most
        self._lock = threading.Lock()

    def begin(self, function, *args):
        """A Read, or None: no thread is free. REQUIRES: the function does not raise, and does not
        return None."""
        with self._lock:
            if self.running >= self._most:
                return None
            self.running += 1
        read = Read()
        try:
            threading.Thread(
                target=self._run, args=(read, function, args), name="larder-adapter", daemon=True
            ).start()
        except RuntimeError:  # the process has reached its limit of threads
            self._leave()
            return None
        return read

    def _run(self, read, function, args):
        try:
            read.end(function(*args))
        finally:
            self._leave()

    def _leave(self):
        with self._lock:
            self.running -= 1
