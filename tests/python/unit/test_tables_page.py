"""docs/design/tables.md names each bound with its value: both equal the code. The page names each
table of the Python package, and tests that exist."""

import re
import subprocess

import pytest
from python_tables import tables_of

ROW = re.compile(r"`(?P<name>(?:k|_?[A-Z])\w+)` (?P<value>[\d,]+)(?: (?P<unit>[KM]iB))?")
DEFINITION = re.compile(r"constexpr [\w:<> ]+ (?P<name>k\w+)\s*(?:=\s*|\{)(?P<value>[^;}]+)")
OF_PYTHON = re.compile(r"^(?P<name>_?[A-Z][A-Z_]+) = (?P<value>[^#\n]+)", re.MULTILINE)
PYTHON = "## The Python package and the connector for vLLM"
UNITS = {None: 1, "KiB": 1 << 10, "MiB": 1 << 20}


@pytest.fixture(scope="module")
def values(root):
    """By name, all numeric values of a C++ or Python constant of that name."""
    files = subprocess.run(
        [
            "git",
            "ls-files",
            "shim/*.h",
            "shim/*.cc",
            "sidecar/*.h",
            "sidecar/*.cc",
            "cuda/*.h",
            "cuda/*.cc",
            "shim/python/*.py",
        ],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
    )
    found = {}
    for path in files.stdout.split():
        definition = OF_PYTHON if path.endswith(".py") else DEFINITION
        for one in definition.finditer((root / path).read_text()):
            number = number_of(one["value"])
            if number is not None:
                found.setdefault(one["name"], set()).add(number)
    return found


def number_of(text):
    """Of 1 << 16, 64 * 1024, 60'000 and the like; None of anything else."""
    text = re.sub(r"(?<=\d)(?:['_]|[uUlL]+\b)", "", text.strip())
    if not re.fullmatch(r"[1-9]\d*(?:\s*(?:<<|\*|\+|-)\s*[1-9]\d*)*", text):
        return None
    return eval(" ".join(text.split()))  # digits and operators alone


def test_numbers_of_the_code_are_read():
    assert [
        number_of(text) for text in ("1 << 16", "64 * 1024", "60'000", "256ULL << 10", "kOther * 2")
    ] == [65536, 65536, 60000, 262144, None]


@pytest.fixture(scope="module")
def page(root):
    return (root / "docs" / "design" / "tables.md").read_text()


def bounds(page):
    for line in page.splitlines():
        if line.startswith("| ") and line.count("|") >= 7:
            for one in ROW.finditer(line.split("|")[2]):
                yield one["name"], int(one["value"].replace(",", "")) * UNITS[one["unit"]]


def test_each_bound_has_the_value_of_the_code(page, values):
    told = list(bounds(page))
    assert len(told) > 20, "the page names the constants"
    # of other constants: protocol/index_layout.h
    told.remove(("kLastNamespaceGeneration", (1 << 22) - 2))
    other = [
        f"{name}: {value} on the page, {sorted(values.get(name, ()))} in the code"
        for name, value in told
        if value not in values.get(name, ())
    ]
    assert other == []


def named_tables(page):
    """{(file, name)} of the section about Python: the names behind the path of each file."""
    named, file = set(), None
    for one in re.findall(r"`([\w/.]+)`", page.split(PYTHON)[1].replace("\n", " ")):
        if one.endswith(".py"):
            file = one
        elif file and not one.startswith(("test_", "k")) and not one.lstrip("_").isupper():
            named.add((file, one))
    return named


def test_the_finder_of_tables():
    import ast

    from python_tables import names_in

    text = """
A, b = {}, 3
class Made:
    fields: dict = field(default_factory=dict)
    def __init__(self):
        self._x, self.y = set(), deque(maxlen=3)
        self._z: list = []
        local = []
        self._full = {1: 2}
        self._copied = list(local)
        self._queue = queue.Queue()
"""
    assert sorted(names_in(ast.parse(text), False)) == ["A", "_queue", "_x", "_z", "fields", "y"]


def test_each_table_of_the_python_package_is_on_the_page(root, page):
    """A new dictionary needs a row: its bound, and the owner that gives an entry back."""
    tables = tables_of(root / "shim" / "python" / "larder")
    # constants of modules in capitals, filled once: named like tables
    modules = {(file, name) for file, name in tables if name.lstrip("_").isupper()}
    assert modules == {
        ("vllm/connector.py", "_LIVING"),
        ("vllm/sleep_mode.py", "_ON_PAGES"),
        ("vllm/weight_changes.py", "_HALVES"),
    }
    assert all(f"`{name}`" in page for _, name in modules)
    files = {file for file, _ in tables}
    named = {(file, name) for file, name in named_tables(page) if file in files}
    assert sorted(tables - modules - named) == [], "not on the page"
    # `_reads` of a file without such a table
    assert sorted((file, name) for file, name in named - tables if name.startswith("_")) == []


def test_each_test_that_the_page_names_exists(root, page):
    python = "".join(path.read_text() for path in (root / "tests/python").rglob("test_*.py"))
    missing = [
        name
        for name in set(re.findall(r"`(test_\w+)`", page))
        if not re.search(rf"def {name}\(", python)
    ]
    texts = "".join(path.read_text() for path in (root / "tests").rglob("*_test.cc"))
    texts += "".join(path.read_text() for path in (root / "tests").rglob("*.h"))
    for suite, name in re.findall(r"`([A-Z]\w+)\.(\w+)`", page):
        if not re.search(rf"TEST(_F|_P)?\(\s*{suite},\s*{name}\)", texts):
            missing.append(f"{suite}.{name}")
    assert missing == []
