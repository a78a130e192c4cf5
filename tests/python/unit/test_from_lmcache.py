"""docs/guides/from-lmcache.md: every line of its tables, run. (lmcache_docs_test.cc runs the rows
of settings.)"""

import json
import os
import re
import socket
import subprocess
import sys

import pytest
from harness.process import Process


def rows(page, heading):
    """(left, right) cells of the table below a heading, without the two lines of the head."""
    section = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert len(lines) >= 4, heading
    return [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines]


def code(cell):
    """The command or statement in a cell; None for a cell that names no counterpart."""
    found = re.fullmatch(r"`(.*)`", cell)
    assert found or cell.startswith("no counterpart"), cell
    return found and found[1]


@pytest.fixture(scope="module")
def page(root):
    return (root / "docs" / "guides" / "from-lmcache.md").read_text()


@pytest.fixture(scope="module")
def world(tmp_path_factory, root):
    """A larderd on a port and sockets of its own, and the way of a user's shell to this larderd."""
    folder = tmp_path_factory.mktemp("from_lmcache")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    binaries = os.environ["LARDER_TEST_BIN"]
    config = folder / "larder.yaml"
    config.write_text(
        f"pool: lmc{os.getpid()}\nsocket: {folder}/larder.sock\n"
        f"memory: {{size: 16MiB, keep_on_exit: false}}\nhttp: {{listen: '127.0.0.1:{port}'}}\n"
    )
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LARDER_", "LMCACHE_"))
    }
    env |= {
        "PATH": f"{binaries}:{os.path.dirname(sys.executable)}:{env['PATH']}",
        "PYTHONPATH": str(root / "shim" / "python"),
        "LARDER_CONFIG_FILE": str(config),
        "LARDER_LIBRARY": os.environ["LARDER_LIBRARY"],
    }

    def shell(command):
        command = command.replace("127.0.0.1:9464", f"127.0.0.1:{port}")
        return subprocess.run(
            command, shell=True, env=env, cwd=root, capture_output=True, text=True, timeout=60
        )

    with Process("larderd", [f"{binaries}/larderd"], env, folder / "larderd.log") as larderd:
        larderd.wait_until(lambda: shell("larderctl status").returncode == 0, 10)
        yield shell


def test_every_command_has_a_counterpart_that_runs(page, world):
    for theirs, ours in rows(page, "Commands") + rows(page, "HTTP"):
        command = code(ours)
        if command is None:
            continue
        if command.endswith("larderd"):
            command += " --check-config"  # larderd would take the memory of the line
        done = world(command)
        assert done.returncode == 0, (theirs, command, done.stderr)
        assert done.stdout, command


def two_steps(page):
    """The command lines of the section."""
    return "".join(
        re.findall(r"```sh\n(.*?)```", page.split("## Two steps\n")[1].split("\n## ")[0], re.DOTALL)
    ).splitlines()


def test_a_file_is_imported(page, world, tmp_path):
    (tmp_path / "lmcache.yaml").write_text("chunk_size: 512\nmax_local_cpu_size: 2\n")
    first = two_steps(page)[0]
    assert world(f"cd {tmp_path} && {first}").returncode == 0
    checked = world(f"larderd --check-config --config {tmp_path}/larder.yaml")
    assert checked.returncode == 0 and 'size: "2GiB"' in checked.stdout


def test_the_command_line_of_a_server_is_imported(page, world, tmp_path):
    command = two_steps(page)[2]
    assert world(f"cd {tmp_path} && {command}").returncode == 0
    checked = world(f"larderd --check-config --config {tmp_path}/larder.yaml")
    assert checked.returncode == 0 and 'size: "20GiB"' in checked.stdout, checked.stderr
    assert "redis://redis.example:6379" in checked.stdout


def test_every_command_line_of_the_server_is_imported(page, world, tmp_path):
    servers = [
        code(theirs)
        for theirs, _ in rows(page, "Commands")
        if " server --" in theirs and "..." not in theirs
    ]
    assert len(servers) >= 6
    for command in servers:
        config = tmp_path / "larder.yaml"
        imported = world(f"larderctl import-lmcache -- {command} > {config}")
        assert imported.returncode == 0, (command, imported.stderr)
        checked = world(f"larderd --check-config --config {config}")
        assert checked.returncode == 0 and 'size: "20GiB"' in checked.stdout, (
            command,
            checked.stderr,
        )


def test_every_connector_has_a_counterpart_that_loads(page):
    pytest.importorskip("vllm")
    import importlib

    from larder.vllm import setup

    for theirs, ours in rows(page, "vLLM"):
        config = json.loads(re.fullmatch(r"--kv-transfer-config '(.*)'", code(ours))[1])
        assert getattr(
            importlib.import_module(config["kv_connector_module_path"]), config["kv_connector"]
        )
        assert set(config.get("kv_connector_extra_config", {})) <= set(setup._OPTIONS), theirs


def test_every_import_has_a_counterpart_that_imports(page):
    pytest.importorskip("vllm")
    for theirs, ours in rows(page, "Imports"):
        assert code(theirs).startswith(("from lmcache", "import lmcache"))
        if code(ours):
            exec(code(ours), {})


def test_the_check_of_cells_bites():
    assert code("`larderctl status`") == "larderctl status"
    assert code("no counterpart: not served") is None
    with pytest.raises(AssertionError):
        code("see elsewhere")
