#!/usr/bin/env python3
"""columns.py: no line of a source or script has more than 100 columns. Prints FILE:LINE for each
longer line; exit status 1 then.

Two kinds of lines may be longer. Text whose line breaks are data: a raw string of C++ or a string
of Python over several lines, but no docstring, and a here-document. Words for a tool at the end of
a line do not count: `# noqa`, `# fmt: skip`, `// NOLINT`."""

import io
import re
import sys
import tokenize

from pages import ROOT, report, tracked
from texts import CPP, TOKEN

MOST = 100
SCRIPTS = ("*.sh", ".ci/run", "*/vm/init", "Makefile", "*CMakeLists.txt", "*.cmake", "Dockerfile*")
SOURCES = ("*.py", "*.c", *(f"*{ending}" for ending in CPP), *SCRIPTS)
FOR_A_TOOL = re.compile(r"\s*(?:# (?:noqa|fmt|type|ruff)\b|// NOLINT\b).*")
HERE = re.compile(r"(?<!<)<<-?(['\"]?)(\w+)\1.*\n((?:.*\n)*?)\t*\2\n")
BEGIN = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}  # before a statement
NO_CODE = {tokenize.NL, tokenize.COMMENT}
F_STRING = getattr(tokenize, "FSTRING_START", None), getattr(tokenize, "FSTRING_END", None)


def data_lines(path, text):
    """The numbers of the lines with text whose line breaks are data."""
    find = _of_python if path.suffix == ".py" else _of_cpp if path.suffix in CPP else _of_script
    return {line for first, last in find(text) if last > first for line in range(first, last + 1)}


def _of_cpp(text):
    return [_lines(text, *one.span()) for one in TOKEN.finditer(text) if one["raw"] is not None]


def _of_script(text):
    return [_lines(text, *one.span(3)) for one in HERE.finditer(text)]


def _lines(text, start, end):
    return text.count("\n", 0, start) + 1, text.count("\n", 0, end) + 1


def _of_python(text):
    begins, f_strings = True, []
    for one in tokenize.generate_tokens(io.StringIO(text).readline):
        if one.type == tokenize.STRING and not begins:
            yield one.start[0], one.end[0]
        elif one.type == F_STRING[0]:
            f_strings.append(one.start[0])
        elif one.type == F_STRING[1]:
            yield f_strings.pop(), one.end[0]
        if one.type not in NO_CODE:
            begins = one.type in BEGIN


def longer_lines(path, text):
    """(line, columns) of each line with too many columns."""
    data = data_lines(path, text)
    for number, line in enumerate(text.split("\n"), 1):
        columns = len(FOR_A_TOOL.sub("", line).expandtabs(8))
        if columns > MOST and number not in data:
            yield number, columns


def check():
    found = []
    for path in tracked(*SOURCES):
        for number, columns in longer_lines(path, (ROOT / path).read_text()):
            found.append(f"{path}:{number}: {columns} columns, at most {MOST}")
    return found


if __name__ == "__main__":
    sys.exit(report(check()))
