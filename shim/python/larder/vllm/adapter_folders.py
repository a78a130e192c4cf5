"""The files in adapters' folders, for a thread that must not wait for a mount.

A background thread looks at a folder, once a second at most between two loads of vLLM. An answer
counts for a second, and no longer than until vLLM loads the adapter."""

import time
from collections import OrderedDict

from larder.vllm.adapter_files import FilesUnknown, files_of
from larder.vllm.background_reads import BackgroundReads

KEPT_S = 1.0
_MOST_FOLDERS = 256
_MOST_LOOKS = 4  # at once, in this process
_looks = BackgroundReads(_MOST_LOOKS)


class AdapterFolders:
    """Owned by one thread."""

    def __init__(self, clock=time.monotonic):
        self._clock = clock
        self._reads = OrderedDict()  # by folder: the last look, or None; and its time

    def files(self, folder):
        """(File, ...), empty where the folder has no adapter; None: not known yet. Never waits."""
        read, begun = self._reads.pop(folder, (None, float("-inf")))
        runs = read is not None and read.result is None
        if not runs and self._clock() >= begun + KEPT_S:
            read, begun = _looks.begin(_look, folder), self._clock()
        if read is not None:
            self._reads[folder] = read, begun
        while len(self._reads) > _MOST_FOLDERS:
            self._reads.popitem(last=False)
        return None if read is None else read.result

    def forget(self, folder):
        """vLLM has read the folder. After vLLM has unloaded the adapter, the next load may find
        other files."""
        self._reads.pop(folder, None)

    def wait(self, seconds):
        """Until a look that runs has ended, so long at most."""
        for read, _ in reversed(self._reads.values()):
            if read.result is None:
                read.wait(seconds)
                return


def look(folder, wait_s):
    """The files now; empty also where the folder does not answer in time."""
    read = _looks.begin(_look, folder)
    return () if read is None else read.wait(wait_s) or ()


def _look(folder):
    try:
        return files_of(folder)
    except (FilesUnknown, OSError, ValueError):  # ValueError: no path of a file system
        return ()
