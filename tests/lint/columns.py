#!/usr/bin/env python3
"""columns.py [--wrap]: no line of a source, of a script or of a wrapped paragraph of a page has
more than 100 columns. Prints FILE:LINE for each longer line; exit status 1 then. --wrap wraps the
paragraphs anew.

A paragraph of one line is not wrapped, and may be longer. Two kinds of lines of sources may be
longer. Text whose line breaks are data: a raw string of C++ or a string of Python over several
lines, but no docstring, and a here-document. Words for a tool at the end of a line do not count:
`# noqa`, `# fmt: skip`, `// NOLINT`."""

import io
import re
import sys
import textwrap
import tokenize

from pages import ROOT, report, tracked, without_code
from texts import CPP, TOKEN

MOST = 100
SCRIPTS = ("*.sh", ".ci/run", "*/vm/init", "Makefile", "*CMakeLists.txt", "*.cmake", "Dockerfile*")
SOURCES = ("*.py", "*.c", *(f"*{ending}" for ending in CPP), *SCRIPTS)
FOR_A_TOOL = re.compile(r"\s*(?:# (?:noqa|fmt|type|ruff)\b|// NOLINT\b).*")
HERE = re.compile(r"(?<!<)<<-?(['\"]?)(\w+)\1.*\n((?:.*\n)*?)\t*\2\n")
FOREIGN = ("shared/", "tests/fuzz/corpora/")
# Lines of a page that belong to no paragraph: empty, a heading, a row, a comment, a note's mark.
NO_PROSE = re.compile(r"\s*(?:$|#|\||<|>|---)")
BLOCK = re.compile(r" {4}(?! *(?:[-*+]|\d+\.) )")  # such a first line makes a block of code
ITEM = re.compile(r"(\s*)((?:[-*+]|\d+\.) +)?")
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


def paragraphs(text):
    """(number of the first line, lines) of each wrapped paragraph or item of a page."""
    lines, kept = text.split("\n"), without_code(text).split("\n")
    begin = None
    for number in range(len(lines) + 1):
        prose = number < len(kept) and not NO_PROSE.match(kept[number])
        in_block = begin is not None and BLOCK.match(lines[begin])
        if begin is not None and (not prose or (ITEM.match(lines[number])[2] and not in_block)):
            if number - begin > 1 and not in_block:
                yield begin + 1, lines[begin:number]
            begin = None
        if prose and begin is None:
            begin = number


def longer_prose(text):
    """(line, columns) of each line of a wrapped paragraph with too many columns, unless a long link
    or long inline code cannot be wrapped."""
    for first, lines in paragraphs(text):
        if wrapped(lines) == lines:
            continue
        for number, line in enumerate(lines, first):
            if len(line) > MOST and len(line.split()) > 1:
                yield number, len(line)


def wrapped(lines):
    """The lines of a paragraph, wrapped anew. Inline code stays on one line."""
    indent, mark = ITEM.match(lines[0]).groups(default="")
    words = " ".join(line.strip() for line in lines)[len(mark) :]
    words = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "\0"), words)
    first, later = indent + mark, indent + " " * len(mark)
    filled = textwrap.wrap(
        words,
        MOST,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in filled]


def wrap(text):
    """The page with each paragraph that has a longer line wrapped anew."""
    lines = text.split("\n")
    for first, old in reversed(list(paragraphs(text))):
        if any(len(line) > MOST for line in old):
            lines[first - 1 : first - 1 + len(old)] = wrapped(old)
    return "\n".join(lines)


def pages():
    return [path for path in tracked("*.md") if not str(path).startswith(FOREIGN)]


def check():
    found = []
    for path in tracked(*SOURCES):
        for number, columns in longer_lines(path, (ROOT / path).read_text()):
            found.append(f"{path}:{number}: {columns} columns, at most {MOST}")
    for path in pages():
        for number, columns in longer_prose((ROOT / path).read_text()):
            found.append(f"{path}:{number}: {columns} columns, at most {MOST}: columns.py --wrap")
    return found


if __name__ == "__main__":
    if sys.argv[1:] == ["--wrap"]:
        for page in pages():
            (ROOT / page).write_text(wrap((ROOT / page).read_text()))
    sys.exit(report(check()))
