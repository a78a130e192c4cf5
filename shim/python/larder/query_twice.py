"""python -m larder.query_twice --url URL --file F: the same long prompt twice, and what the second time cost.

Resets the engine's own prefix cache in between, so that a hit can only come from Larder; where the server does not offer that, its
metrics tell which cache the hit came from."""

import argparse
import sys
from dataclasses import dataclass

from larder.completions import ServerError, first_model, hit_tokens, reset_prefix_cache, stream_completion

CONTINUATION = 32


@dataclass
class Twice:
    prompt_tokens: int
    hit_tokens: int
    cold_s: float
    warm_s: float
    identical: bool
    source: str  # which cache the second answer came from


def query_twice(url, model, prompt, max_tokens=CONTINUATION):
    cold = stream_completion(url, model, prompt, max_tokens)
    was_reset = reset_prefix_cache(url)
    before = hit_tokens(url)
    warm = stream_completion(url, model, prompt, max_tokens)
    after = hit_tokens(url)
    own, external = (int(b - a) for a, b in zip(before or (0, 0), after or (0, 0)))
    same = cold.token_ids == warm.token_ids and cold.text == warm.text
    hit = external if external or own or before else warm.cached_tokens
    return Twice(warm.prompt_tokens, hit, cold.ttft_s, warm.ttft_s, same, _source(was_reset, before, own, external))


def _source(was_reset, measured, own, external):
    if measured is None:
        return "external cache (the engine's own was reset)" if was_reset else "unknown: the server shows no metrics"
    if external and own:
        return f"external cache {external} tokens, the engine's own {own}"
    if external:
        return "external cache"
    return "the engine's own prefix cache, which could not be reset" if own else "none: nothing hit"


def lines(twice):
    """What is printed, one line a fact."""
    return [
        f"tokens in the prompt   {twice.prompt_tokens}",
        f"tokens hit             {twice.hit_tokens}",
        f"TTFT cold              {twice.cold_s * 1e3:.0f} ms",
        f"TTFT warm              {twice.warm_s * 1e3:.0f} ms",
        f"factor                 {twice.cold_s / twice.warm_s:.1f}",
        f"hit came from          {twice.source}",
        f"{CONTINUATION} tokens identical    {'yes' if twice.identical else 'NO'}",
    ]


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m larder.query_twice", description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True, help="of the server, e.g. http://127.0.0.1:8000")
    parser.add_argument("--file", required=True, help="text that makes a long prompt")
    parser.add_argument("--model", help="served name; default: the server's first")
    options = parser.parse_args(arguments)
    try:
        with open(options.file, encoding="utf-8", errors="replace") as file:
            prompt = file.read()
        twice = query_twice(options.url, options.model or first_model(options.url), prompt)
    except (ServerError, OSError) as error:
        print(f"query_twice: {error}", file=sys.stderr)
        return 1
    print("\n".join(lines(twice)))
    return 0 if twice.identical else 1


if __name__ == "__main__":
    sys.exit(main())
