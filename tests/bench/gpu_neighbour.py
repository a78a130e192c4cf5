"""Another process with work on the same GPU: the time of its launches while a process registers
memory.

Usage: gpu_neighbour.py LIBRARY. Says "ready", launches until the end of its standard input, and
prints the times of gpu_arms.Arms.launches()."""

from __future__ import annotations

import json
import sys

from gpu_arms import Arms


def main() -> None:
    arms = Arms(sys.argv[1])
    with arms.launches() as took:
        print("ready", flush=True)
        sys.stdin.read()
    print(json.dumps(took), flush=True)


if __name__ == "__main__":
    main()
