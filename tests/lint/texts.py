"""The text of sources as words.py counts it: comments, and messages in string literals.

A passage is one comment, docstring or message, with its first line. Consecutive lines of comments
are one passage. A message is a literal of at least four plain words. In YAML and TOML a message is
the text of a key for people, such as a description. Pure Python, no package."""

import ast
import io
import re
import tokenize
from dataclasses import dataclass

LEAST_WORDS = 4  # of a message; a shorter literal is a name or a key
CPP = (".h", ".cc", ".cu", ".cuh")
TOKEN = re.compile(
    r'//(?P<line>[^\n]*)|/\*(?P<block>.*?)\*/|R"(\w*)\((?P<raw>.*?)\)\3"'
    r'|"(?P<string>(?:\\.|[^"\\\n])*)"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'",
    re.S,
)
SETTINGS = (".yaml", ".tpl", ".toml")
# The value of a key for people: quoted, in a map of one line, on this line, or in the lines below.
FOR_PEOPLE = re.compile(
    r"^(?P<indent> *)(?P<before>(?:- )?(?:[^#\n]*[{,] *)?)"
    r"(?:description|message|protects|summary|title) ?[:=] ?(?P<value>[^\n]*)$",
    re.M,
)
QUOTED = re.compile(r"(?P<mark>['\"])(?P<text>(?:(?!(?P=mark)).|'')*)(?P=mark)")
TEMPLATE = re.compile(r"\{\{-?(?!/\*).*?\}\}")  # Helm's and Prometheus's, except comments
TEMPLATE_COMMENT = re.compile(r"\{\{-? ?/\*(.*?)\*/", re.S)
VALUE = re.compile(r"(?<=: )none\b|\bnone(?=[,;:|])")  # of an option or a field, as in "0: none"
CODE = re.compile(r"[{}=<>;]\s*$|^\s*[-\w.]+: |^\s*(import|from|def|return|assert|for|if) ", re.M)


@dataclass
class Passage:
    kind: str  # comment or message
    line: int
    text: str


def passages(path, text):
    """Passages of one file by the ending of its name; a script has comments only."""
    of = {
        ".py": _of_python,
        **dict.fromkeys(CPP, _of_cpp),
        **dict.fromkeys(SETTINGS, _of_settings),
    }.get(path.suffix, _of_script)
    for passage in of(text):
        passage.text = VALUE.sub("X1", passage.text)
        yield passage


def _joined(comments):
    """Passages of (line, column, whether code stands before, text).

    A comment joins the passage of the line before at the same column, unless code stands before."""
    found, last = [], None
    for line, column, after_code, text in comments:
        if found and last == (line - 1, column) and not after_code:
            found[-1].text += f"\n{text}"
        else:
            found.append(Passage("comment", line, text))
        last = (line, column)
    return found


def _message(line, text):
    plain = re.findall(r"(?<![\w./=-])[A-Za-z][a-z'-]*(?![\w/=-])", text)
    if len(plain) >= LEAST_WORDS and not CODE.search(text):
        yield Passage("message", line, text)


def _of_python(text):
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [
        (*one.start, bool(one.line[: one.start[1]].strip()), one.string.lstrip("# "))
        for one in tokens
        if one.type == tokenize.COMMENT and not re.match(r"#!|# ?noqa", one.string)
    ]
    found = _joined(comments)
    tree = ast.parse(text)
    docstrings, parts = set(), set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                docstrings.add(value)
                found.append(Passage("comment", value.lineno, value.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts |= set(ast.walk(node)) - {node}
            told = [one.value if isinstance(one, ast.Constant) else "X1" for one in node.values]
            found += _message(node.lineno, "".join(map(str, told)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node not in docstrings | parts:
                found += _message(node.lineno, node.value)
    for one in found:
        one.text = re.sub(r"\bNone\b(?! of)", "X1", one.text)
    return found


def _of_cpp(text):
    comments, messages, last = [], [], None
    for token in TOKEN.finditer(text):
        line = text.count("\n", 0, token.start()) + 1
        start = text.rfind("\n", 0, token.start()) + 1
        after_code = bool(text[start : token.start()].strip())
        column = token.start() - start
        if token["line"] is not None:
            comments.append((line, column, after_code, token["line"].lstrip("/").strip()))
        elif token["block"] is not None:
            for at, one in enumerate(token["block"].splitlines(), line):
                comments.append((at, column, after_code, re.sub(r"^\s*\* ?", "", one)))
        elif token["string"] is not None or token["raw"] is not None:
            told = token["raw"] if token["string"] is None else token["string"].replace(r"\n", "\n")
            if last is not None and not text[last : token.start()].strip():
                messages[-1].text += told
            else:
                messages.append(Passage("message", line, told))
            last = token.end()
    return _joined(comments) + [one for each in messages for one in _message(each.line, each.text)]


def _of_script(text):
    comments = []
    for line, one in enumerate(text.splitlines(), 1):
        comment = re.search(r"(?<!\S)#+ (.*)", one)
        if comment and not one.startswith("#!"):
            before = one[: comment.start()]
            comments.append((line, len(before), bool(before.strip()), comment[1]))
    return _joined(comments)


def _of_settings(text):
    found = _of_script(text)
    for comment in TEMPLATE_COMMENT.finditer(text):
        line = text.count("\n", 0, comment.start()) + 1
        found.append(Passage("comment", line, comment[1].strip()))
    lines = text.splitlines()
    for key in FOR_PEOPLE.finditer(text):
        line = text.count("\n", 0, key.start()) + 1
        value = key["value"].strip()
        if quoted := QUOTED.match(value):
            value = quoted["text"]
        elif "{" in key["before"]:
            value = re.split(r"\}|, \w+: ", value)[0]
        else:
            column = len(key["indent"] + key["before"])
            value = "\n".join([re.sub(r"^[>|][-+]?$", "", value), *_below(lines, line, column)])
        found.append(Passage("message", line, TEMPLATE.sub("X1", value)))
    return found


def _below(lines, first, column):
    """The lines from `first` on that belong to the key at this column."""
    for line in lines[first:]:
        if line.strip() and not line.startswith(" " * (column + 1)):
            return
        yield line.strip()
