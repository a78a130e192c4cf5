"""Code of tests, in which guides.py looks up words: without comments and docstrings. Pure
Python."""

import ast
import re
from functools import cache

from pages import ROOT


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
    """Modules of the test's folder or of e2e/ that a tree imports, and conftest.py beside the
    test."""
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
    """The code of a test, without comments; with the code of imported files; and the test's
    strings."""
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
    """The code of the test NAME or SUITE.NAME of a file's text, without comments; None: no such. Of
    Python also the functions of the file that the test names, as a case of its parameters does."""
    suite, _, case = name.rpartition(".")
    if suite:
        test = rf"TEST(?:_F|_P)?\({re.escape(suite)}, {re.escape(case)}\) \{{\n(.*?)\n\}}"
        found = re.search(test, text, re.DOTALL)
        return found and re.sub(r"(?m)(^|\s)//.*$", "", found[1])
    tree = _without_docstrings(ast.parse(text))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    test = next((node for node in functions if node.name == name), None)
    if test is None or not name.startswith("test_"):
        return None
    called = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    return "\n".join(ast.unparse(node) for node in functions if node is test or node.name in called)
