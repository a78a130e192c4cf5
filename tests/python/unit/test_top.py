"""larderctl top: on a terminal and without one, and while larderd comes and goes."""

import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest
from harness.process import Process

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


@pytest.fixture
def world(tmp_path):
    """start() a larderd with files of its own, and the command line of a larderctl for this
    larderd."""
    binaries = os.environ["LARDER_TEST_BIN"]
    config = tmp_path / "larder.yaml"
    config.write_text(
        f"pool: top{os.getpid()}\nsocket: {tmp_path}/s.sock\n"
        "memory: {size: 16MiB, keep_on_exit: false}\n"
        f"http: {{listen: '', admin_socket: {tmp_path}/s.admin}}\n"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith("LARDER_")}
    ctl = [f"{binaries}/larderctl", "--socket", f"{tmp_path}/s.admin"]
    running = []

    class World:
        command = ctl

        def start(self):
            running.append(
                Process(
                    "larderd",
                    [f"{binaries}/larderd", "--config", str(config)],
                    env,
                    tmp_path / "log",
                )
            )
            running[-1].wait_until(
                lambda: subprocess.run([*ctl, "status"], capture_output=True).returncode == 0, 10
            )
            return running[-1]

    yield World()
    for process in running:
        process.stop()


def on_a_terminal(command):
    """(pid, master descriptor) of a command that has a terminal of its own."""
    pid, master = pty.fork()
    if pid == 0:
        os.execv(command[0], command)
    return pid, master


def read_until(master, pattern, timeout_s=60):
    """All drawn text until `pattern` appears."""
    drawn, end = b"", time.monotonic() + timeout_s
    while not re.search(pattern, drawn):
        ready, _, _ = select.select([master], [], [], max(0, end - time.monotonic()))
        assert ready and time.monotonic() < end, f"{pattern} was not drawn: {drawn[-500:]}"
        try:
            more = os.read(master, 65536)
        except OSError:  # a terminal whose last process is gone
            more = b""
        assert more, f"it ended before {pattern} was drawn: {drawn[-500:]}"
        drawn += more
    return drawn


def end_of(pid, master):
    """The exit status; reads on so that the command never waits for the test."""
    for _ in range(1200):
        if select.select([master], [], [], 0)[0]:
            try:
                os.read(master, 65536)
            except OSError:
                pass
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    raise AssertionError("the command did not end")


def test_once_prints_one_screen_with_rates(world):
    world.start()
    done = subprocess.run(
        [*world.command, "top", "--once", "--interval", "0.1"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("hit ratio") == 1 and "\x1b" not in done.stdout
    assert re.search(r"tokens asked +0\.0/s", done.stdout)


# covers F-122
def test_waits_for_larderd_and_goes_on_when_it_is_back(world):
    first = world.start()
    top = subprocess.Popen([*world.command, "top", "--interval", "0.1"], stdout=subprocess.PIPE)
    try:
        read_until(top.stdout.fileno(), rb"hit ratio")
        first.kill()
        read_until(
            top.stdout.fileno(),
            rb"waiting for larderd: no larderd answers on .*\nlast seen: larderd ",
        )
        world.start()
        read_until(top.stdout.fileno(), rb"hit ratio +- ")
        read_until(top.stdout.fileno(), rb"tokens asked +0\.0/s")
    finally:
        top.kill()
        top.wait()


def test_says_when_the_last_screen_had_no_larderd(world):
    done = subprocess.run(
        [*world.command, "top", "--iterations", "2", "--interval", "0.1"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stdout.count("waiting for larderd") == 2
    assert done.stderr.startswith("larderctl: no larderd answers on ")


def test_ctrl_c_gives_the_terminal_back(world):
    world.start()
    pid, master = on_a_terminal([*world.command, "top", "--interval", "60"])
    assert ENTER in read_until(master, rb"hit ratio[\s\S]*sessions")
    os.write(master, b"\x03")
    read_until(master, re.escape(LEAVE))
    assert os.WTERMSIG(end_of(pid, master)) == signal.SIGINT
    os.close(master)


def test_ctrl_z_gives_the_terminal_back_and_takes_it_again(world):
    world.start()
    pid, master = on_a_terminal([*world.command, "top", "--interval", "0.2"])
    read_until(master, rb"hit ratio")
    os.kill(pid, signal.SIGTSTP)
    read_until(master, re.escape(LEAVE))
    assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
    os.kill(pid, signal.SIGCONT)
    read_until(master, re.escape(ENTER) + rb"[\s\S]*hit ratio")
    os.kill(pid, signal.SIGTERM)
    assert os.WTERMSIG(end_of(pid, master)) == signal.SIGTERM
    os.close(master)


def test_a_small_terminal_is_not_scrolled(world):
    world.start()
    resized = "stty rows 4 cols 20; exec " + " ".join([*world.command, "top", "--interval", "60"])
    pid, master = on_a_terminal(["/bin/sh", "-c", resized])
    drawn = read_until(master, rb"\x1b\[J")
    screen = drawn.split(b"\x1b[H")[1]
    lines = screen.replace(b"\x1b[K", b"").replace(b"\x1b[J", b"").replace(b"\r", b"").split(b"\n")
    assert len(lines) == 4 and all(len(line) <= 20 for line in lines), lines
    os.kill(pid, signal.SIGTERM)
    end_of(pid, master)
    os.close(master)
