"""A folder that hangs: a real FUSE mount whose server never answers. Needs /dev/fuse and the right
to mount, and no FUSE library: the kernel's first question stays unanswered."""

import ctypes
import os

_NOSUID, _NODEV = 2, 4
_FORCE, _DETACH = 1, 2
_libc = ctypes.CDLL(None, use_errno=True)


class CannotMount(Exception):
    """This machine or user has no FUSE. The text is the reason."""


class HangingMount:
    """From the call of end() on, every call that hangs fails, and the folder is as before."""

    def __init__(self, folder):
        self._folder, self._server = os.fsencode(folder), -1
        try:
            self._server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise CannotMount(f"/dev/fuse: {error.strerror}") from None
        options = f"fd={self._server},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
        if _libc.mount(b"hang", self._folder, b"fuse", _NOSUID | _NODEV, options.encode()) != 0:
            os.close(self._server)
            self._server = -1
            raise CannotMount(f"mount: {os.strerror(ctypes.get_errno())}")

    def end(self):
        if self._server >= 0:
            _libc.umount2(self._folder, _FORCE | _DETACH)
            os.close(self._server)
            self._server = -1
