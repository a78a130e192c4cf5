""".ci/code_map.py writes the map of the code from the READMEs of the folders, and finds an old
map."""

import pytest
from ci_script import CiScript

ROOMS = ("shim", "shim/client", "cuda", "sidecar", "operator")
PAGE = "docs/contributing/code-map.md"
FOLDERS = (*ROOMS, "charts", "manifests", "e2e", "tests")


class World(CiScript):
    def __init__(self, folder, root):
        super().__init__(folder, root, "code_map.py", "room_tables.py")
        for name in FOLDERS:
            (folder / name).mkdir()
            self.write(name, f"# {name}\n\nThe folder {name}. More of it.\n\n## Doors\n")
        (folder / "cuda" / "copy.h").write_text("// Copies.\n")
        (folder / "shim" / "client" / "client.cc").write_text('#include "cuda/copy.h"\n')
        lines = (root / PAGE).read_text().splitlines()
        marks = [line for line in lines if "map" in line and line.startswith("<!--")]
        self.page = folder / PAGE
        self.page.parent.mkdir(parents=True)
        self.page.write_text(f"before\n{marks[0]}\n{marks[1]}\nbehind\n")

    def write(self, name, text):
        (self.folder / name / "README.md").write_text(text)


@pytest.fixture
def world(tmp_path, root):
    return World(tmp_path, root)


def test_the_map_is_written_and_is_current_then(world):
    assert world.run("--check") == (1, f"{PAGE} has an old map of the code: make docs-map\n")
    assert world.run() == (0, "") and world.run("--check") == (0, "")
    page = world.page.read_text()
    rows = [line for line in page.splitlines() if line.startswith("| [")]
    assert rows[0] == "| [shim](../../shim) | The folder shim | |"
    assert rows[1] == "| [shim/client](../../shim/client) | The folder shim/client | cuda |"
    assert len(rows) == len(FOLDERS) and page.startswith("before\n") and page.endswith("behind\n")


def test_a_changed_sentence_a_new_folder_and_an_edit_of_the_map_are_found(world):
    world.run()
    written = world.page.read_text()
    world.write("cuda", "# cuda\n\nAnother sentence.\n")
    assert world.run("--check")[0] == 1
    world.run()
    (world.folder / "sidecar/loop").mkdir()
    world.write("sidecar/loop", "# loop\n\nThe loop.\n")
    assert world.run("--check")[0] == 1
    world.run()
    assert world.run("--check")[0] == 0 and world.page.read_text() != written
    world.page.write_text(world.page.read_text().replace("The loop", "A loop"))
    assert world.run("--check")[0] == 1


SENTENCES = {
    "of two lines": ("The event\nloop of larderd. More.", "The event loop of larderd"),
    "with a small letter behind a point": ("Copies, e.g. of pages. More.", "Copies, e.g. of pages"),
    "before larderd": ("The tiers. larderd has one.", "The tiers"),
    "with a link": ("See [the page](../pages/a.md). More.", "See [the page](../../pages/a.md)"),
    "with an address": ("See [it](https://a.example/b).", "See [it](https://a.example/b)"),
    "with a bar": ("One | two.", "One \\| two"),
}


@pytest.mark.parametrize("kind", SENTENCES)
def test_a_sentence(world, kind):
    paragraph, row = SENTENCES[kind]
    world.write("cuda", f"# cuda\n\n{paragraph}\n")
    assert world.run() == (0, "")
    assert f"| [cuda](../../cuda) | {row} | |" in world.page.read_text().splitlines()


@pytest.mark.parametrize(
    "text", ["# cuda\n", "# cuda\n\n## Doors\n", "# cuda\n\n| a |\n", "cuda\n\nText.\n"]
)
def test_a_readme_without_a_sentence_is_named(world, text):
    world.write("cuda", text)
    status, output = world.run("--check")
    assert status == 1 and output.startswith("cuda/README.md: ")
