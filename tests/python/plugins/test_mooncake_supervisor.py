"""The surroundings of larder-mooncake: closed streams, a log that nobody reads, a failure without
end, and a socket that the plug-in may not use."""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading

import pytest
from larderd_side import LarderdSide
from plugin_program import HERE, ROOT, FakeService, children

sys.path.insert(0, str(ROOT / "plugins"))
from larder_plugin import connection, log, supervisor

# Each part writes more than a pipe holds.
LOUD = """
import os
with open("/proc/self/cmdline", "rb") as words:
    if b"--part" in words.read():
        os.write(2, b"larder-mooncake: loud\\n" * 10_000)
"""


@pytest.fixture
def world(tmp_path):
    service = FakeService(tmp_path)
    larderd = LarderdSide(tmp_path / "plugin.sock", f"mooncake://{service.master}", 4 << 20)
    yield tmp_path, service, larderd
    larderd.close()
    service.close()


def started(world, shell="", **streams):
    folder, service, larderd = world
    path = [folder, HERE / "fake_wheel", ROOT / "plugins", ROOT / "plugins" / "mooncake"]
    command = [sys.executable, "-m", "larder_mooncake", "--socket", larderd.path]
    if shell:
        command = ["sh", "-c", f'exec "$@" {shell}', "sh", *command]
    env = dict(os.environ) | service.env | {"PYTHONPATH": ":".join(map(str, path))}
    return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, **streams)


# covers F-434
def test_an_unread_log_holds_no_part(world):
    folder, _, larderd = world
    (folder / "sitecustomize.py").write_text(LOUD)
    unread, pipe = os.pipe()
    program = started(world, stdout=pipe, stderr=pipe)
    os.close(pipe)
    try:
        larderd.accept()
        larderd.wait_state(True)
        program.terminate()
        assert program.wait(10) == 0
    finally:
        program.kill()
        os.close(unread)


# The log of the wheel goes to descriptor 2: no socket may have that number.
# covers F-434
def test_closed_streams_are_opened(world):
    larderd = world[2]
    program = started(world, "<&- >&- 2>&-")
    try:
        larderd.accept()
        larderd.wait_state(True)
        (part,) = children(program.pid)
        opened = [os.readlink(f"/proc/{part}/fd/{number}") for number in range(3)]
        assert not any(name.startswith("socket:") for name in opened), opened
    finally:
        program.terminate()
        program.wait(10)


class Pauses:
    """An event that is set after so many lives; the long pauses are noted."""

    def __init__(self, lives):
        self.left, self.long = lives, []

    def is_set(self):
        return self.left == 0

    def wait(self, seconds):
        if seconds >= supervisor._PAUSE_S:
            self.long.append(seconds)
            self.left -= 1
        return False


class Lines:
    def __init__(self):
        self.added = []

    def add(self, line):
        self.added.append(line.decode())


# covers F-368, F-434
def test_a_failure_that_comes_again_is_told_once_and_tried_rarely(tmp_path):
    """Six failed lives, then one that ends well."""
    count = tmp_path / "count"
    program = f"""
import os, sys
path = {str(count)!r}
lives = os.path.getsize(path) if os.path.exists(path) else 0
open(path, "a").write("x")
print("refused: another plug-in" if lives < 6 else "well", flush=True)
sys.exit(lives < 6)
"""
    pauses, lines = Pauses(7), Lines()
    part = supervisor.Part("larder-mooncake", "plugin", [sys.executable, "-c", program])
    supervisor.keep(part, pauses, lines)
    assert pauses.long == [5, 10, 20, 40, 60, 60, supervisor._PAUSE_S]
    assert lines.added == [
        "refused: another plug-in\n",
        "larder-mooncake: the last failure came 5 more times\n",
        "well\n",
    ]


# covers F-434
def test_a_life_that_went_well_tells_each_failure_again(tmp_path):
    """A life that failed, then one with a line of its own before the same failure."""
    count = tmp_path / "count"
    program = f"""
import os, sys
path = {str(count)!r}
first = not os.path.exists(path)
open(path, "a").write("x")
print(*(["unreachable"] if first else ["works", "unreachable"]), sep="\\n", flush=True)
sys.exit(first)
"""
    lines = Lines()
    part = supervisor.Part("larder-mooncake", "plugin", [sys.executable, "-c", program])
    supervisor.keep(part, Pauses(2), lines)
    assert lines.added == ["unreachable\n", "works\n", "unreachable\n"]


# covers F-434
def test_the_log_drops_what_has_no_room_and_counts_it():
    read, write = os.pipe()
    queue = log.Log("larder-mooncake", write)
    line = b"x" * 1023 + b"\n"
    for _ in range(2000):
        queue.add(line)
    taken = []
    with open(read, "rb") as pipe:
        reader = threading.Thread(target=lambda: taken.extend(pipe))
        reader.start()
        queue.flush(10)
        queue.add(b"last\n")
        queue.flush(10)
        os.close(write)
        reader.join(10)
    kept = taken.count(line)
    assert log.MOST_BYTES // len(line) <= kept < 1100
    assert taken[kept:] == [
        f"larder-mooncake: {2000 - kept} log lines are missing here\n".encode(),
        b"last\n",
    ]


def refused(path):
    with pytest.raises(connection.Refused) as why:
        connection.connect("larder-mooncake", str(path))
    return str(why.value)


# covers F-434
def test_another_kind_of_socket_is_named(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(tmp_path / "admin.sock"))
        other.listen()
        assert "--socket is larderd's plugin_socket" in refused(tmp_path / "admin.sock")
    assert "too long" in refused("/" + "x" * 200)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
# covers F-434
def test_the_socket_of_another_user_is_named_with_the_remedy():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        larderd = LarderdSide(pathlib.Path(folder) / "plugin.sock", "mooncake://a:1", 4096)
        os.chmod(larderd.path, 0o660)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.write(write, refused(larderd.path).encode())
            os._exit(0)
        os.waitpid(child, 0)
        os.close(write)
        with open(read) as pipe:
            said = pipe.read()
        larderd.close()
    assert "permission denied: this plug-in runs as uid 65534, gid 65534" in said
    assert "is for uid 0 and the group 0 (mode 0660)" in said and "socket_mode (0666" in said


# covers F-434
def test_a_socket_without_larderd_is_named(world):
    larderd = world[2]
    larderd.close()
    program = started(world, stdout=subprocess.PIPE, text=True)
    try:
        line = program.stdout.readline()
        assert line == f"larder-mooncake: waiting: no larderd listens at {larderd.path} yet\n"
    finally:
        program.terminate()
        program.wait(10)
