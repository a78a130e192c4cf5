"""Log: lines for this program's standard output, which may be the pipe of a container.

One thread writes, and may wait for the reader of the pipe. The caller of add() never waits: the
queue is bounded, and lines without room are dropped and counted. Thread-safe."""

import collections
import contextlib
import os
import threading

MOST_BYTES = 1 << 20  # of waiting lines


class Log:
    def __init__(self, name, descriptor=1):
        """`name`: the program, in lines of its own. `descriptor` stays open as long as the
        process."""
        self._name, self._descriptor = name, descriptor
        self._changed = threading.Condition()
        self._lines, self._bytes, self._dropped = collections.deque(), 0, 0
        threading.Thread(target=self._write_all, daemon=True).start()

    def add(self, line):
        """Queues bytes with their line end."""
        with self._changed:
            if self._bytes + len(line) > MOST_BYTES:
                self._dropped += 1
                return
            if self._dropped:
                line = f"{self._name}: {self._dropped} log lines are missing here\n".encode() + line
                self._dropped = 0
            self._lines.append(line)
            self._bytes += len(line)
            self._changed.notify_all()

    def flush(self, most_s):
        """Waits until all lines are written, for most_s at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._bytes, most_s)

    def _write_all(self):
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                line = self._lines.popleft()
            left = line
            # A closed pipe or a full disk costs the line.
            with contextlib.suppress(OSError):
                while left:
                    left = left[os.write(self._descriptor, left) :]
            with self._changed:
                self._bytes -= len(line)
                self._dropped += bool(left)
                self._changed.notify_all()
