"""An HTTP server that answers by path, for clients that are tested without vLLM and larderd."""

import contextlib
import http.server
import ssl
import subprocess
import sys
import threading


class _Server(http.server.ThreadingHTTPServer):
    # with 5, some of eight simultaneous clients wait a second for their connection
    request_queue_size = 64

    def handle_error(self, request, client_address):
        """A client that does not trust the certificate hangs up. The server does not print this."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


@contextlib.contextmanager
def serving(answers, key=None, certificate=None):
    """answers: {"GET /path": function without arguments that returns the body, or None for a
    404}. key: required below /v1, as in vLLM. certificate: of certificate_of(). Yields the
    server's URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = answers.get(f"{self.command} {self.path}")
            status, body = (200, answer()) if answer else (404, "no such path")
            if (
                key
                and self.path.startswith("/v1")
                and self.headers.get("Authorization") != f"Bearer {key}"
            ):
                status, body = 401, '{"error":"Unauthorized"}'
            body = body.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer

        def log_message(self, *_):
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def certificate_of(folder, names="IP:127.0.0.1", days=1):
    """(file of a new private authority, file with a server's key and certificate by this
    authority)."""
    made = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    for command in (
        f"openssl req -x509 {made} -days 2 -subj /CN=authority -keyout ca.key -out ca.pem",
        f"openssl req -x509 {made} -days {days} -subj /CN=server -addext subjectAltName={names} "
        "-addext basicConstraints=CA:FALSE"
        " -CA ca.pem -CAkey ca.key -keyout server.key -out server.pem",
    ):
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_text((folder / "server.key").read_text() + (folder / "server.pem").read_text())
    return folder / "ca.pem", both


class FakeLarderd:
    """larderd's /metrics, with values that a test sets."""

    def __init__(self):
        self.loads, self.hit, self.seconds = 0, 0, 0.0

    def metrics(self):
        lines = [
            f'larder_operation_seconds_sum{{operation="{part}"}} {self.seconds}'
            for part in ("lookup", "load_wait", "load_copy")
        ]
        lines.append(f'larder_operation_seconds_count{{operation="load_copy"}} {self.loads}')
        lines.append(f'larder_tokens_hit_total{{model="my model"}} {self.hit}')
        return "# HELP larder_x y\n" + "\n".join(lines) + "\n"

    def load(self, tokens):
        self.loads, self.hit, self.seconds = self.loads + 1, self.hit + tokens, self.seconds + 0.002


class FakeVllm:
    """An OpenAI server with vLLM's metrics; the second answer hits `hits` = (engine's own,
    external)."""

    def __init__(self, hits=(0, 0), larderd=None):
        self.asked, self.hits, self.larderd = 0, hits, larderd
        self.answers = {
            "GET /v1/models": lambda: '{"data": [{"id": "m"}]}',
            "GET /metrics": self._metrics,
            "POST /v1/completions": self._complete,
            "POST /reset_prefix_cache": lambda: "",
        }

    def _complete(self):
        self.asked += 1
        if self.asked == 2 and self.larderd:
            self.larderd.load(self.hits[1])
        token = '{"choices": [{"token_ids": [7, 8], "text": "ab"}]}'
        usage = (
            f'{{"choices": [], "usage": {{"prompt_tokens": 300, "prompt_tokens_details": '
            f'{{"cached_tokens": {sum(self.hits)}}}}}}}'
        )
        return f"data: {token}\n\ndata: {usage}\n\ndata: [DONE]\n\n"

    def _metrics(self):
        own, external = self.hits if self.asked >= 2 else (0, 0)
        return (
            f'vllm:prefix_cache_hits_total{{e="0"}} {own}\n'
            f'vllm:external_prefix_cache_hits_total{{e="0"}} {external}\n'
        )
