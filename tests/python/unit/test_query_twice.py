"""query_twice for a user: the lines of the demo, and one line, never a traceback, after an
error."""

import os
import re
import socket
import subprocess
import sys
import threading

from http_fakes import FakeLarderd, FakeVllm, serving

from larder import completions, query_twice


def told(capsys, url, file):
    assert query_twice.main(["--url", url, "--file", str(file)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("query_twice: ")
    return lines[0]


def test_a_missing_file_is_named(capsys):
    assert "/nonexistent.txt" in told(capsys, "http://127.0.0.1:1", "/nonexistent.txt")


def test_a_server_that_is_away_is_named(capsys, tmp_path):
    prompt = tmp_path / "p.txt"
    prompt.write_text("hello")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    line = told(capsys, f"http://127.0.0.1:{port}", prompt)
    assert f"http://127.0.0.1:{port}/v1/models" in line and line.endswith(
        "Is a server like `vllm serve` up at --url?"
    )


def test_another_kind_of_server_is_one_line(capsys, tmp_path):
    prompt = tmp_path / "p.txt"
    prompt.write_text("hello")
    for page in ("<html>\n\n<p>It works", '{"data": []}', "[]"):
        with serving({"GET /v1/models": lambda page=page: page}) as url:
            assert f"{url}/v1/models: the answer lists no models. Is a server" in told(
                capsys, url, prompt
            )
    with serving({"GET /v1/models": lambda: '{"data": [{"id": "m"}]}'}) as url:
        assert f"POST {url}/v1/completions: 404 no such path" in told(capsys, url, prompt)
    assert "nonnumeric port" in told(capsys, "http://localhost:port", prompt)


def told_of(capsys, tmp_path, answer):
    """The message about a server that answers one connection with these bytes."""
    prompt = tmp_path / "p.txt"
    prompt.write_text("hello")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            peer, _ = server.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        line = told(capsys, f"http://127.0.0.1:{server.getsockname()[1]}", prompt)
        thread.join(5)
    return line


def test_a_server_without_http_is_reported(capsys, tmp_path):
    assert "this is no HTTP" in told_of(capsys, tmp_path, b"this is no HTTP\r\n\r\n")


def test_a_page_of_refusal_is_one_line(capsys, tmp_path):
    page = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 28\r\n\r\n<html>\n  <p>Not for you\n</p>"
    assert told_of(capsys, tmp_path, page).endswith("/v1/models: 403 <html> <p>Not for you </p>")


def test_an_answer_that_breaks_off_is_one_line(capsys, tmp_path):
    line = told_of(capsys, tmp_path, b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    assert line.endswith("the answer broke off (IncompleteRead(1 bytes read, 99 more expected))")


def shown(capsys, tmp_path, vllm, larderd_url):
    prompt = tmp_path / "p.txt"
    prompt.write_text("hello")
    with serving(vllm.answers) as url:
        assert (
            query_twice.main(["--url", url, "--file", str(prompt), "--larderd", larderd_url]) == 0
        )
    return capsys.readouterr().out


def test_the_output_has_the_lines_of_the_demo_with_the_share(capsys, tmp_path):
    larderd = FakeLarderd()
    with serving({"GET /metrics": larderd.metrics}) as larderd_url:
        out = shown(capsys, tmp_path, FakeVllm((0, 256), larderd), larderd_url)
    assert "tokens in the prompt   300" in out and "tokens hit in Larder   256" in out
    assert "hit came from          external cache\n" in out
    assert (
        "Larder's share         6.0 ms of the warm TTFT: look-up 2.00, waiting for the copy 2.0, "
        "copying and verifying 2.0" in out
    )
    assert "32 tokens that follow  identical in both" in out
    assert "other engine" not in out and "█" in out


def test_the_command_of_the_page_prints_them_too(root, tmp_path):
    page = (root / "docs" / "get-started" / "your-model.md").read_text()
    (command,) = re.findall(r"`python (-m larder.query_twice --url \S+ --file LONG\.txt)`", page)
    (tmp_path / "LONG.txt").write_text("a long prompt")
    with serving(FakeVllm((0, 256)).answers) as url:
        words = [url if word == "http://localhost:8000" else word for word in command.split()]
        env = {**os.environ, "PYTHONPATH": str(root / "shim" / "python")}
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0 and "tokens hit in Larder   256" in done.stdout, done.stderr


def test_a_larderd_that_is_away_costs_one_line(capsys, tmp_path):
    out = shown(capsys, tmp_path, FakeVllm((0, 256)), "http://127.0.0.1:1")
    (line,) = [line for line in out.splitlines() if "Larder's share" in line]
    assert "unknown: http://127.0.0.1:1/metrics cannot be read" in line and "--larderd URL" in line


def test_without_a_cache_reset_the_metrics_show_the_source(capsys, tmp_path):
    vllm = FakeVllm((256, 0))
    del vllm.answers["POST /reset_prefix_cache"]
    out = shown(capsys, tmp_path, vllm, "http://127.0.0.1:1")
    assert "hit came from          the engine's own prefix cache, which could not be reset" in out
    assert "tokens hit in Larder   0\n" in out


def test_without_metrics_and_reset_the_source_is_unknown(capsys, tmp_path):
    vllm = FakeVllm((256, 0))
    del vllm.answers["POST /reset_prefix_cache"], vllm.answers["GET /metrics"]
    out = shown(capsys, tmp_path, vllm, "http://127.0.0.1:1")
    assert "hit came from          unknown: the server shows no metrics" in out
    assert "tokens hit in Larder   unknown\n" in out


def test_a_cache_whose_blocks_are_just_being_stored_is_reset_when_they_are():
    """vLLM 0.32 reports the failed reset; older versions answer with an empty body."""
    answers = ['{"success": false}', '{"success": false}', '{"success": true}', ""]
    with serving({"POST /reset_prefix_cache": lambda: answers.pop(0)}) as url:
        assert completions.reset_prefix_cache(url)
        assert answers == [""]
        assert completions.reset_prefix_cache(url)
    with serving({"POST /reset_prefix_cache": lambda: '{"success": false}'}) as url:
        assert not completions.reset_prefix_cache(url, patience_s=0.1)


# covers F-435
def test_an_output_without_the_bars_characters_still_has_the_figures(root, tmp_path):
    (tmp_path / "p.txt").write_text("a long prompt")
    with serving(FakeVllm((0, 256)).answers) as url:
        words = [sys.executable, "-m", "larder.query_twice", "--url", url, "--file", "p.txt"]
        env = {**os.environ, "PYTHONPATH": str(root / "shim" / "python")}
        env |= {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
        done = subprocess.run(
            words, check=False, cwd=tmp_path, env=env, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr
    assert "TTFT warm" in done.stdout and "???" in done.stdout
