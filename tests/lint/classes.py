#!/usr/bin/env python3
"""classes.py: the size of classes. Prints each class of the product with more than 40 methods or
500 lines over all of its files. Prints each constructor of C++ with more than 6 parameters. Exit
status 1 for either, and for a header with a class that tells nothing of threads: whether the class
is thread-safe, thread-compatible, owned by a thread or loop, pure, or a plain value.

A method is a declaration or definition in the body of the class: no `= default`, `= delete`,
`using`, `friend`, no function pointer. Lines are the lines of the body without nested classes, and
of all definitions outside of the body (`Class::method(`) in the same folder. Blank lines and
comments do not count. In Python a method is a function in the body of the class, and lines are the
lines of the body. Not a parser of C++: the script reads the output of clang-format."""

import ast
import re
import sys
from dataclasses import dataclass

from pages import ROOT, report, tracked

MOST_METHODS, MOST_LINES = 40, 500
MOST_PARAMETERS = 6  # of a constructor
PRODUCT = ("cuda", "operator", "shim", "sidecar")
SUFFIXES = (".h", ".cc", ".cu", ".cuh", ".py")

TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|"""
    r"""(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'""",
    re.S,
)
HEAD = re.compile(
    r"\b(?:class|struct)\s+(?:\[\[\w+\]\]\s*)?(\w+)\s*(?:final\s*)?(?::(?!:)[^;{()]*)?\{"
)
CLASS = re.compile(r"^class (?:\[\[\w+\]\]\s*)?\w+[^;(){]*\{", re.M)
THREADS = re.compile(r"thread|\bloop\b|\bpure\b|plain value", re.I)
NESTED = re.compile(r"\b(?:class|struct|enum|union)\b[^()]*$")
NO_METHOD = re.compile(r"^(?:using|friend|static_assert|enum|typedef)\b|=\s*(?:delete|default)\s*$")
OUTSIDE = re.compile(r"^(?!\s)[^=;]*?\b(\w+)::~?(?:\w+|operator\S+)\(")


@dataclass
class Size:
    methods: int = 0
    lines: int = 0


def without_comments(text):
    """Comments and the inside of literals are blank; lines stay."""
    return TOKEN.sub(
        lambda found: (
            "\n" * found[0].count("\n")
            if found[0].startswith("/")
            else '""' + "\n" * found[0].count("\n")
        ),
        text,
    )


def end_of(text, opening):
    """The place of the brace that closes the one at `opening`."""
    depth = 0
    for found in re.compile(r"[{}]").finditer(text, opening):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return found.start()
    return len(text) - 1


def without_template_arguments(text):
    before = None
    while before != text:
        before, text = text, re.sub(r"<[^<>()]*(?:\([^()]*\))?[^<>()]*>", "", text)
    return text


def is_method(declaration):
    declaration = re.sub(
        r"^template\s*<[^>]*>\s*(?:requires[^{;]*)?|\[\[\w+\]\]", "", declaration.strip()
    )
    declaration = without_template_arguments(declaration)
    if "(" not in declaration or NO_METHOD.search(declaration):
        return False
    head, _, rest = declaration.partition("(")
    if rest.lstrip().startswith("*") or ("=" in head and "operator" not in head):
        return False
    return re.search(r"(?:~?\w+|operator\s*\S+)\s*$", head) is not None


def lines_of(text):
    return sum(1 for line in text.splitlines() if line.strip())


def body_size(body):
    """Of a class without nested classes, which are counted alone."""
    methods, nested, at, said = 0, 0, 0, ""
    while at < len(body):
        sign = body[at]
        if sign == "{":
            end = end_of(body, at)
            if NESTED.search(without_template_arguments(said)):
                nested += lines_of(body[at : end + 1])
                said = ""
            elif is_method(
                re.sub(r"\)\s*(?:const|noexcept|override|final|\s)*:.*$", ")", said, flags=re.S)
            ):
                follows = body[end + 1 :].lstrip()[:1]
                # a member in the initialiser list of a constructor
                if re.search(r":[^:]*$", said) and follows in (",", "{"):
                    said += "()"
                else:
                    methods, said = methods + 1, ""
            else:
                said += "{}"
            at = end
        elif sign == ";":
            methods, said = methods + is_method(said), ""
        elif sign == ":" and re.search(r"\b(?:public|private|protected)\s*$", said):
            said = ""
        else:
            said += sign
        at += 1
    return Size(methods, lines_of(body) - nested)


def python_sizes(path, text):
    """{(folder, class): Size} of one file of Python."""
    lines = text.splitlines()
    for one in ast.walk(ast.parse(text)):
        if isinstance(one, ast.ClassDef):
            methods = sum(isinstance(each, ast.FunctionDef) for each in one.body)
            body = [line.strip() for line in lines[one.lineno - 1 : one.end_lineno]]
            size = Size(methods, sum(bool(line) and not line.startswith("#") for line in body))
            yield (path.parent.as_posix(), one.name), size


def sizes(texts):
    """{(folder, class): Size} of {path: text}."""
    found = {}
    for path in [path for path in texts if path.suffix == ".py"]:
        found.update(python_sizes(path, texts[path]))
    texts = {path: without_comments(text) for path, text in texts.items() if path.suffix != ".py"}
    for path, text in texts.items():
        for head in HEAD.finditer(text):
            one = body_size(text[head.end() : end_of(text, head.end() - 1)])
            known = found.setdefault((path.parent.as_posix(), head[1]), Size())
            known.methods, known.lines = max(known.methods, one.methods), known.lines + one.lines
    for path, text in texts.items():
        for name, lines in definitions(text):
            if (key := (path.parent.as_posix(), name)) in found:
                found[key].lines += lines
    return found


def definitions(text):
    """(class, lines) of each definition of a method outside of its class."""
    lines, number = text.splitlines(), 0
    while number < len(lines):
        head = OUTSIDE.match(lines[number])
        if head and not lines[number].rstrip().endswith(";"):
            begin = number
            while number + 1 < len(lines) and not lines[number].startswith("}"):
                number += 1
            yield head[1], lines_of("\n".join(lines[begin : number + 1]))
        number += 1


def parameters(text, opening):
    """The number of parameters in the brackets that open at `opening`."""
    depth, commas, at = 0, 0, opening
    while True:
        depth += (text[at] in "([{<") - (text[at] in ")]}>")
        if depth == 0:
            return commas + 1 if text[opening + 1 : at].strip() else 0
        commas += text[at] == "," and depth == 1
        at += 1


def wide_constructors(path, text):
    """Faults of constructors in a header with too many parameters."""
    text = without_comments(text)
    for head in HEAD.finditer(text):
        body = text[head.end() : end_of(text, head.end() - 1)]
        for found in re.finditer(rf"^\s*(?:explicit )?{head[1]}\(", body, re.M):
            if (count := parameters(body, found.end() - 1)) > MOST_PARAMETERS:
                yield (
                    f"{path}: the constructor of {head[1]} has {count} parameters; at most "
                    f"{MOST_PARAMETERS}: pass a struct"
                )


def without_threads(path, text):
    """A fault if a class of a header may be used from any thread, as far as its comments tell."""
    comments = " ".join(re.findall(r"//[^\n]*", text))
    if CLASS.search(without_comments(text)) and not THREADS.search(comments):
        yield (
            f"{path}: no word on threads: thread-safe, thread-compatible, owned by thread X, "
            "pure, or a plain value"
        )


def faults(found):
    for (folder, name), size in sorted(found.items()):
        if size.methods > MOST_METHODS or size.lines > MOST_LINES:
            yield (
                f"{folder}: class {name} has {size.methods} methods and {size.lines} lines; "
                f"at most {MOST_METHODS} and {MOST_LINES}: divide it"
            )


def product():
    return {
        path: (ROOT / path).read_text()
        for path in tracked()
        if path.parts[0] in PRODUCT and path.suffix in SUFFIXES
    }


if __name__ == "__main__":
    wrong = list(faults(sizes(product())))
    wrong += [
        fault
        for path, text in product().items()
        if path.suffix in (".h", ".cuh")
        for rule in (wide_constructors, without_threads)
        for fault in rule(path, text)
    ]
    sys.exit(report(wrong))
