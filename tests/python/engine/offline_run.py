"""offline_run.py <JOB: one vLLM without a server walks through the steps of a JSON job. Writes a
list of results, one for each step, to the file named in the job.

Steps: {"ask": tokens, ...} gives {"tokens", "hit", "local", ...}: the answer, and the prompt tokens
from Larder and from vLLM's own prefix cache. Its fields are max_tokens, off (without Larder), salt,
lora, image, prompt, prompt_logprobs, and named_as. Images have numbers; see items(). prompt: more
fields of vLLM's prompt. named_as is another image, whose hash of vLLM is the uuid sent with this
one. {"ask_all": [tokens, ...]} asks for all at once and gives a list of answers and the sums.
{"reset": true} empties vLLM's own prefix cache, and {"reset": "external"} Larder's namespace too.
{"settle": admin socket} waits until larderd has committed all stores. {"zero": arena file} zeroes
every stored byte. {"touch": file}; {"await": file} waits until the file exists. {"named": admin
socket} sends small requests until the engine knows its weights and has a namespace. {"copy": [from,
to]} copies the files of a folder. {"reload": true} has vLLM load its weights anew. {"embed":
tokens} gives the first numbers of an embedding. {"add_lora": [name, number, path]} loads an
adapter."""

import http.client
import json
import os
import pathlib
import shutil
import socket
import sys
import time

import larder.vllm.items
import larder.vllm.stores_under_way

PATIENCE_S = 60
# The next ask must hit. On a busy machine late answers of larderd and late digests of items are
# waited for.
larder.vllm.stores_under_way.ANSWER_WAIT_MS = larder.vllm.stores_under_way.WINDOW_ANSWER_WAIT_MS = (
    1000 * PATIENCE_S
)
larder.vllm.items.DEADLINE_S = PATIENCE_S


def zero(path):
    with open(path, "r+b") as arena:
        block = bytes(1 << 20)
        for _ in range(os.path.getsize(path) // len(block)):
            arena.write(block)


def status_of(path):
    """larderd's status. path: the admin socket."""
    connection = http.client.HTTPConnection("localhost", timeout=PATIENCE_S)
    connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.sock.connect(path)
    connection.request("GET", "/v1/status")
    status = json.loads(connection.getresponse().read())
    connection.close()
    return status


def settle(path):
    """All earlier messages of an engine to larderd are handled when no grant is left."""
    # the first status may be older than the last ask
    deadline, earlier = time.monotonic() + PATIENCE_S, None
    while time.monotonic() < deadline:
        status = status_of(path)
        earlier = earlier or status["uptime_seconds"]
        if status["uptime_seconds"] > earlier and status["memory"]["slots"]["granted"] == 0:
            return
        time.sleep(0.02)
    raise TimeoutError("larderd still has grants")


COUNTED = {"preemptions": "vllm:num_preemptions", "drafts": "vllm:spec_decode_num_draft_tokens"}
# Of the first prefill of each request. vLLM 0.24 loses the counters of hits alone in a step that
# schedules only a load.
SOURCES = {"hit": "external_kv_transfer", "local": "local_cache_hit"}


def counters(llm):
    found = llm.get_metrics() if llm.llm_engine.log_stats else []
    sources = [one for one in found if one.name == "vllm:prompt_tokens_by_source"]
    counted = {
        name: sum(int(one.value) for one in found if one.name == metric)
        for name, metric in COUNTED.items()
    }
    return counted | {
        name: sum(int(one.value) for one in sources if one.labels["source"] == source)
        for name, source in SOURCES.items()
    }


def ask(llm, step):
    from vllm import SamplingParams

    before = counters(llm)
    extra = {"kv_transfer_params": {"larder": "off"}} if step.get("off") else None
    sampling = SamplingParams(
        max_tokens=step.get("max_tokens", 8),
        temperature=0,
        ignore_eos=True,
        prompt_logprobs=step.get("prompt_logprobs"),
        extra_args=extra,
    )
    asked = step.get("ask_all") or [step["ask"]]
    prompts = [{"prompt_token_ids": tokens} for tokens in asked]
    for prompt in prompts:
        if "salt" in step:
            prompt["cache_salt"] = step["salt"]
        for kind in filter(step.__contains__, ITEMS):
            prompt.setdefault("multi_modal_data", {})[kind] = items(kind, step[kind])
        prompt.update(step.get("prompt", {}))
        if "named_as" in step:
            prompt["multi_modal_uuids"] = {"image": [hash_of_vllm(llm, image(step["named_as"]))]}
    more = {"lora_request": lora(step["lora"])} if "lora" in step else {}
    if "priority" in step:
        more["priority"] = step["priority"]
    outputs = llm.generate(prompts, sampling, use_tqdm=False, **more)
    counted = {name: value - before[name] for name, value in counters(llm).items()}
    tokens = [list(output.outputs[0].token_ids) for output in outputs]
    if "ask_all" in step:
        return {"tokens": tokens, **counted}
    return {"tokens": tokens[0], **counted, "prompt_logprobs": of_the_prompt(outputs[0], asked[0])}


def of_the_prompt(output, tokens):
    """The log probability of each token of the prompt but the first, if the ask has
    prompt_logprobs."""
    if not output.prompt_logprobs:
        return None
    return [place[token].logprob for token, place in zip(tokens[1:], output.prompt_logprobs[1:])]


def lora(arguments):
    from vllm.lora.request import LoRARequest

    return LoRARequest(*arguments)


def image(seed):
    import numpy
    from PIL import Image

    return Image.fromarray(
        numpy.random.default_rng(seed).integers(0, 255, (56, 56, 3), dtype=numpy.uint8)
    )


# By the kind of item: makes the item of a number.
ITEMS = {"image": image}


def items(kind, numbers):
    """vLLM knows two forms without content. In a list, None is an item by its uuid alone. Without a
    list, None leaves out the item, and the uuid too."""
    if isinstance(numbers, list):
        return [None if number is None else ITEMS[kind](number) for number in numbers]
    return None if numbers is None else ITEMS[kind](numbers)


def hash_of_vllm(llm, picture):
    """vLLM's name of a picture without a uuid. A client can know all parts of the name."""
    from vllm.multimodal.hasher import MultiModalHasher

    return MultiModalHasher.hash_kwargs("blake3", model_id=llm.model_config.model, image=picture)


def wait_until_named(llm, path):
    """On a busy machine an engine reads its weights longer than its start waits for the weights.
    Until then the engine stores no chunk."""
    deadline = time.monotonic() + PATIENCE_S
    while not any(space["sessions"] for space in status_of(path)["namespaces"]):
        if time.monotonic() > deadline:
            raise TimeoutError("the engine has no namespace")
        ask(llm, {"ask": [3, 4, 5], "max_tokens": 1, "off": True})
        time.sleep(0.1)


def wait_for_file(path):
    deadline = time.monotonic() + PATIENCE_S
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {path}")
        time.sleep(0.02)


def reset(llm, external):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if llm.reset_prefix_cache(reset_connector=external):
            return True
        # Blocks of the last request may still be stored. An engine in this process goes on only
        # inside llm.generate().
        if os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0":
            llm.llm_engine.engine_core.get_output()
        time.sleep(0.01)
    raise TimeoutError("vLLM's prefix cache could not be reset")


def run(llm, step):
    if "zero" in step:
        return zero(step["zero"])
    if "settle" in step:
        return settle(step["settle"])
    if "touch" in step:
        return pathlib.Path(step["touch"]).touch()
    if "named" in step:
        return wait_until_named(llm, step["named"])
    if "await" in step:
        return wait_for_file(step["await"])
    if "copy" in step:
        return shutil.copytree(*step["copy"], dirs_exist_ok=True) and None
    if "add_lora" in step:
        return llm.llm_engine.add_lora(lora(step["add_lora"])) and None
    if "embed" in step:
        (output,) = llm.embed([{"prompt_token_ids": step["embed"]}], use_tqdm=False)
        return {"embedding": output.outputs.embedding[:8]}
    if "reload" in step:
        return llm.collective_rpc("reload_weights") and None
    if "reset" in step:
        return reset(llm, step["reset"] == "external")
    return ask(llm, step)


def main(job=None):
    """Without a job: the JSON in the standard input. A command line takes no prompt of 16,000
    tokens."""
    from vllm import LLM
    from vllm.config import KVTransferConfig, PoolerConfig

    job = json.load(sys.stdin) if job is None else job
    connector = KVTransferConfig(**{"kv_connector_extra_config": job["extra"], **job["connector"]})
    options = {
        "enforce_eager": True,
        "seed": 0,
        "max_model_len": 2048,
        "disable_log_stats": False,
        **job["llm"],
    }
    if "pooler_config" in options:
        options["pooler_config"] = PoolerConfig(**options["pooler_config"])
    llm = LLM(model=job["model"], kv_transfer_config=connector, **options)
    pathlib.Path(job["results"]).write_text(json.dumps([run(llm, step) for step in job["steps"]]))


if __name__ == "__main__":  # vLLM's processes import this file
    main()
