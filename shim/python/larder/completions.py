"""Completions of an OpenAI-compatible server, streamed: time to first token, tokens, usage; and
some of vLLM's metrics.

`server` is always a larder.server.Server or a URL. Uses the standard library only."""

import json
import time
from dataclasses import dataclass, field

from larder.server import NoServer, Server, ServerError

TIMEOUT_S = 900


@dataclass
class Completion:
    ttft_s: float = 0.0  # from sending the request to the first token
    total_s: float = 0.0
    token_ids: list = field(default_factory=list)
    text: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0  # as the server reports: its own cache and all connectors together


def stream_completion(server, model, prompt, max_tokens, timeout_s=TIMEOUT_S, **fields):
    """One greedy completion of exactly max_tokens tokens. prompt: text or token ids. `fields` go
    into the body of the request."""
    body = {
        "model": model,
        "prompt": prompt,
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "ignore_eos": True,
        "return_token_ids": True,
        "stream_options": {"include_usage": True},
        **fields,
    }
    server, completion = Server.at(server), Completion()
    begin = time.perf_counter()
    with server.request("POST", "/v1/completions", body, timeout_s) as response:
        for line in response:
            if line.startswith(b"data: {"):
                _take(completion, json.loads(line[6:]), begin)
    completion.total_s = time.perf_counter() - begin
    if not completion.ttft_s:
        raise ServerError(f"{server.url} ended the stream without a token")
    return completion


def _take(completion, event, begin):
    if "error" in event:
        raise ServerError(str(event["error"]))
    usage = event.get("usage")
    if usage:
        completion.prompt_tokens = usage.get("prompt_tokens", 0)
        completion.cached_tokens = (usage.get("prompt_tokens_details") or {}).get(
            "cached_tokens"
        ) or 0
    for choice in event.get("choices", []):
        if not completion.ttft_s:
            completion.ttft_s = time.perf_counter() - begin
        completion.token_ids += choice.get("token_ids") or []
        completion.text += choice.get("text") or ""


def first_model(server):
    """The name of the first model that the server serves."""
    server = Server.at(server)
    with server.request("GET", "/v1/models") as response:
        text = response.read()
    try:
        return json.loads(text)["data"][0]["id"]
    except (ValueError, LookupError, TypeError):
        raise NoServer(f"GET {server.url}/v1/models: the answer lists no models") from None


def reset_prefix_cache(server, patience_s=20):
    """Empties the engine's own prefix cache. False: the server does not offer the reset (with
    VLLM_SERVER_DEV_MODE=1 the server does), or blocks are still in use after patience_s. A block is
    in use by a running request, or by the store of the last request."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            with Server.at(server).request("POST", "/reset_prefix_cache", timeout_s=60) as response:
                answer = response.read()
        except ServerError:
            return False
        if not _says_no(answer):
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)


def _says_no(answer):
    """vLLM 0.32 reports the success; older releases answer without a body."""
    try:
        return json.loads(answer)["success"] is False
    except (ValueError, LookupError, TypeError):
        return False


def hit_tokens(server):
    """(engine's own, external) prompt tokens hit since the server's start, from the server's
    metrics. None: the server has no metrics."""
    try:
        with Server.at(server).request("GET", "/metrics") as response:
            lines = response.read().decode(errors="replace").splitlines()
    except ServerError:
        return None
    return tuple(
        sum(_sample(line) for line in lines if line.startswith((f"{name}_total", f"{name}{{")))
        for name in ("vllm:prefix_cache_hits", "vllm:external_prefix_cache_hits")
    )


def _sample(line):
    return float(line.rsplit(" ", 1)[1])
