"""code_map.py [--check]: writes the map of the code into PAGE, between the two marks.

A row is a folder with the first sentence of the folder's README.md, and the rooms that the folder's
product sources include. --check writes no file, and fails if PAGE has another map.
"""

import os
import pathlib
import re
import sys

from room_tables import House

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = pathlib.Path("docs/contributing/code-map.md")
BEGIN = "<!-- `make docs-map` writes this map from the first sentences of the READMEs. -->\n"
END = "<!-- End of the map. -->\n"
ROOMS = ("shim", "cuda", "sidecar", "operator")  # with every folder below that has a README.md
OTHERS = ("charts", "manifests", "e2e", "tests")


def first_sentence(text):
    """The first sentence behind the title. ValueError if no paragraph follows the title."""
    blocks = [block for block in text.split("\n\n") if block.strip()]
    if len(blocks) < 2 or not blocks[0].startswith("# ") or blocks[1].lstrip()[0] in "#|-<":
        raise ValueError("a title and a paragraph must come first")
    paragraph = " ".join(blocks[1].split())
    # A period before a small letter is inside a sentence, as in `e.g. this`; larderd begins one.
    return re.split(r"(?<=\.)\s+(?=[^a-z]|larder)", paragraph)[0].rstrip(".;:")


def row(folder, root, included):
    readme = root / folder / "README.md"
    try:
        sentence = first_sentence(readme.read_text())
    except ValueError as error:
        raise ValueError(f"{folder}/README.md: {error}") from None

    def on_the_page(target):
        return os.path.relpath(target, PAGE.parent)

    def moved(link):
        inside = on_the_page(os.path.join(folder, link[1]))
        return link[0] if "://" in link[1] else f"]({inside})"

    sentence = re.sub(r"\]\(([^)#]+)\)", moved, sentence)
    cell = " " + ", ".join(included) if included else ""
    sentence = re.sub(r"(?<!\\)\|", r"\\|", sentence)  # a bar ends a cell
    return f"| [{folder}]({on_the_page(folder)}) | {sentence} |{cell} |\n"


def code_map(root):
    folders = []
    for top in ROOMS:
        rooms = sorted(readme.parent for readme in (root / top).rglob("README.md"))
        folders += [room.relative_to(root).as_posix() for room in rooms]
    house = House(root)
    rows = "".join(row(folder, root, house.used(folder)) for folder in [*folders, *OTHERS])
    return "| folder | purpose | includes |\n|---|---|---|\n" + rows


def main(arguments):
    page = (ROOT / PAGE).read_text()
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        print(f"{PAGE}: the two marks of the map must stand once, in order")
        return 1
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    try:
        new = page[:start] + "\n" + code_map(ROOT) + "\n" + page[end:]
    except ValueError as error:
        print(error)
        return 1
    if arguments == ["--check"]:
        if new != page:
            print(f"{PAGE} has an old map of the code: make docs-map")
        return int(new != page)
    (ROOT / PAGE).write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
