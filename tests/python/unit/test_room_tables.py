""".ci/room_tables.py writes the table of files of each room, and finds an old table."""

import pytest
from ci_script import CiScript

MARKS = (
    "<!-- `make docs-map` writes this table from the first sentences of the files. -->\n",
    "<!-- End of the table. -->\n",
)


class World(CiScript):
    def __init__(self, folder, root):
        super().__init__(folder, root, "room_tables.py")
        self.write("cuda/README.md", f"# cuda\n\nCopies.\n\n{''.join(MARKS)}\nMore.\n")
        self.write("cuda/engine.h", "// Engine: copies pages. Thread-safe.\n#pragma once\n")
        self.write("cuda/engine.cc", '// Not shown.\n#include "cuda/engine.h"\n')
        self.write("cuda/loop.h", "// The loop of\n// the engine.\n//\n// Why.\n")
        self.write("shim/client/README.md", f"# client\n\nOne client.\n\n{''.join(MARKS)}")
        self.write("shim/client/main.cc", '// Begins.\n#include "cuda/engine.h"\n')

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def read(self, name):
        return (self.folder / name).read_text()


@pytest.fixture
def world(tmp_path, root):
    return World(tmp_path, root)


def test_the_tables_are_written_and_are_current_then(world):
    status, output = world.run("--check")
    assert status == 1 and "cuda/README.md has an old table of files: make docs-map" in output
    assert world.run() == (0, "") and world.run("--check") == (0, "")
    text = world.read("cuda/README.md")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows[2:] == [
        "| **[engine.h](engine.h)** | Engine: copies pages |",
        "| [loop.h](loop.h) | The loop of the engine |",
    ]
    assert text.startswith("# cuda\n\nCopies.\n\n") and text.endswith("\nMore.\n")
    client = world.read("shim/client/README.md")
    assert (
        "Includes [cuda](../../cuda).\n" in client and "| [main.cc](main.cc) | Begins |" in client
    )


@pytest.mark.parametrize(
    "name, text",
    [
        ("cuda/engine.h", "// Engine: something else.\n"),
        ("cuda/new.h", "// A new header.\n"),
        ("shim/client/main.cc", "// Begins, without the door.\n"),
    ],
    ids=["a sentence", "a header", "a door"],
)
def test_a_change_is_found(world, name, text):
    world.run()
    world.write(name, text)
    assert world.run("--check")[0] == 1


def test_a_circle_of_rooms_is_found(world):
    world.write("shim/client/client.h", "// Client: one client.\n")
    assert world.run()[0] == 0
    world.write("cuda/engine.cc", '#include "shim/client/client.h"\n')
    status, output = world.run()
    assert status == 1 and "rooms include each other: cuda -> shim/client -> cuda\n" in output


def test_a_header_without_a_purpose_and_a_readme_without_marks_are_named(world):
    world.write("cuda/new.h", "#pragma once\n")
    world.write("shim/client/README.md", "# client\n\nOne client.\n")
    status, output = world.run()
    assert status == 1
    assert "cuda/new.h: a comment with the purpose must come first" in output
    assert "shim/client/README.md: the two marks of the table must stand once" in output


def test_a_folder_without_a_readme_that_includes_a_room_is_named(world):
    world.run()
    world.write("shim/new/main.cc", '// Begins.\n#include "cuda/engine.h"\n')
    for arguments in ((), ("--check",)):
        status, output = world.run(*arguments)
        assert status == 1
        assert output == "shim/new includes other rooms and has no README.md: write one\n"
