"""Peers: two served engines, each over a larderd of its own, which share by TLS with certificates
of both sides, without a backend. An engine loads KV that the other computed, straight from the
memory of the other's larderd, with equal tokens. If that larderd dies or stands still, the prompt
is computed."""

import contextlib
import os
import signal
import subprocess
import types

import pytest
from engines import (
    OFF,
    PATIENCE_S,
    SLACK_S,
    Engine,
    answers,
    prompt,
    start_larderd,
    timed,
    wait_for,
)
from harness.vllm_server import free_port

pytestmark = pytest.mark.long

CHUNK = 128
# a second of computing: on a busy machine a probe takes milliseconds, and may cost a fiftieth
TOKENS = 5000
WHOLE = TOKENS // CHUNK * CHUNK  # 39 chunks
POOL = "peers"


@pytest.fixture(scope="module")
def nodes(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("peers")
    certificate(folder)
    ports = [free_port(), free_port()]
    with contextlib.ExitStack() as ending:
        nodes = []
        for number, port in enumerate(ports):
            extra = settings(folder, port, ports)
            larderd = start_larderd(folder / str(number), extra=extra, pool=POOL)
            ending.enter_context(larderd)
            engine = ending.enter_context(Engine(model, larderd.socket, folder))
            nodes.append(types.SimpleNamespace(larderd=larderd, engine=engine))
        for node in nodes:
            node.engine.wait_ready()
            node.engine.larderd = node.larderd
            # now the engine knows its computing speed
            node.engine.ask(prompt("speed", TOKENS), **OFF)
            wait_for(lambda node=node: reachable(node) == 1, PATIENCE_S, "reaching the peer")
        yield nodes


def certificate(folder):
    """One that is its own authority."""
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    names = ["-subj", "/CN=peers", "-addext", f"subjectAltName=DNS:{POOL}.test.larder"]
    files = ["-keyout", folder / "tls.key", "-out", folder / "tls.crt"]
    subprocess.run([*command.split(), *names, *files], check=True, capture_output=True)


def settings(folder, port, ports):
    members = ",".join(f"127.0.0.1:{member}" for member in ports)
    return (
        f"peers:\n  listen: 127.0.0.1:{port}\n  members: {members}\n"
        f"  ca_file: {folder}/tls.crt\n  cert_file: {folder}/tls.crt\n"
        f"  key_file: {folder}/tls.key\n  server_name: {POOL}.test.larder\n"
    )


def reachable(node):
    return node.larderd.status()["peers"]["servers"]["reachable"]


def read(node):
    """(chunks, bytes) that came from peers."""
    gets = node.larderd.status()["peers"]["gets"]
    return gets["ok"], gets["bytes"]


def sent(node):
    return node.larderd.status()["peer_serving"]["gets"]["bytes"]


def loaded(computes, loads, seed):
    """Whether all of a prompt came from the memory of the other node. A peer of a busy machine may
    be late."""
    text = prompt(seed, TOKENS)
    computes.engine.store(text)
    expected = answers(loads.engine, text)
    chunks, size = read(loads)
    sent_before = sent(computes)
    answer, hit = loads.engine.ask_and_count(text)
    assert hit not in (0, WHOLE) or answer == expected[hit == WHOLE]
    if hit != WHOLE:
        return False
    came, bytes_came = read(loads)
    assert came - chunks == WHOLE // CHUNK, "each chunk that hit came from the peer"
    assert bytes_came > size
    wait_for(
        lambda: sent(computes) - sent_before >= bytes_came - size,
        PATIENCE_S,
        "the peer having sent these bytes",
    )
    return True


@pytest.mark.parametrize("computes, loads", [(0, 1), (1, 0)])
def test_chunks_computed_on_one_node_come_from_its_memory(nodes, computes, loads):
    for node in nodes:
        status = node.larderd.status()
        assert status["backend"] is None and status["disk"] is None
        assert status["peers"]["mode"] == "TLS"

    def across(attempt=iter(range(100))):
        seed = f"across {computes} {next(attempt)}"
        return loaded(nodes[computes], nodes[loads], seed)

    wait_for(across, PATIENCE_S, "loading the other engine's chunks")


def test_what_came_from_a_peer_is_in_memory_then(nodes):
    one, two = nodes

    def from_memory(attempt=iter(range(100))):
        seed = f"memory {next(attempt)}"
        if not loaded(one, two, seed):
            return False
        chunks = read(two)
        assert two.engine.ask_and_count(prompt(seed, TOKENS))[1] == WHOLE
        assert read(two) == chunks
        return True

    wait_for(from_memory, PATIENCE_S, "loading the other engine's chunks")


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_a_lost_peer_is_a_recompute(nodes, how):
    """The killed larderd is the last test's."""
    one, two = nodes
    # The first request meets the loss, the second one knows of it.
    texts = [prompt(f"lost {how} {i}", TOKENS) for i in range(2)]
    for text in texts:
        one.engine.store(text)
    alone = [timed(two.engine.alone, text) for text in texts]
    longest_s = 2 * max(took_s for _, took_s in alone) + SLACK_S
    os.kill(one.larderd.child.pid, how)
    try:
        for text, (expected, _) in zip(texts, alone):
            two.engine.reset()
            answer, took_s = timed(two.engine.ask, text)
            assert took_s < longest_s
            assert answer == expected
    finally:
        if how == signal.SIGSTOP:
            os.kill(one.larderd.child.pid, signal.SIGCONT)
    if how == signal.SIGKILL:
        wait_for(lambda: reachable(two) == 0, PATIENCE_S, "noticing the death")
        return

    def used_again(attempt=iter(range(100))):
        return loaded(one, two, f"back {next(attempt)}")

    wait_for(used_again, 2 * PATIENCE_S, "using the peer again")
