#!/usr/bin/env python3
"""comments.py: of the lines of each program's sources (*.cc), at least 8% are comments. Prints each
folder below this share; exit status 1 then.

The share says nothing about the words: docs/contributing/style.md has what a comment is for."""

import sys

from pages import ROOT, report, tracked

LEAST = 0.08
FOLDERS = ("sidecar", "operator", "shim", "cuda")


def share_of(paths):
    lines = [line.strip() for path in paths for line in (ROOT / path).read_text().splitlines()]
    return sum(line.startswith("//") for line in lines) / len(lines)


def check():
    found = []
    for folder in FOLDERS:
        share = share_of(tracked(f"{folder}/*.cc"))
        if share < LEAST:
            found.append(f"{folder}: {share:.1%} of lines of *.cc are comments, not {LEAST:.0%}")
    return found


if __name__ == "__main__":
    sys.exit(report(check()))
