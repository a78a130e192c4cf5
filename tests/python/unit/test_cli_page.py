"""docs/reference/cli.md is the --help of the four programs. LARDER_TEST_WRITE_GOLDEN=1 writes the
page."""

import os
import re
import subprocess
from pathlib import Path

import pytest

PROGRAMS = {
    "larderd": (
        ["--help"],
        "The keys and variables of the configuration are in [configuration.md](configuration.md).",
    ),
    "larderctl": (["--help", "--all"], "Asks a running larderd, and helps to configure one."),
    "larder-operator": (["--help"], "In brackets: the variable, in parentheses: the default."),
    "kubectl-larder": (["--help"], "`kubectl larder`, a plugin of kubectl."),
}
HEAD = """# Command lines

The `--help` of each program, as the programs print the text. A test keeps this page current:
`LARDER_TEST_WRITE_GOLDEN=1 python -m pytest tests/python/unit/test_cli_page.py` writes the page.
"""
KEYS = re.compile(r"\n\n  \w+  \(LARDER_.*", re.DOTALL)  # of larderd, behind the options


def help_of(program, words):
    path = Path(os.environ["LARDER_TEST_BIN"]) / program
    if not path.exists():
        pytest.skip(f"no {path}")
    done = subprocess.run([path, *words], capture_output=True, text=True, timeout=30, check=True)
    return KEYS.sub("", done.stdout).strip("\n")


def page():
    parts = [
        f"\n## {name}\n\n{about}\n\n```text\n{help_of(name, words)}\n```\n"
        for name, (words, about) in PROGRAMS.items()
    ]
    return HEAD + "".join(parts)


def test_the_cli_page_equals_the_program_output(root):
    path = root / "docs" / "reference" / "cli.md"
    text = page()
    if os.environ.get("LARDER_TEST_WRITE_GOLDEN"):
        path.write_text(text)
    assert path.exists() and path.read_text() == text, (
        f"{path} is out of date: LARDER_TEST_WRITE_GOLDEN=1 writes the page"
    )


def test_the_keys_of_larderd_are_on_their_own_page():
    assert "LARDER_MEMORY_SIZE" not in page()
