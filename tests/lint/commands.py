"""Commands of shell blocks, and whether the code of a test has them (guides.py). Pure Python."""

import ast
import re
import shlex
from functools import cache

from pages import ROOT

SEPARATORS = {"&&", "||", "|", ";", "&", "--"}  # behind -- a program is given another command
MOST_WORDS = 2  # that distinguish a command: `helm install larder`, `kubectl larder status`


def lines_of(block):
    """The command lines of a block: a line that ends in \\ goes on; of a console, lines with "$ "."""
    lines = [line.strip() for line in "\n".join(block).replace("\\\n", " ").splitlines()]
    console = [line[2:] for line in lines if line.startswith("$ ")]
    return console or lines


def split(line):
    """The commands of a line, each a list of tokens."""
    tokens = shlex.shlex(line, posix=True, punctuation_chars=True)
    tokens.whitespace_split = True
    command, redirected = [], False
    for token in [*tokens, ";"]:
        if token in SEPARATORS:
            if command[:1] == ["make"]:  # one command for each target
                yield from (["make", one] for one in command[1:] if re.match(r"[a-z]", one))
            elif command:
                yield command
            command = []
        elif set(token) <= set("<>&") or redirected:
            redirected = not redirected  # the file behind > is no word of the command
        elif command or not re.match(r"\w+=|sudo$", token):
            command.append(token)


def words(command):
    """The words that tell a command from others: its program and the first plain words behind it,
    and its long options, as two lists. A value, a path, a name in capitals and a short option are
    not among them; the name of a Python script or module is."""
    program, *rest = command
    plain, options, skip = [], [], False
    for last, token in zip(command, rest):
        script = re.search(r"(\w+)\.py$", token) or last == "-m" and re.search(r"(\w+)$", token)
        if skip and not script:
            skip = False
        elif token.startswith("--"):
            options.append(token.partition("=")[0])
        elif token.startswith("-"):
            skip = len(token) == 2
        elif script or re.fullmatch(r"[a-z][a-z-]*", token):
            plain.append(script[1] if script else token)
            skip = False
    most = MOST_WORDS + (plain[:1] == ["larder"])  # a plug-in of kubectl has commands of its own
    return [program.rpartition("/")[2], *plain[:most]], options


def has(code, wanted):
    """Whether each of `wanted` is a word of the code."""
    found = (re.escape(word) for word in wanted)
    return all(re.search(rf"(?i)(?<![a-z0-9-]){word}(?![a-z0-9-])", code) for word in found)


def _without_docstrings(tree):
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            if isinstance(body[0].value, ast.Constant):
                body[0].value.value = ""
    return tree


def _imported(path, tree):
    """Modules of the test's folder or of e2e/ that a tree imports, and conftest.py beside it."""
    names = ["conftest"]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    for name in names:
        for folder in (path.parent, ROOT / "e2e"):
            module = (folder / name.replace(".", "/")).with_suffix(".py")
            if module.is_file():
                yield module


@cache
def code_of(path):
    """The code of a test, without comments; with that of the files it imports; and its strings."""
    code, strings, todo, seen = [], set(), [path], set()
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        text = one.read_text()
        if one.suffix == ".py":
            tree = _without_docstrings(ast.parse(text))
            code.append(ast.unparse(tree))
            nodes = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
            strings |= {value for value in nodes if isinstance(value, str)}
            todo += _imported(one, tree)
        else:
            code.append(re.sub(r"(?m)(^|\s)//.*$|^\s*#(?!include).*$", "", text))
            included = (one.parent / name for name in re.findall(r'#include ".*?([^/"]+)"', text))
            todo += [header for header in included if header.is_file()]
    return code[0], "\n".join(code), frozenset(strings)


def body_of(text, name):
    """The code of the test NAME or SUITE.NAME of a file's text, without comments; None: no such."""
    suite, _, case = name.rpartition(".")
    if suite:
        test = rf"TEST(?:_F|_P)?\({re.escape(suite)}, {re.escape(case)}\) \{{\n(.*?)\n\}}"
        found = re.search(test, text, re.DOTALL)
        return found and re.sub(r"(?m)(^|\s)//.*$", "", found[1])
    for node in ast.walk(_without_docstrings(ast.parse(text))):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return ast.unparse(node)
    return None
