#!/usr/bin/env python3
"""guides.py: each command of README.md, docs/get-started and docs/guides is run by a test, or its
page says why not. A comment stands directly above each shell block:

    <!-- run by: tests/python/unit/test_top.py::test_once, make demo -->
    <!-- not run: `docker`, `helm repo`: no registry was at hand -->
    <!-- not run: a GPU was not at hand -->

A test is PATH::NAME, in C++ PATH::SUITE.NAME; `make TARGET` is a target of the Makefile. "not run"
without commands speaks of the whole block, otherwise of the commands that begin so. Faults: a shell
block without a mark, a mark without a block, a test that does not exist, a command that its tests
do not have. A block of another language may have a mark; there the tests alone are looked up.
Prints FILE:LINE for each fault; exit status 1 then.

A test has a command in one of these cases:
- all distinguishing words of the command (commands.py) are in the code of the test's file or of
  files that the file imports; comments and docstrings do not count;
- the test takes its commands from a page: its strings name the page and a fence, and a block of
  that page has a command with these words. Beginnings of commands in the tuple ELSEWHERE of the
  file are left out by the test; if the tuple ONLY is there, the test takes these alone;
- of `make TARGET`: the mark names the target itself, or the test runs a script of the target's
  recipe, or `cmake --install` as the recipe does.

The check proves that program, subcommand and option names occur where the mark says. The check does
not prove that the named function runs the command, nor that values and order are those of the page:
the author of a mark looks."""

import ast
import re
import sys
from pathlib import Path

from commands import code_of, has, split, words
from pages import ROOT, tracked

PAGES = ("README.md", "docs/get-started/*.md", "docs/guides/*.md")
SHELLS = ("sh", "bash", "console", "shell")
FENCE = re.compile(r" *(```+|~~~+)(\S*)")
MARK = re.compile(r" *<!-- (run by|not run): (.*?) -->$")
EXCUSED = re.compile(r"((?:`[^`]+`,? ?)+): ")


def blocks(text):
    """(line, language, marks, lines) of each fenced block; `marks`: (kind, text), top down."""
    marks, fence, held = [], None, []
    for number, line in enumerate(text.splitlines(), 1):
        mark, edge = MARK.match(line), FENCE.match(line)
        if fence is not None:
            if line.strip() == fence[1]:
                yield (*fence[2:], held)
                fence = None
            else:
                held.append(line)
        elif edge:
            fence, held = (edge, edge[1], number, edge[2], marks), []
            marks = []
        elif mark:
            marks.append((mark[1], mark[2]))
        elif marks:
            yield number - 1, "", marks, None
            marks = []
    if marks:
        yield number, "", marks, None


def recipe(target):
    makefile = (ROOT / "Makefile").read_text()
    found = re.search(rf"(?m)^{re.escape(target)}(?: [\w-]+)*:(?!=).*\n((?:\t.*\n)*)", makefile)
    return found and found[0]


def fault_of_test(named):
    """Why a name of a mark is no test, or None."""
    path, _, name = named.partition("::")
    if named.startswith("make "):
        return None if recipe(named[5:]) else f"{named} is no target of the Makefile"
    if not (ROOT / path).is_file():
        return f"{path} does not exist"
    text = (ROOT / path).read_text()
    if path.endswith(".py"):
        found = re.search(rf"(?m)^ *def {re.escape(name)}\(", text)
    else:
        suite, _, case = name.partition(".")
        found = re.search(rf"TEST(_F|_P)?\({re.escape(suite)}, {re.escape(case)}\)", text)
    return None if name and found else f"{path} has no test '{name}'"


def _tuple(path, name):
    """The strings of a tuple at the top of a Python file."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == name:
            return ast.literal_eval(node.value)
    return ()


def _left_out(path, command):
    """Whether a test says that it does not take such a command from its pages."""
    text = " ".join(command) + " "
    left, only = _tuple(path, "ELSEWHERE"), _tuple(path, "ONLY")
    return text.startswith(tuple(left) or "\n") or not text.startswith(tuple(only) or "")


def _taken(path, page):
    """Commands, as words, that a test takes from `page`; none where it does not read the page."""
    _, strings = code_of(path)
    names = {Path(one).name.removesuffix(".md") for one in strings if len(one) < 100}
    if page.stem not in names or not any("```" in one for one in strings):
        return
    for _, language, _, lines in blocks(page.read_text()):
        for command in split(lines or ()) if language in SHELLS else ():
            if not _left_out(path, command):
                yield words(command)


def runs(named, command):
    """Whether a test, by its name in a mark, has a command."""
    wanted = words(command)
    if named.startswith("make "):
        return wanted == named.split()
    path = ROOT / named.partition("::")[0]
    code, _ = code_of(path)
    if path.suffix == ".py" and _left_out(path, command):
        return False
    if wanted[0] == "make":
        steps = re.findall(r"\.ci/(?:\w+/)*([\w-]+\.sh)|(cmake --install)", recipe(wanted[1]) or "")
        if any(has(code, (script or cmake).split()) for script, cmake in steps):
            return True
    if path.suffix == ".py":
        for page in (ROOT / one for one in tracked(*PAGES)):
            if any(wanted[0] == one[0] and set(wanted) <= set(one) for one in _taken(path, page)):
                return True
    return has(code, wanted)


def faults_of_block(language, marks, lines):
    tests = [one.strip() for kind, text in marks if kind == "run by" for one in text.split(",")]
    reasons = [text for kind, text in marks if kind == "not run"]
    if lines is None:
        yield "a mark stands above no block"
        return
    shell = language in SHELLS or any(line.lstrip().startswith("$ ") for line in lines)
    if shell and not marks:
        yield "a shell block without 'run by' or 'not run' directly above"
    dead = [fault for fault in map(fault_of_test, tests) if fault]
    yield from dead
    if not marks or not shell:
        return
    excused = [EXCUSED.match(one) for one in reasons]
    if not all(excused):  # a reason for the whole block
        if tests:
            yield "'run by' and 'not run' of the whole block"
        return
    begins = [one for found in excused for one in re.findall("`([^`]+)`", found[1])]
    asked = [" ".join(command) for command in split(lines)]
    yield from (f"'not run' of `{one}`, which is not in the block" for one in begins
                if not any(text.startswith(one) for text in asked))
    for command, text in zip(split(lines), asked):
        if not dead and not text.startswith(tuple(begins) or "\n"):
            if not any(runs(named, command) for named in tests):
                yield f"no test of the mark has `{' '.join(words(command))}`"


def check(paths=None):
    found = []
    for path in paths or [ROOT / one for one in tracked(*PAGES)]:
        for number, *block in blocks(path.read_text()):
            found += [f"{path}:{number}: {fault}" for fault in faults_of_block(*block)]
    return [fault.removeprefix(f"{ROOT}/") for fault in found]


if __name__ == "__main__":
    faults = check()
    print(*faults, sep="\n", end="\n" if faults else "")
    sys.exit(1 if faults else 0)
