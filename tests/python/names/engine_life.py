"""One life of a real vLLM over the test's larderd: a process that walks through steps and ends."""

from engines import run_offline


def live(world, model, *steps, refused="", **llm):
    """The answers of the steps that ask. Behind each ask larderd commits all stores, and vLLM's own
    prefix cache is emptied, unless the ask `keeps` the cache.

    refused: a part of the reason why the cache must be off; by default the cache must be on."""
    walked = [] if refused else [{"named": world.admin_socket}]
    for step in steps:
        walked.append(step)
        if "ask" in step:
            walked += [{"settle": world.admin_socket}] + [{"reset": True}] * (not step.get("keeps"))
    env = {"OMP_NUM_THREADS": "1", **llm.pop("env", {})}
    results, log = run_offline(
        model, world.socket, walked, env=env, timeout_s=900, **{"skip_tokenizer_init": True, **llm}
    )
    off = [line for line in log.splitlines() if "Larder is off for this engine" in line]
    assert [refused in line for line in off] == [True] * bool(refused), off or log[-3000:]
    return [result for result in results if isinstance(result, dict)]


def ask(tokens, **fields):
    return {"ask": tokens, **fields}


def alone(tokens, **fields):
    """The same engine without the cache."""
    return {"ask": tokens, "off": True, **fields}
