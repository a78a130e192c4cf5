"""The example's proxy between fake engines: the requests to each, and the answering engine after a
loss."""

import importlib.util
import json
import os
import re
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from harness.process import Process
from harness.vllm_server import free_port
from http_fakes import FakeVllm, certificate_of, serving

from larder import completions
from larder.server import ServerError


class Engine:
    """Notes its requests, and answers with its own name."""

    def __init__(self, name, status=200):
        self.asked = []
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                engine.asked.append(
                    (self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                )
                self.send_response(status)
                self.end_headers()
                event = {
                    "choices": [{"token_ids": [1], "text": name}],
                    "usage": {"prompt_tokens": 3},
                }
                self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def example(root):
    path = root / "shim" / "python" / "examples" / "prefill_decode.py"
    spec = importlib.util.spec_from_file_location("prefill_decode", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.Proxy.log_message = lambda *_: None
    return module


@pytest.fixture
def start(example):
    """start(prefill, decode): the proxy's URL."""
    running = []

    def starter(prefill, decode):
        server = example.serve(prefill.url, decode.url, 0)
        threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()
        running.extend([server.shutdown, server.server_close])
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield starter
    for end in running:
        end()


@pytest.fixture
def prefill():
    engine = Engine("prefill")
    yield engine
    engine.stop()


@pytest.fixture
def decode():
    engine = Engine("decode")
    yield engine
    engine.stop()


def ask(url, **fields):
    return completions.stream_completion(url, "m", [1, 2, 3], 8, timeout_s=10, **fields).text


def test_the_prompt_goes_to_prefill_and_the_answer_comes_from_decode(start, prefill, decode):
    assert ask(start(prefill, decode)) == "decode"
    ((path, first),), ((_, second),) = prefill.asked, decode.asked
    assert path == "/v1/completions"
    assert (first["prompt"], first["max_tokens"], first["stream"]) == ([1, 2, 3], 1, False)
    assert "stream_options" not in first and "kv_transfer_params" not in first
    assert (second["prompt"], second["max_tokens"], second["stream"]) == ([1, 2, 3], 8, True)
    assert second["kv_transfer_params"] == {"larder": "await"}


def test_the_command_of_the_guide_serves(root, prefill, decode, tmp_path):
    """docs/guides/prefill-decode.md, with engines and a port that are here."""
    page = (root / "docs" / "guides" / "prefill-decode.md").read_text()
    (command,) = re.findall(r"```sh\n(?:.*\n)*?python (\S+prefill_decode\.py .*)\n", page)
    port = free_port()
    for guide, here in (
        ("http://localhost:8100", prefill.url),
        ("http://localhost:8200", decode.url),
        ("--port 8000", f"--port {port}"),
    ):
        assert guide in command
        command = command.replace(guide, here)
    env = {**os.environ, "PYTHONPATH": str(root / "shim" / "python")}
    with Process(
        "proxy",
        ["bash", "-c", f"cd {root} && exec {sys.executable} {command}"],
        env,
        tmp_path / "proxy.log",
    ) as proxy:
        proxy.wait_until(
            lambda: socket.create_connection(("127.0.0.1", port), 1).close() is None, 30
        )
        assert ask(f"http://127.0.0.1:{port}") == "decode"
    assert len(prefill.asked) == 1


def test_settings_of_the_request_are_kept(start, prefill, decode):
    ask(start(prefill, decode), kv_transfer_params={"larder": "off"}, max_completion_tokens=8)
    assert prefill.asked[0][1]["max_completion_tokens"] == 1
    assert decode.asked[0][1]["kv_transfer_params"] == {"larder": "off"}


def test_without_the_prefill_engine_decode_serves_the_prompt(start, prefill, decode):
    prefill.stop()
    assert ask(start(prefill, decode)) == "decode"
    assert "kv_transfer_params" not in decode.asked[0][1]


def test_a_prefill_engine_that_refuses_is_passed_by(start, decode):
    refusing = Engine("refusing", 500)
    assert ask(start(refusing, decode)) == "decode"
    assert "kv_transfer_params" not in decode.asked[0][1]
    refusing.stop()


def test_without_the_decode_engine_the_prefill_engine_answers(start, prefill, decode):
    decode.stop()
    assert ask(start(prefill, decode)) == "prefill"


def test_without_both_engines_an_error_is_returned(start, prefill, decode):
    prefill.stop()
    decode.stop()
    with pytest.raises(ServerError, match="502"):
        ask(start(prefill, decode))


def test_engines_behind_tls_with_a_key_of_the_clients(example, tmp_path, monkeypatch):
    """The key goes through, and a private authority is trusted when named."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    authority, certificate = certificate_of(tmp_path)
    with serving(FakeVllm().answers, key="secret", certificate=certificate) as engine:
        for cacert, text in ((authority, "ab"), (None, None)):
            server = example.serve(engine, engine, 0, cacert=cacert)
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            try:
                url = f"http://127.0.0.1:{server.server_address[1]}"
                if text:
                    assert ask(url) == text
                else:
                    with pytest.raises(ServerError, match="502"):
                        ask(url)
            finally:
                server.shutdown()
                server.server_close()
                thread.join(5)
