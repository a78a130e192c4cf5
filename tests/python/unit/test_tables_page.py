"""docs/design/tables.md names each bound with its value: both equal the code."""

import re
import subprocess

import pytest

ROW = re.compile(r"`(?P<name>(?:k|[A-Z])\w+)` (?P<value>[\d,]+)(?: (?P<unit>[KM]iB))?")
DEFINITION = re.compile(r"constexpr [\w:<> ]+ (?P<name>k\w+)\s*(?:=\s*|\{)(?P<value>[^;}]+)")
UNITS = {None: 1, "KiB": 1 << 10, "MiB": 1 << 20}


@pytest.fixture(scope="module")
def values(root):
    """By name, all numeric values of a C++ constant of that name."""
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
        ],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
    )
    found = {}
    for path in files.stdout.split():
        for one in DEFINITION.finditer((root / path).read_text()):
            number = number_of(one["value"])
            if number is not None:
                found.setdefault(one["name"], set()).add(number)
    return found


def number_of(text):
    """Of 1 << 16, 64 * 1024, 60'000 and the like; None of anything else."""
    text = re.sub(r"(?<=\d)(?:'|[uUlL]+\b)", "", text.strip())
    if not re.fullmatch(r"[1-9]\d*(?:\s*(?:<<|\*|\+|-)\s*[1-9]\d*)*", text):
        return None
    return eval(" ".join(text.split()))  # digits and operators alone


def test_numbers_of_the_code_are_read():
    assert [
        number_of(text) for text in ("1 << 16", "64 * 1024", "60'000", "256ULL << 10", "kOther * 2")
    ] == [65536, 65536, 60000, 262144, None]


def bounds(root):
    for line in (root / "docs" / "design" / "tables.md").read_text().splitlines():
        if line.startswith("| ") and line.count("|") >= 7:
            for one in ROW.finditer(line.split("|")[2]):
                yield one["name"], int(one["value"].replace(",", "")) * UNITS[one["unit"]]


def test_each_bound_has_the_value_of_the_code(root, values):
    told = list(bounds(root))
    assert len(told) > 20, "the page names the constants"
    # of other constants: protocol/index_layout.h
    told.remove(("kLastNamespaceGeneration", (1 << 22) - 2))
    other = [
        f"{name}: {value} on the page, {sorted(values.get(name, ()))} in the code"
        for name, value in told
        if value not in values.get(name, ())
    ]
    assert other == []
