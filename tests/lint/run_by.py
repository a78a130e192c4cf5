"""Whether a test, by its name in a page, has a command (guides.py tells the rules). Pure Python."""

import ast
import re
from functools import cache
from pathlib import Path

from commands import PAGES, PROSE, blocks, commands_of, words
from pages import ROOT, tracked
from code_of_tests import body_of, code_of, has


@cache
def recipe(target):
    makefile = (ROOT / "Makefile").read_text()
    found = re.search(rf"(?m)^{re.escape(target)}(?: [\w-]+)*:(?!=).*\n((?:\t.*\n)*)", makefile)
    return found and found[0]


@cache
def body(named):
    """The code of a test, by its name in a mark; None if there is no such test."""
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
    """Whether a test says to leave such a line of its pages out."""
    only = _tuple(path, "ONLY")
    return line.startswith(_tuple(path, "ELSEWHERE") or "\n") or not line.startswith(only or "")


def reads(path, page):
    names = {Path(one).name.removesuffix(".md") for one in code_of(path)[-1] if len(one) < 100}
    return page.stem in names


@cache
def _taken(path):
    """Commands, as words, that a test takes from pages."""
    found = []
    for page in (ROOT / one for one in tracked(*PAGES)):
        if not reads(path, page) or not any("```" in one for one in code_of(path)[-1]):
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
