"""query_twice as a user meets it when something is missing: one line, never a traceback."""

import socket
import threading

from larder import query_twice


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
    assert f"http://127.0.0.1:{port}/v1/models" in told(capsys, f"http://127.0.0.1:{port}", prompt)


def test_what_speaks_no_http_is_named(capsys, tmp_path):
    prompt = tmp_path / "p.txt"
    prompt.write_text("hello")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            peer, _ = server.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(b"this is no HTTP\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        assert "this is no HTTP" in told(capsys, f"http://127.0.0.1:{server.getsockname()[1]}", prompt)
        thread.join(5)
