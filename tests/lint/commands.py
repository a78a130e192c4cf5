"""Commands of pages: blocks, lines, and the words that tell commands apart. Pure Python."""

import re
import shlex

PAGES = ("README.md", "docs/get-started/*.md", "docs/guides/*.md")
SHELLS = ("sh", "bash", "console", "shell")
PROSE = "prose"  # the language of a paragraph
PROGRAM = "|".join(
    """kubectl helm larderctl larderd make python oc redis-cli systemctl sysctl rm skopeo podman
    kind ctr docker vllm curl pip velero""".split()
)
INLINE = re.compile(rf"(?<!`)`((?:{PROGRAM}) +[^`]+)`(?!`)")
INDENTED = re.compile(rf" {{4,}}(\$ )?(?:{PROGRAM}) ")  # Markdown's other code block
FENCE = re.compile(r" *(```+|~~~+)(\S*)")
MARK = re.compile(r" *<!-- (run by|not run): (.*?) -->$")
SEPARATORS = {"&&", "||", "|", ";", "&", "--"}  # behind -- a program is given another command
MOST_WORDS = 2  # behind the program: `helm install larder`, `kubectl get pods`


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
            yield began, SHELLS[0] if INDENTED.match(held[0]) else PROSE, marks, held
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


def lines_of(block):
    """The command lines of a block. A line that ends in \\ goes on; of a console: behind "$ "."""
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
