#!/usr/bin/env python3
"""guides.py: each command of README.md, docs/get-started and docs/guides is run by a test, or its
page says why not. A comment stands directly above each shell block:

    <!-- run by: tests/python/unit/test_top.py::test_once, make demo -->
    <!-- not run: `docker`, `helm repo`: no registry was at hand -->
    <!-- not run: a GPU was not at hand -->

A test is PATH::NAME, in C++ PATH::SUITE.NAME; `make TARGET` is a target of the Makefile. "not run"
without commands speaks of the whole block, otherwise of the commands that begin so. A command of a
paragraph or a table, `PROGRAM WORD...`, needs no comment if a test that some page names has the
command; otherwise a comment stands above the paragraph. Faults: a block without a mark, a mark
without a block, a test that does not exist, a command that its tests do not have. Prints FILE:LINE
for each; exit status 1 then.

A test has a command in one of these cases:
- the last word of the command (commands.py) is in the test's function, its long options are in the
  test's file, and its other words there or in files that the file imports; comments and docstrings
  do not count;
- the test takes its commands from a page: its strings name the page and a fence, and a block of
  that page has a command with these words. Lines that begin as in the tuple ELSEWHERE of the file
  are left out by the test; if the tuple ONLY is there, the test takes these alone;
- the comment stands above a paragraph or table, and the strings of the test name the page;
- of `make TARGET`: the mark names the target itself, or the test runs a script of the target's
  recipe, or `cmake --install` as the recipe does. In a paragraph, the target exists;
- the mark names `make TARGET`, and a script of the target's recipe has all words.

The check proves that program, subcommand and option names occur where the mark says. The check does
not prove that the named function runs the command, nor that values and order are those of the page:
the author of a mark looks."""

import ast
import re
import sys
from functools import cache
from pathlib import Path

from commands import body_of, code_of, has, lines_of, split, words
from pages import ROOT, tracked

PAGES = ("README.md", "docs/get-started/*.md", "docs/guides/*.md")
SHELLS = ("sh", "bash", "console", "shell")
PROSE = "prose"
PROGRAMS = "kubectl helm larderctl larderd make python oc redis-cli systemctl sysctl rm skopeo podman kind ctr docker vllm"
INLINE = re.compile(rf"(?<!`)`((?:{'|'.join(PROGRAMS.split())}) +[^`]+)`(?!`)")
FENCE = re.compile(r" *(```+|~~~+)(\S*)")
MARK = re.compile(r" *<!-- (run by|not run): (.*?) -->$")
EXCUSED = re.compile(r"((?:`[^`]+`,? ?)+): ")


def blocks(text):
    """(line, language, marks, lines) of each fenced block and of each paragraph, which has the
    language PROSE; `marks`: (kind, text), top down. A mark above neither has no lines."""
    marks, fence, held, began = [], None, [], 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        mark, edge = MARK.match(line), FENCE.match(line)
        if fence is not None:
            if line.strip() == fence[1]:
                yield began, fence[2], marks, held
                marks, fence, held = [], None, []
            else:
                held.append(line)
            continue
        if held and (mark or edge or not line.strip()):
            yield began, PROSE, marks, held
            marks, held = [], []
        if edge:
            fence, began = edge, number
        elif mark:
            marks.append((mark[1], mark[2]))
        elif line.strip():
            began = began if held else number
            held.append(line)
        elif marks:
            yield number - 1, "", marks, None
            marks = []


def commands_of(language, lines):
    """(command, line) of each command of a block."""
    if language == PROSE:
        lines = INLINE.findall("\n".join(lines).replace("\\|", "|"))
    elif language in SHELLS or any(line.lstrip().startswith("$ ") for line in lines):
        lines = lines_of(lines)
    else:
        lines = []
    return [(command, line) for line in lines for command in split(line)]


@cache
def recipe(target):
    makefile = (ROOT / "Makefile").read_text()
    found = re.search(rf"(?m)^{re.escape(target)}(?: [\w-]+)*:(?!=).*\n((?:\t.*\n)*)", makefile)
    return found and found[0]


@cache
def body(named):
    """The code of a test, by its name in a mark; None where there is no such test."""
    path, _, name = named.partition("::")
    if not (ROOT / path).is_file() or path.endswith(".py") == ("." in name):
        return None
    return body_of((ROOT / path).read_text(), name)


def fault_of_test(named):
    """Why a name of a mark is no test, or None."""
    path, _, name = named.partition("::")
    if named.startswith("make "):
        return None if recipe(named[5:]) else f"{named} is no target of the Makefile"
    if not (ROOT / path).is_file():
        return f"{path} does not exist"
    return f"{path} has no test '{name}'" if body(named) is None else None


@cache
def _tuple(path, name):
    """The strings of a tuple at the top of a Python file."""
    for node in ast.parse(path.read_text()).body if path.suffix == ".py" else ():
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == name:
            return tuple(ast.literal_eval(node.value))
    return ()


def _left_out(path, line):
    """Whether a test says that it does not take such a line from its pages."""
    only = _tuple(path, "ONLY")
    return line.startswith(_tuple(path, "ELSEWHERE") or "\n") or not line.startswith(only or "")


def _reads(path, page):
    names = {Path(one).name.removesuffix(".md") for one in code_of(path)[-1] if len(one) < 100}
    return page.stem in names


@cache
def _taken(path):
    """Commands, as words, that a test takes from pages."""
    found = []
    for page in (ROOT / one for one in tracked(*PAGES)):
        if not _reads(path, page) or not any("```" in one for one in code_of(path)[-1]):
            continue
        for _, language, _, lines in blocks(page.read_text()):
            if language != PROSE:
                of_block = commands_of(language, lines or ())
                found += [words(one) for one, line in of_block if not _left_out(path, line)]
    return found


def runs(named, command, line):
    """Whether a test, by its name in a mark, has a command of a line."""
    plain, options = words(command)
    if named.startswith("make "):
        scripts = re.findall(r"(?:\.ci|e2e|tests)/[\w/-]+\.sh", recipe(named[5:]))
        texts = [code_of(ROOT / one)[0] for one in scripts]
        return plain == named.split() or any(has(text, [*plain, *options]) for text in texts)
    path = ROOT / named.partition("::")[0]
    own, code, _ = code_of(path)
    if _left_out(path, line):
        return False
    if plain[0] == "make":
        text = recipe(plain[-1]) or ""
        steps = re.findall(r"\.ci/(?:\w+/)*([\w-]+\.sh)|(cmake --install)", text)
        if any(has(code, (script or cmake).split()) for script, cmake in steps):
            return True
    for taken, with_options in _taken(path):
        if taken[: len(plain)] == plain and set(options) <= set(with_options):
            return True
    return has(code, plain) and has(own, options) and has(body(named), plain[-1:])


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
    yield from (f"'not run' of `{one}`, which is not in the block" for one in begins
                if not any(text.startswith(one) for text in texts))
    for (command, line), text in zip(asked, texts):
        if dead or text.startswith(tuple(begins) or "\n"):
            continue
        if language == PROSE:
            files = [ROOT / one.partition("::")[0] for one in tests if "::" in one]
            read = any(_reads(one, page) for one in files)
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
    faults = check()
    print(*faults, sep="\n", end="\n" if faults else "")
    sys.exit(1 if faults else 0)
