"""An HTTP server that answers by path, for clients that are tested without vLLM and larderd."""

import contextlib
import http.server
import threading


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64  # with 5, some of eight clients at once wait a second for their connection


@contextlib.contextmanager
def serving(answers):
    """answers: {"GET /path": function of nothing that returns the body, or None for a 404}. Yields the server's URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = answers.get(f"{self.command} {self.path}")
            body = (answer() if answer else "no such path").encode()
            self.send_response(200 if answer else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer

        def log_message(self, *_):
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


class FakeLarderd:
    """larderd's /metrics, with values that a test sets."""

    def __init__(self):
        self.loads, self.hit, self.seconds = 0, 0, 0.0

    def metrics(self):
        lines = [f'larder_operation_seconds_sum{{operation="{part}"}} {self.seconds}' for part in ("lookup", "load_wait", "load_copy")]
        lines.append(f'larder_operation_seconds_count{{operation="load_copy"}} {self.loads}')
        lines.append(f'larder_tokens_hit_total{{model="my model"}} {self.hit}')
        return "# HELP larder_x y\n" + "\n".join(lines) + "\n"

    def load(self, tokens):
        self.loads, self.hit, self.seconds = self.loads + 1, self.hit + tokens, self.seconds + 0.002


class FakeVllm:
    """An OpenAI server with vLLM's metrics; the second answer hits `hits` = (engine's own, external)."""

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
        usage = f'{{"choices": [], "usage": {{"prompt_tokens": 300, "prompt_tokens_details": {{"cached_tokens": {sum(self.hits)}}}}}}}'
        return f"data: {token}\n\ndata: {usage}\n\ndata: [DONE]\n\n"

    def _metrics(self):
        own, external = self.hits if self.asked >= 2 else (0, 0)
        return f'vllm:prefix_cache_hits_total{{e="0"}} {own}\nvllm:external_prefix_cache_hits_total{{e="0"}} {external}\n'
