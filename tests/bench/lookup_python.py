"""The lookup bench's arm in Python: probes the chunks that lookup_bench stored, through ctypes.
Prints the p50 in microseconds last.

Environment, set by lookup_bench: LARDER_SOCKET, LARDER_BENCH_FINGERPRINT, LARDER_BENCH_PROMPTS."""

import os
import statistics
import struct
import sys
import time

from larder import Client

PROMPT_CHUNKS = 64
PROBES = 2000
ROUNDS = 9
MASK = (1 << 64) - 1


def block_hash(i):
    """As bench_hash() in small_client.h."""
    return struct.pack(
        "<QQ", (i + 1) * 0xD6E8FEB86659FD93 & MASK, (i + 1) * 0xA0761D6478BD642F & MASK
    )


def block_hashes(number):
    """The block hashes of one prompt, in vLLM's form: a list of bytes."""
    return [block_hash(number * PROMPT_CHUNKS + i) for i in range(PROMPT_CHUNKS)]


def main():
    prompts = int(os.environ["LARDER_BENCH_PROMPTS"])
    rounds = []
    with Client(engine="bench python") as client:
        client.set_namespace(os.environ["LARDER_BENCH_FINGERPRINT"], "bench", 256, [(64, 1, 1)])
        if not client.wait_attached(10_000):
            sys.exit("larderd does not answer")
        for start in range(ROUNDS):
            asked = [block_hashes((start * PROBES + i) * 7 % prompts) for i in range(PROBES)]
            times = []
            for hashes in asked:
                begin = time.perf_counter_ns()
                found = client.lookup(b"".join(hashes), 16)
                times.append(time.perf_counter_ns() - begin)
                if found != PROMPT_CHUNKS:
                    sys.exit(f"only {found} of {PROMPT_CHUNKS} chunks were found")
            rounds.append(statistics.median(times))
    print(statistics.median(rounds) / 1e3)


if __name__ == "__main__":
    main()
