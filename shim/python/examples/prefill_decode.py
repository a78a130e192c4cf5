r"""prefill_decode.py --prefill URL --decode URL [--port 8000]: prefill and decode apart, each in a
vLLM of its own, as one server.

Each completion goes to the prefill engine first, for a single token, then unchanged to the decode
engine. The decode engine finds the prompt's KV in Larder and computes only the last few tokens. The
engines share one larderd (one node), or each has a larderd of its own and these one backend
(backend.url, backend.prefix):

  vllm serve MODEL --port 8100 --kv-transfer-config \
    '{"kv_connector": "LarderConnector", "kv_connector_module_path": "larder.vllm",
      "kv_role": "kv_producer"}'                      # stores, never loads
  vllm serve MODEL --port 8200 --kv-transfer-config \
    '{..., "kv_role": "kv_consumer"}'                 # loads, never stores

If one engine is lost, the other one answers: without the prefill engine the decode engine computes
the prompt. An example, on the standard library alone: one process, a thread a request, no
authentication of its own. The client's API key goes to both engines. For engines behind https://,
--cacert FILE names the authority to trust in place of the system's."""

import argparse
import contextlib
import http.client
import json
import ssl
import sys
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMPLETIONS = ("/v1/completions", "/v1/chat/completions")
TIMEOUT_S = 600
PASSED_ON = ("Content-Type", "Authorization", "X-Request-Id")


def prefill_body(body):
    """The same prompt for one token. The text of the answer is not read."""
    changed = {**body, "max_tokens": 1, "stream": False}
    for name in ("stream_options", "min_tokens"):
        changed.pop(name, None)
    if "max_completion_tokens" in changed:
        changed["max_completion_tokens"] = 1
    return changed


def decode_body(body):
    """The store of the prefill engine may still be on the way to the decode engine's larderd. The
    decode engine waits for the chunks."""
    parameters = {"larder": "await", **(body.get("kv_transfer_params") or {})}
    return {**body, "kv_transfer_params": parameters}


def ask(engine, method, path, body, headers, trusted=None):
    """(connection, response). OSError or HTTPException: no server answers. trusted: an
    ssl.SSLContext for https."""
    parts = urllib.parse.urlsplit(engine)
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(parts.netloc, timeout=TIMEOUT_S, context=trusted)
    else:
        connection = http.client.HTTPConnection(parts.netloc, timeout=TIMEOUT_S)
    try:
        connection.request(method, path, body, headers)
        return connection, connection.getresponse()
    except BaseException:
        connection.close()
        raise


class Proxy(BaseHTTPRequestHandler):
    prefill = decode = ""  # set by serve()
    trusted = None

    def do_GET(self):
        self._answer(None, [self.decode, self.prefill])

    def do_POST(self):
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path in COMPLETIONS:
            try:
                body = json.loads(data)
            except ValueError:
                return self.send_error(400, "the body is no JSON")
            if isinstance(body, dict) and self._prefilled(json.dumps(prefill_body(body))):
                data = json.dumps(decode_body(body))
        self._answer(data, [self.decode, self.prefill])

    def _prefilled(self, data):
        try:
            connection, response = ask(
                self.prefill, "POST", self.path, data, self._headers(), self.trusted
            )
            with contextlib.closing(connection):
                response.read()
            return response.status == 200
        except (OSError, http.client.HTTPException) as error:
            self.log_message(
                "the prefill engine does not answer (%s): the decode engine computes", error
            )
            return False

    def _answer(self, data, engines):
        """Passes on the answer of the first engine that responds, part by part."""
        for engine in engines:
            try:
                connection, response = ask(
                    engine, self.command, self.path, data, self._headers(), self.trusted
                )
            except (OSError, http.client.HTTPException) as error:
                self.log_message("%s does not answer: %s", engine, error)
                continue
            with contextlib.closing(connection):
                return self._pass_on(response)
        self.send_error(502, "neither engine answers")

    def _pass_on(self, response):
        self.send_response(response.status)
        self.send_header("Content-Type", response.getheader("Content-Type", "application/json"))
        self.end_headers()
        try:
            while piece := response.read1(1 << 16):
                self.wfile.write(piece)
                self.wfile.flush()
        # the client sees a response that breaks off
        except (OSError, http.client.HTTPException) as error:
            self.log_message("broken off: %s", error)

    def _headers(self):
        return {name: self.headers[name] for name in PASSED_ON if name in self.headers}


def serve(prefill, decode, port, host="127.0.0.1", cacert=None):
    """A server that is bound and not yet running: serve_forever(), shutdown()."""
    trusted = ssl.create_default_context(cafile=cacert)
    handler = type("Handler", (Proxy,), {"prefill": prefill, "decode": decode, "trusted": trusted})
    return ThreadingHTTPServer((host, port), handler)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Prefill and decode apart.")
    parser.add_argument("--prefill", required=True, metavar="URL")
    parser.add_argument("--decode", required=True, metavar="URL")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument(
        "--cacert",
        metavar="FILE",
        help="authority of https:// engines, in PEM; default: the system's",
    )
    arguments = parser.parse_args()
    try:
        serve(
            arguments.prefill, arguments.decode, arguments.port, arguments.host, arguments.cacert
        ).serve_forever()
    except KeyboardInterrupt:
        sys.exit(130)
