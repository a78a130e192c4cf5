"""larderctl simulate and kvcache-simulator agree on fifo, lru and optimal."""

import gzip
import inspect
import json
import os
import random
import subprocess
from collections import OrderedDict
from pathlib import Path

import pytest
from kvcache_sim import policies
from kvcache_sim.plan import build_execution_plan
from kvcache_sim.policies import simulate_policy
from kvcache_sim.trace import parse_trace_lines

BLOCK_TOKENS = 512
POLICIES = ("fifo", "lru", "optimal")
HERE = Path(__file__).parent
MOONCAKE = HERE.parents[2] / "shared" / "traces" / "mooncake_synthetic.jsonl"


def generated():
    """Applications with a system prompt and documents each; conversations that come back longer."""
    source, made = random.Random(20261127), [0]

    def fresh(count):
        made[0] += count
        return list(range(made[0] - count, made[0]))

    systems = [fresh(source.randrange(2, 9)) for _ in range(6)]
    documents = [source.choice(systems) + fresh(source.randrange(5, 60)) for _ in range(80)]
    talks, lines = [], []
    for number in range(1500):
        if talks and source.random() < 0.6:
            prompt = source.choice(talks[-40:])
        else:
            prompt = documents[min(int(source.paretovariate(0.8)) - 1, len(documents) - 1)]
        prompt = prompt + fresh(source.randrange(1, 6))
        talks.append(prompt)
        tokens = len(prompt) * BLOCK_TOKENS - source.randrange(BLOCK_TOKENS)
        lines.append({"timestamp": number, "input_length": tokens, "hash_ids": prompt})
    return [json.dumps(one) for one in lines]


def agentic():
    return gzip.decompress((HERE / "agentic_code.jsonl.gz").read_bytes()).decode().splitlines()


def mooncake():
    if not MOONCAKE.exists():
        pytest.skip("no ../shared/traces")
    return MOONCAKE.read_text().splitlines()


def by_larderctl(lines, sizes, folder, warm_up=50):
    trace = folder / "trace.jsonl"
    trace.write_text("\n".join(lines) + "\n")
    command = [Path(os.environ["LARDER_TEST_BIN"]) / "larderctl", "simulate", trace]
    command += ["--block-bytes", "1KiB", "--sizes", ",".join(f"{size}KiB" for size in sizes)]
    command += ["--policies", ",".join(POLICIES), "--warm-up", str(warm_up), "--output", "json"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return {
        (one["policy"], one["size_bytes"] // 1024): one["hit_ratio"]
        for one in json.loads(said.stdout)["results"]
    }


def corrected():
    """simulate_trie_policy of kvcache-simulator, with one line more. For a prompt longer than the
    cache the function evicts the block stored last, and stores no block in its place. The cache
    then has one block less than its size."""
    source = inspect.getsource(policies.simulate_trie_policy)
    line = "                add_node(node, index)\n"
    assert source.count(line) == 1
    source = source.replace(line, line + "                protected_mark[node] = mark_value\n")
    names = dict(vars(policies))
    exec(source, names)
    return names["simulate_trie_policy"]


@pytest.mark.parametrize("trace", [agentic, generated, mooncake])
def test_prompts_longer_than_the_memory(trace, tmp_path):
    lines, sizes, simulate = trace(), (16, 32, 64), corrected()
    plan = build_execution_plan(
        parse_trace_lines(lines, block_size=BLOCK_TOKENS), warmup_fraction=0.5
    )
    ours = by_larderctl(lines, sizes, tmp_path)
    for size in sizes:
        lru, optimal = (simulate(plan, size, optimal=one).hitRate for one in (False, True))
        assert ours["lru", size] == pytest.approx(lru, abs=0.0001), size
        assert ours["optimal", size] == pytest.approx(optimal, abs=0.001), size


@pytest.mark.parametrize(
    "trace, sizes",
    [(agentic, (128, 256, 512)), (generated, (150, 400, 1000)), (mooncake, (256, 1000, 5000))],
)
def test_both_programs_agree(trace, sizes, tmp_path):
    lines = trace()
    parsed = parse_trace_lines(lines, block_size=BLOCK_TOKENS)
    plan = build_execution_plan(parsed, warmup_fraction=0.5)
    ours = by_larderctl(lines, sizes, tmp_path)
    for policy in POLICIES:
        for size in sizes:
            theirs = simulate_policy(plan, policy, size)
            assert theirs.measurementMode == "fixed_window", (policy, size)
            assert ours[policy, size] == pytest.approx(theirs.hitRate, abs=0.001), (policy, size)


def heads_first(lines, size):
    """The hit rate of an LRU that touches the blocks of a prompt from the first on, as larderd did
    before 1.9: the head leaves first, and its tail has no use."""
    memory, tokens, hit_tokens = OrderedDict(), 0, 0
    for request in map(json.loads, lines):
        blocks, length = request["hash_ids"], request["input_length"]
        hit = next((i for i, one in enumerate(blocks) if one not in memory), len(blocks))
        for block in blocks:
            memory[block] = None
            memory.move_to_end(block)
            if len(memory) > size:
                memory.popitem(last=False)
        tokens += length
        hit_tokens += min(hit * BLOCK_TOKENS, length)
    return hit_tokens / tokens


@pytest.mark.parametrize("trace, gain", [(agentic, 0.125), (generated, 0.07)])
def test_tails_first_finds_more_in_a_memory_of_about_one_prompt(trace, gain, tmp_path):
    lines = trace()
    size = max(len(json.loads(line)["hash_ids"]) for line in lines) - 1
    ours = by_larderctl(lines, (size,), tmp_path, warm_up=0)["lru", size]
    assert ours - heads_first(lines, size) >= gain, (ours, heads_first(lines, size))
