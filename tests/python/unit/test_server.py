"""Servers with an API key, or with TLS by a private authority, and the message to a user without
key or authority."""

import socket
import threading

import pytest
from http_fakes import FakeVllm, certificate_of, serving

from larder import completions, query_twice
from larder.server import KEY_VARIABLES, NoServer, NotUsable, Server, ServerError

MODELS = {"GET /v1/models": lambda: '{"data": [{"id": "m"}]}'}


@pytest.fixture(autouse=True)
def no_key_of_the_users_own(monkeypatch):
    for name in KEY_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    return certificate_of(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "prompt"
    file.write_text("hello")
    return file


def asked(url, file, *arguments):
    return query_twice.main(
        ["--url", url, "--file", str(file), "--larderd", "http://127.0.0.1:1", *arguments]
    )


def told(capsys, *arguments):
    """The one line of a failure."""
    assert asked(*arguments) == 1
    shown = capsys.readouterr()
    (line,) = shown.err.splitlines()
    assert line.startswith("query_twice: ") and shown.out == ""
    return line


class TestKeys:
    @pytest.mark.parametrize("variable", [None, *KEY_VARIABLES])
    def test_a_server_that_asks_for_a_key_is_asked_with_it(
        self, capsys, file, monkeypatch, variable
    ):
        if variable:
            monkeypatch.setenv(variable, "secret")
        with serving(FakeVllm((0, 256)).answers, key="secret") as url:
            assert asked(url, file, *([] if variable else ["--api-key", "secret"])) == 0
        assert "identical in both" in capsys.readouterr().out

    @pytest.mark.parametrize(("arguments", "environment", "key"), [
        (["--api-key", "a"], {"VLLM_API_KEY": "b", "OPENAI_API_KEY": "c"}, "a"),
        ([], {"VLLM_API_KEY": "b", "OPENAI_API_KEY": "c"}, "b"),
        ([], {"VLLM_API_KEY": "", "OPENAI_API_KEY": "c\n"}, "c"),
    ])  # fmt: skip
    def test_the_nearest_key_counts(self, file, monkeypatch, arguments, environment, key):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with serving(FakeVllm((0, 256)).answers, key=key) as url:
            assert asked(url, file, *arguments) == 0

    def test_without_a_key_the_ways_to_give_one_are_named(self, capsys, file):
        with serving(MODELS, key="secret") as url:
            line = told(capsys, url, file)
        assert line.endswith(
            '/v1/models: 401 {"error":"Unauthorized"}. The server asks for a key: --api-key KEY, '
            'VLLM_API_KEY or OPENAI_API_KEY gives it'
        )
        assert "vllm serve" not in line, "a server is up"

    @pytest.mark.parametrize(
        ("arguments", "named"), [(["--api-key", "wrong"], "--api-key"), ([], "OPENAI_API_KEY")]
    )
    def test_a_wrong_key_is_named_by_its_place_and_not_shown(
        self, capsys, file, monkeypatch, arguments, named
    ):
        monkeypatch.setenv("OPENAI_API_KEY", "wrong")
        with serving(MODELS, key="secret") as url:
            line = told(capsys, url, file, *arguments)
        assert line.endswith(f". The server refuses the key of {named}") and "wrong" not in line

    @pytest.mark.parametrize("key", ["two words", "ключ", "sec\nret", "sec\r\nX-Other: b"])
    def test_a_key_that_no_header_can_carry_is_named_and_not_shown(self, capsys, file, key):
        line = told(capsys, "http://127.0.0.1:1", file, "--api-key", key)
        assert "the key of --api-key" in line and key.split()[0] not in line.replace(
            "--api-key", ""
        )

    def test_without_any_key_no_header_is_sent(self):
        assert "Authorization" not in Server("http://x")._headers

    def test_an_empty_key_overrides_the_variables(self, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        assert "Authorization" not in Server("http://x", "")._headers

    def test_every_tool_takes_the_variables(self, monkeypatch):
        """The callers with only a URL: the demo, the benchmarks, the tests."""
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        with serving(FakeVllm().answers, key="secret") as url:
            assert completions.first_model(url) == "m"
            assert completions.stream_completion(url, "m", "p", 2).token_ids == [7, 8]


class TestTls:
    def test_a_private_authority(self, capsys, file, tls):
        authority, certificate = tls
        with serving(FakeVllm((0, 256)).answers, key="secret", certificate=certificate) as url:
            assert asked(url, file, "--api-key", "secret", "--cacert", str(authority)) == 0
        assert "identical in both" in capsys.readouterr().out

    def test_an_unknown_authority_is_told_with_the_remedy(self, capsys, file, tls):
        with serving(MODELS, certificate=tls[1]) as url:
            line = told(capsys, url, file)
        assert (
            line.endswith("; --cacert FILE names the authority to trust")
            and "/v1/models" in line
            and "_ssl.c" not in line
        )

    def test_the_key_is_not_sent_to_a_server_that_is_not_trusted(self, capsys, file, tls):
        seen = []
        with serving({"GET /v1/models": lambda: seen.append(1) or ""}, certificate=tls[1]) as url:
            told(capsys, url, file, "--api-key", "secret")
        assert seen == []

    def test_a_certificate_for_another_name_is_reported(self, capsys, file, tmp_path):
        authority, certificate = certificate_of(tmp_path, "DNS:vllm.example")
        with serving(MODELS, certificate=certificate) as url:
            line = told(capsys, url, file, "--cacert", str(authority))
        assert "127.0.0.1" in line and line.endswith(
            "; use a name in --url for which the certificate is made"
        )

    @pytest.mark.parametrize("content", [None, "", "no PEM"])
    def test_a_file_that_is_no_authority_is_named(self, capsys, file, tmp_path, content):
        path = tmp_path / "ca.pem"
        if content is not None:
            path.write_text(content)
        line = told(capsys, "https://127.0.0.1:1", file, "--cacert", str(path))
        assert f"--cacert {path}: " in line and line.endswith(
            "; give a PEM file of the server's authority"
        )

    def test_an_authority_without_https_is_a_mistake(self, capsys, file, tls):
        assert "--cacert is for https://, and http://x is not" in told(
            capsys, "http://x", file, "--cacert", str(tls[0])
        )

    def test_https_where_the_server_has_none(self, capsys, file):
        with serving(MODELS) as url:
            line = told(capsys, url.replace("http", "https"), file)
        assert "no TLS with this server" in line and line.endswith("its URL begins with http://")

    def test_http_where_the_server_has_tls(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            url = f"http://127.0.0.1:{server.getsockname()[1]}"
            thread = threading.Thread(target=lambda: server.accept()[0].close())
            thread.start()
            with pytest.raises(
                NoServer, match="; the URL of a server with TLS begins with https://$"
            ):
                completions.first_model(url)
            thread.join(5)


class TestUrls:
    @pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/"])
    def test_with_and_without_v1(self, end):
        with serving(MODELS) as url:
            assert completions.first_model(url + end) == "m"

    def test_below_a_path(self):
        with serving({"GET /openai/v1/models": MODELS["GET /v1/models"]}) as url:
            assert completions.first_model(f"{url}/openai") == "m"
            assert completions.first_model(f"{url.removeprefix('http://')}/openai/v1") == "m"

    @pytest.mark.parametrize(
        "url", ["ftp://x", "unix:///x", "http://", "http://[::1", "http://user:word@x"]
    )
    def test_an_invalid_url_is_refused(self, url):
        with pytest.raises(NotUsable) as refused:
            Server(url)
        assert "word@" not in str(refused.value)

    def test_a_path_that_no_request_can_carry(self):
        with serving(MODELS) as url, pytest.raises(ServerError, match="/ä"):
            completions.first_model(f"{url}/ä")
