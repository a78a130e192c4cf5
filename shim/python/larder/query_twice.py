"""python -m larder.query_twice --url URL --file F: the same long prompt twice, and the cost of the
second time.

Resets the engine's own prefix cache in between, so that a hit can only come from Larder. A server
without the reset shows in its metrics which cache the hit came from. Larder's own share of the time
comes from larderd's metrics, if larderd can be reached."""

import argparse
import sys

from larder import larderd_metrics, report
from larder.completions import first_model, hit_tokens, reset_prefix_cache, stream_completion
from larder.server import NoServer, Server, ServerError


def query_twice(server, model, prompt, larderd_url=larderd_metrics.DEFAULT_URL):
    cold = stream_completion(server, model, prompt, report.CONTINUATION)
    was_reset = reset_prefix_cache(server)
    share, no_share = _first_reading(larderd_url)
    before = hit_tokens(server)
    warm = stream_completion(server, model, prompt, report.CONTINUATION)
    after = hit_tokens(server)
    own, external = (int(b - a) for a, b in zip(before or (0, 0), after or (0, 0)))
    measured = before is not None and after is not None
    hit = external if measured else warm.cached_tokens if was_reset else None
    if share:
        share, no_share = _second_reading(share, hit != 0)
    return report.Measured(
        prompt_tokens=warm.prompt_tokens,
        hit_tokens=hit,
        cold_s=cold.ttft_s,
        warm_s=warm.ttft_s,
        identical=cold.token_ids == warm.token_ids and cold.text == warm.text,
        share_ms=share,
        no_share=no_share,
        source=_source(was_reset, measured, own, external),
    )


def _first_reading(larderd_url):
    try:
        return larderd_metrics.Share(lambda: larderd_metrics.read(larderd_url)), ""
    except larderd_metrics.NotLarderd as why:
        return None, f"{why} (another: --larderd URL)"


def _second_reading(share, loaded):
    try:
        counted = share.wait(loads=1) if loaded else True
    except larderd_metrics.NotLarderd as why:
        return None, str(why)
    return (
        (share.milliseconds(), "")
        if counted
        else (None, "this larderd counted no load: the server uses another (which: --larderd URL)")
    )


def _source(was_reset, measured, own, external):
    if not measured:
        return (
            "external cache (the engine's own was reset)"
            if was_reset
            else "unknown: the server shows no metrics"
        )
    if external and own:
        return f"external cache {external} tokens, the engine's own {own}"
    if external:
        return "external cache"
    return "the engine's own prefix cache, which could not be reset" if own else "none: nothing hit"


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m larder.query_twice", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--url", required=True, help="of the server, e.g. http://127.0.0.1:8000")
    parser.add_argument(
        "--api-key",
        metavar="KEY",
        help="key of the server, empty: no key; default: VLLM_API_KEY, then OPENAI_API_KEY",
    )
    parser.add_argument(
        "--cacert",
        metavar="FILE",
        help="authority of an https:// server, in PEM; default: the system's",
    )
    parser.add_argument("--file", required=True, help="text that makes a long prompt")
    parser.add_argument("--model", help="served name; default: the server's first")
    parser.add_argument(
        "--larderd",
        default=larderd_metrics.DEFAULT_URL,
        metavar="URL",
        help="where larderd listens; default: %(default)s",
    )
    options = parser.parse_args(arguments)
    # A terminal or a file without the bars' characters must not cost the measurement.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    try:
        with open(options.file, encoding="utf-8", errors="replace") as file:
            prompt = file.read()
        server = Server(options.url, options.api_key, options.cacert)
        measured = query_twice(
            server, options.model or first_model(server), prompt, options.larderd
        )
    except NoServer as error:
        print(f"query_twice: {error}. Is a server like `vllm serve` up at --url?", file=sys.stderr)
        return 1
    except (ServerError, OSError) as error:
        print(f"query_twice: {error}", file=sys.stderr)
        return 1
    print(report.text(measured))
    return 0 if measured.identical else 1


if __name__ == "__main__":
    sys.exit(main())
