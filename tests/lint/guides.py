#!/usr/bin/env python3
"""guides.py: each command of README.md, docs/get-started and docs/guides is run by a test, or its
page says why not. A comment stands directly above each shell block:

    <!-- run by: tests/python/unit/test_top.py::test_once, make demo -->
    <!-- not run: `docker`, `helm repo`: no registry was at hand -->
    <!-- not run: a GPU was not at hand -->

A test is PATH::test_NAME, in C++ PATH::SUITE.NAME; `make TARGET` is a target of the Makefile. "not
run" without commands speaks of the whole block, otherwise of the commands that begin so. A command
of a paragraph or a table, `PROGRAM WORD...`, needs no comment if a test that some page names has
the command; otherwise a comment stands above the paragraph. A block of another language may have a
comment, and only its tests are looked up. Faults: a shell block without a mark, a mark without a
block, a missing test, a command that its tests do not have. Prints FILE:LINE for each; exit status
1 then.

A test has a command in one of these cases:
- the last word of the command (commands.py) is in the test's function, or in a function of its file
  that the test names; its long options are in the test's file, and its other words there or in
  files that the file imports; comments and docstrings do not count;
- the test takes its commands from a page: its strings name the page and a fence. A block of that
  page has a command with these words. Lines that begin as in the tuple ELSEWHERE of the file
  are left out by the test; if the tuple ONLY is there, the test takes these alone;
- the comment stands above a paragraph or table, and the strings of the test name the page;
- of `make TARGET`: the mark names the target itself, or the test runs a script of the target's
  recipe, or `cmake --install` as the recipe does. In a paragraph, the target exists;
- the mark names `make TARGET`, and a script of the target's recipe has all words.

The check proves that program, subcommand and option names occur where the mark says. The check does
not prove that the named function runs the command, nor that values and order are those of the page.
The author of a mark looks."""

import re
import sys
from functools import cache

from commands import PAGES, PROSE, blocks, commands_of, words
from pages import ROOT, report, tracked
from run_by import fault_of_test, reads, recipe, runs

EXCUSED = re.compile(r"((?:`[^`]+`,? ?)+): ")


@cache
def _named():
    """All tests of the marks of all pages that exist."""
    found = [block for path in tracked(*PAGES) for block in blocks((ROOT / path).read_text())]
    marks = [text for _, _, marks, _ in found for kind, text in marks if kind == "run by"]
    tests = {one.strip() for text in marks for one in text.split(",")}
    return sorted(one for one in tests if not fault_of_test(one))


def _known(command, line):
    """Whether a command of a paragraph needs no mark."""
    plain, options = words(command)
    if len(plain) + len(options) < 2 or plain[0] == "make" and recipe(plain[-1]):
        return True
    return any(runs(named, command, line) for named in _named())


def faults_of_block(page, language, marks, lines):
    tests = [one.strip() for kind, text in marks if kind == "run by" for one in text.split(",")]
    reasons = [text for kind, text in marks if kind == "not run"]
    asked = commands_of(language, lines or ())
    if lines is None or language == PROSE and marks and not asked:
        yield "a mark stands above no block"
        return
    if asked and not marks and language != PROSE:
        yield "a shell block without 'run by' or 'not run' directly above"
        return
    dead = [fault for fault in map(fault_of_test, tests) if fault]
    yield from dead
    excused = [EXCUSED.match(one) for one in reasons]
    if not all(excused):  # a reason for the whole block
        if tests:
            yield "'run by' and 'not run' of the whole block"
        return
    begins = [one for found in excused for one in re.findall("`([^`]+)`", found[1])]
    texts = [" ".join(command) for command, _ in asked]
    yield from (
        f"'not run' of `{one}`, which is not in the block"
        for one in begins
        if not any(text.startswith(one) for text in texts)
    )
    for (command, line), text in zip(asked, texts):
        if dead or text.startswith(tuple(begins) or "\n"):
            continue
        if language == PROSE:
            files = [ROOT / one.partition("::")[0] for one in tests if "::" in one]
            read = any(reads(one, page) for one in files)
            if not read and not _known(command, line):
                yield f"no test has `{' '.join(sum(words(command), []))}`, and no mark says why"
        elif not any(runs(named, command, line) for named in tests):
            yield f"no test of the mark has `{' '.join(sum(words(command), []))}`"


def check(paths=None):
    found = []
    for path in paths or [ROOT / one for one in tracked(*PAGES)]:
        for number, *block in blocks(path.read_text()):
            found += [f"{path}:{number}: {fault}" for fault in faults_of_block(path, *block)]
    return [fault.removeprefix(f"{ROOT}/") for fault in found]


if __name__ == "__main__":
    sys.exit(report(check()))
