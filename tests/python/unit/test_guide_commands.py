"""Commands of README.md, docs/get-started and docs/guides with the programs of this build. Here
they have a smaller memory, a socket of their own, and seconds in place of an hour."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness.process import Process
from harness.redis import Missing, RedisServer

from larder import Client
from larder._native import DECIDED_ABSENT

TOKENS, HASH_BYTES = 128, 32


def lines(root, page):
    """The command lines of a page, without comments and the & of a program that stays."""
    found = re.findall(r"```sh\n(.*?)```", (root / page).read_text(), re.DOTALL)
    return [re.sub(r"\s*(&\s*)?(\s#.*)?$", "", line) for line in "".join(found).splitlines()]


def line(root, page, begin):
    (one,) = [one for one in lines(root, page) if one.startswith(begin)]
    return one


@pytest.fixture
def env(tmp_path):
    """A user's shell with the programs of this build in PATH, and files of the test's own."""
    mine = {k: v for k, v in os.environ.items() if not k.startswith("LARDER_")}
    name = f"guide{os.getpid()}"
    return mine | {
        "PATH": f"{os.environ['LARDER_TEST_BIN']}:{mine['PATH']}",
        "LARDER_SOCKET": f"{tmp_path}/larder.sock",
        "LARDER_MEMORY_SIZE": "16MiB",
        "LARDER_MEMORY_SHM_NAME": name,
        "LARDER_MEMORY_KEEP_ON_EXIT": "false",
        "LARDER_HTTP_LISTEN": "",
    }


def follow(command, env, folder):
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def larderd(command, env, folder):
    """The process, which answers larderctl."""
    process = Process(
        "larderd", ["bash", "-c", f"cd {folder} && exec {command}"], env, folder / "larderd.log"
    )
    try:
        asked = dict(args=["larderctl", "status"], env=env, capture_output=True)
        process.wait_until(lambda: subprocess.run(**asked).returncode == 0, 10)
    except BaseException:
        process.stop()
        raise
    return process


@pytest.mark.parametrize("page", ["README.md", "docs/get-started/your-model.md"])
def test_larderd_starts_without_a_configuration(root, env, tmp_path, page):
    with larderd(line(root, page, "larderd"), env, tmp_path):
        assert "of 16.0 MiB" in follow("larderctl status", env, tmp_path)


def test_a_larderd_takes_the_place_of_lmcache(root, env, tmp_path):
    page = "docs/guides/from-lmcache.md"
    (tmp_path / "lmcache.yaml").write_text("chunk_size: 256\nmax_local_cpu_size: 2\n")
    follow(line(root, page, "larderctl import-lmcache lmcache.yaml"), env, tmp_path)
    with larderd(line(root, page, "larderd"), env, tmp_path):
        assert "of 16.0 MiB" in follow("larderctl status", env, tmp_path)


def hashes(chunks):
    return b"".join(bytes([n + 1]) * HASH_BYTES for n in range(chunks))


def test_a_trace_is_recorded_and_simulated(root, env, tmp_path):
    page = "docs/guides/sizing.md"
    trace = line(root, page, "larderctl trace").replace("--seconds 3600", "--seconds 2")
    with larderd("larderd", env, tmp_path), Client(env["LARDER_SOCKET"], "test") as engine:
        engine.set_namespace(f"engine: test\nchunk_tokens: {TOKENS}\n", "m", TOKENS, [(4096, 2, 1)])
        assert engine.wait_attached(10_000)
        with subprocess.Popen(["bash", "-c", trace], cwd=tmp_path, env=env) as recording:
            while recording.poll() is None:  # larderd records only meanwhile
                for chunks in (4, 8, 4):
                    engine.report_request(
                        chunks * TOKENS, 0, 1000, DECIDED_ABSENT, hashes(chunks), HASH_BYTES
                    )
                time.sleep(0.1)
        assert recording.returncode == 0
    assert '"hash_ids"' in (tmp_path / "trace.jsonl").read_text()
    said = follow(line(root, page, "larderctl simulate"), env, tmp_path)
    assert "lru" in said and "optimal" in said and "256" in said, said


def test_a_namespace_is_dropped(root, env, tmp_path):
    page = (root / "docs/guides/share-a-backend.md").read_text()
    (command,) = re.findall(r"`(larderctl drop NAMESPACE)`", page)
    with larderd("larderd", env, tmp_path), Client(env["LARDER_SOCKET"], "test") as engine:
        engine.set_namespace(f"engine: test\nchunk_tokens: {TOKENS}\n", "m", TOKENS, [(4096, 2, 1)])
        assert engine.wait_attached(10_000)
        deadline, spaces = time.monotonic() + 30, []
        # the status shows the state at larderd's last tick
        while not spaces and time.monotonic() < deadline:
            spaces = json.loads(follow("larderctl status --json", env, tmp_path))["namespaces"]
        (space,) = spaces
        assert "0 chunks" in follow(command.replace("NAMESPACE", space["id"]), env, tmp_path)


def test_keys_of_an_old_prefix_are_removed(root, env, tmp_path):
    page = (root / "docs/guides/upgrade-remove.md").read_text()
    (command,) = re.findall(r"`(redis-cli --scan .*)`", page)
    if shutil.which("redis-cli") is None:
        pytest.skip("no redis-cli")
    try:
        server = RedisServer(tmp_path / "redis")
    except Missing as missing:
        pytest.skip(str(missing))
    with server:
        for key in ("models-chat:a", "models-chat:b", "models.chat:a"):
            server.ask(f"SET {key} 1")
        here = command.replace("NAMESPACE-POOL", "models-chat").replace(
            "redis-cli", f"redis-cli -p {server.port}"
        )
        assert follow(here, env, tmp_path).split() == ["2"]
        assert server.ask("DBSIZE") == ":1" and server.ask("EXISTS models.chat:a") == ":1"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The Makefile's `make install`, of this build."""
    prefix = tmp_path_factory.mktemp("prefix")
    build = Path(os.environ["LARDER_TEST_BIN"]).parent
    if shutil.which("cmake") is None or not (build / "cmake_install.cmake").exists():
        pytest.skip(f"no cmake, or {build} is no build tree")
    subprocess.run(
        ["cmake", "--install", build, "--prefix", prefix], check=True, capture_output=True
    )
    return prefix


@pytest.mark.parametrize("program", ["larderd", "larderctl", "kubectl-larder"])
def test_installed_programs_run(installed, program):
    done = subprocess.run(
        [installed / "bin" / program, "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.startswith(program)


def test_the_installed_library_and_the_unit_are_there(installed, root):
    symbol = re.search(r"\b(larder_\w+)\(", (installed / "include" / "larder.h").read_text())[1]
    load = f"import ctypes, sys; ctypes.CDLL(sys.argv[1]).{symbol}"
    subprocess.run(
        [sys.executable, "-c", load, installed / "lib" / "liblarder.so"], check=True, timeout=60
    )
    assert (
        "ExecStart=" in (installed / "lib" / "systemd" / "system" / "larderd.service").read_text()
    )
    assert (installed / "share" / "larder" / "larder.yaml").exists()
