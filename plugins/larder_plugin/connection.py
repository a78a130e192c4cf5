"""Connection: the socket to larderd, as soon as larderd listens."""

import errno
import os
import socket
import stat
import time

_RETRY_S = 0.2
_WAITS_FOR = (FileNotFoundError, ConnectionRefusedError, BlockingIOError)


class Refused(Exception):
    """The socket cannot be used; the text names the remedy."""


def connect(name, path):
    """A connected socket. Raises Refused. `name` says once that larderd does not listen yet."""
    told = False
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(path)
            return connection
        except _WAITS_FOR:
            connection.close()
        except OSError as error:
            connection.close()
            raise Refused(_why(path, error)) from error
        if not told:
            print(f"{name}: waiting: no larderd listens at {path} yet", flush=True)
            told = True
        time.sleep(_RETRY_S)


def _why(path, error):
    if isinstance(error, PermissionError):
        return f"connect to {path}: permission denied: {_users(path)}"
    if error.errno == errno.EPROTOTYPE:
        return f"connect to {path}: another kind of socket; --socket is larderd's plugin_socket"
    return f"connect to {path}: {error.strerror or error}"


def _users(path):
    """The users of both sides: in a pod neither side can look at the other."""
    own = f"this plug-in runs as uid {os.geteuid()}, gid {os.getegid()}"
    try:
        found = os.stat(path)
    except OSError:
        return f"{own} and may not look into the socket's directory"
    mode = stat.S_IMODE(found.st_mode)
    return (
        f"{own}; larderd's socket is for uid {found.st_uid} and the group {found.st_gid} (mode "
        f"{mode:04o}). Run the plug-in as that user or with that group, or set larderd's "
        "socket_mode (0666: every user)"
    )
