#!/usr/bin/env python3
"""comments.py: of the lines of each program's sources (*.cc), at least 8% are comments, and of each
room's (one folder) at least 6%. Prints each folder below its share; exit status 1 then.

The share says nothing about the words: docs/contributing/style.md has what a comment is for."""

import sys

from pages import ROOT, report, tracked

LEAST = 0.08
LEAST_OF_ROOM = 0.06  # a mean over the program hides a room without comments
FOLDERS = ("sidecar", "operator", "shim", "cuda")


def share_of(paths):
    lines = [line.strip() for path in paths for line in (ROOT / path).read_text().splitlines()]
    return sum(line.startswith("//") for line in lines) / len(lines)


def check():
    found = []
    for program in FOLDERS:
        sources = tracked(f"{program}/*.cc")
        found += fault(program, sources, LEAST)
        for room in sorted({path.parent for path in sources}):
            found += fault(room, [one for one in sources if one.parent == room], LEAST_OF_ROOM)
    return found


def fault(folder, sources, least):
    share = share_of(sources)
    if share < least:
        yield f"{folder}: {share:.1%} of lines of *.cc are comments, not {least:.0%}"


if __name__ == "__main__":
    sys.exit(report(check()))
