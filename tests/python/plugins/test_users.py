"""larderd and its plug-in as different users, as the operator makes their containers: both have one
group, and neither has a capability."""

import os
import pathlib
import shlex
import shutil
import tempfile

import pytest
from engine_side import CHUNKS, EngineSide
from fake_infinistore import FakeInfiniStore
from harness.larderd import Larderd
from plugin_program import ROOT, Program, children, wait_until

BINARY = pathlib.Path(os.environ["LARDER_TEST_BIN"], "larderd").resolve()
PYTHON = "/usr/bin/python3"  # other users may not read the tests' environment
LARDERD, PLUGIN, GROUP, STRANGER = 65532, 65531, 65532, 65530


pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")


def is_open(path):
    return all(one.stat().st_mode & 0o001 for one in (path, *path.parents))


@pytest.fixture
def folder():
    """Unlike tmp_path, open to all users."""
    if not (is_open(ROOT) and is_open(BINARY)):
        pytest.skip("other users may not read the checkout")
    made = pathlib.Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def service():
    with_service = FakeInfiniStore()
    yield with_service
    with_service.close()


def as_user(folder, program, user, group):
    """A program that runs `program` as the user."""
    script = folder / f"{pathlib.Path(program).name}-{user}"
    script.write_text(
        f"#!/bin/sh\nexec setpriv --reuid={user} --regid={group} --clear-groups --no-new-privs "
        f'--bounding-set=-all {shlex.quote(str(program))} "$@"\n'
    )
    script.chmod(0o755)
    return script


@pytest.fixture
def larderd(folder, service):
    """start(mode): larderd as its own user, with this socket_mode."""
    running = []

    def start(mode):
        home = folder / "larderd"
        home.mkdir()
        os.chown(home, LARDERD, GROUP)
        larderd = Larderd(
            as_user(folder, BINARY, LARDERD, GROUP),
            home,
            f"larder-users-{os.getpid()}",
            "64MiB",
            f"socket_mode: {mode}\n"
            f"backend:\n  url: {service.url}\n  plugin_socket: {home / 'plugin.sock'}\n",
        )
        running.append(larderd)
        larderd.wait_ready()
        larderd.wait_touched()
        return larderd

    yield start
    for one in running:
        one.stop()


def plugin(folder, user, group):
    python = as_user(folder, PYTHON, user, group)
    arguments = ["--socket", str(folder / "larderd" / "plugin.sock")]
    return Program("infinistore", folder / "plugin", str(python), arguments)


def ids(pid):
    """The user and group of a process."""
    lines = pathlib.Path("/proc", str(pid), "status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["Uid"].split()[1]), int(fields["Gid"].split()[1])


# covers F-434
def test_a_plugin_of_another_user_serves_and_opens_no_memory(folder, larderd):
    larderd = larderd("0660")
    with plugin(folder, PLUGIN, GROUP) as program:
        wait_until(lambda: larderd.status()["backend"]["takes_gets"])
        assert ids(larderd.child.pid) == (LARDERD, GROUP)
        parts = [program.child.pid, *children(program.child.pid)]
        assert [ids(part) for part in parts] == [(PLUGIN, GROUP)] * 2
        with EngineSide(larderd) as engine:
            engine.store(1)
            wait_until(lambda: larderd.status()["backend"]["puts"]["ok"] >= CHUNKS)
        files = list(pathlib.Path("/dev/shm").glob(f"{larderd.shm_name}*"))
        assert files
        for file in files:
            assert file.stat().st_uid == LARDERD
            assert not file.stat().st_mode & 0o077, file


# The mode of the socket admits every user: larderd looks at the user of the process.
# covers F-434
def test_a_plugin_outside_of_the_group_is_refused(folder, larderd):
    larderd = larderd("0666")
    with plugin(folder, STRANGER, STRANGER) as program:
        words = f"uid {STRANGER} is neither the user of larderd nor in the group of"
        wait_until(lambda: words in program.log.read_text())
        assert words in larderd.log.read_text()
        assert not larderd.status()["backend"]["takes_gets"]
