#!/usr/bin/env python3
"""links.py: every link of a Markdown page leads to a file and a heading of this repository. Every
page of docs/ named in any file exists. Prints FILE:LINE for each fault; exit status 1 then."""

import re
import sys

from pages import ROOT, anchors, report, tracked, without_code

LINK = re.compile(r"\]\(<?([^)\s>]*)>?(?: \"[^\"]*\")?\)")
NAMED = re.compile(r"(?<![\w/.-])docs/[\w./-]+\.md\b")
ELSEWHERE = ("http://", "https://", "mailto:")


def broken_links(path, text, headings):
    """(line, why) of each link of a page; `headings` gives the anchors of a page of ROOT."""
    for number, line in enumerate(without_code(text).splitlines(), 1):
        for target in LINK.findall(line):
            if target.startswith(ELSEWHERE):
                continue
            place, _, section = target.partition("#")
            there = (path.parent / place).resolve() if place else path.resolve()
            if not there.exists():
                yield number, f"links to {target}, which does not exist"
            elif section and there.suffix == ".md" and section not in headings(there):
                yield number, f"links to {target}: {there.name} has no such heading"


def broken_names(text):
    """(line, why) of each named page of docs/ that does not exist."""
    for number, line in enumerate(text.splitlines(), 1):
        for name in NAMED.findall(line):
            if not (ROOT / name).exists():
                yield number, f"names {name}, which does not exist"


def check():
    known = {}

    def headings(page):
        if page not in known:
            known[page] = anchors(page.read_text())
        return known[page]

    found = []
    for path in tracked():
        try:
            text = (ROOT / path).read_text()
        except UnicodeDecodeError:
            continue
        faults = list(broken_names(text))
        if path.suffix == ".md":
            faults += broken_links(ROOT / path, text, headings)
        found += [f"{path}:{number}: {why}" for number, why in faults]
    return found


if __name__ == "__main__":
    sys.exit(report(check()))
