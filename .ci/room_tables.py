"""room_tables.py [--check]: writes the table of files into the README.md of each room, between the
two marks.

A room is a folder of C++ sources with a README.md. A row is a header, or a source without a header
of its name, with the first sentence of the comment on top. The headers that the product includes
from other rooms come first: they are the doors of the room. Above the table stand the rooms that
the room includes. --check writes no file, and fails if a README.md has another table. Either way a
circle of rooms that include each other fails, and so does a folder without a README.md that
includes a room.
"""

import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PRODUCT = ("shim", "cuda", "sidecar", "operator")
HEADERS, SOURCES = (".h", ".cuh"), (".cc", ".cu")
BEGIN = "<!-- `make docs-map` writes this table from the first sentences of the files. -->\n"
END = "<!-- End of the table. -->\n"
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)


def first_sentence(text):
    """The first sentence of the comment on top of a file; empty without a comment."""
    lines = []
    for line in text.splitlines():
        mark = re.match(r"\s*(?://|/\*|\*(?!/))\s?", line)
        if not mark or line.strip() in ("//", "*", "*/"):
            break
        if line[mark.end() :].startswith("- "):
            break
        lines.append(line[mark.end() :].rstrip().removesuffix("*/"))
    paragraph = " ".join(" ".join(lines).split())
    # A period before a small letter is inside a sentence, as in `e.g. this`; larderd begins one.
    # The period of `. FILE` is a command.
    return re.split(r"(?<=[^`]\.)\s+(?=[^a-z]|larder)", paragraph)[0].rstrip(".;:")


class House:
    """The rooms under `root`, their files, and the includes between rooms."""

    def __init__(self, root):
        self.root = root
        self.texts = {}
        for top in PRODUCT:
            for path in sorted((root / top).rglob("*")):
                if path.suffix in HEADERS + SOURCES:
                    self.texts[path.relative_to(root)] = path.read_text()
        folders = {path.parent for path in self.texts}
        self.rooms = sorted(folder for folder in folders if (root / folder / "README.md").exists())
        self.doors, self.includes = set(), {room: set() for room in self.rooms}
        self.roomless = set()  # folders without a README.md that include a room
        for path, text in self.texts.items():
            for name in INCLUDE.findall(text):
                self._count(path, pathlib.Path(name))

    def _count(self, path, header):
        own, other = self.room_of(path), self.room_of(header)
        if header in self.texts and own != other:
            self.doors.add(header)
            if own is None:
                self.roomless.add(path.parent)
            else:
                self.includes[own].add(other)

    def room_of(self, path):
        """The folder of the file: None for a folder without a README.md."""
        return path.parent if path.parent in self.includes else None

    def circle(self):
        """Rooms that include each other in a circle, with the first one again at the end."""
        done = set()

        def walk(room, path):
            if room in path:
                return [*path[path.index(room) :], room]
            if room not in done:
                for other in self.used(room):
                    if found := walk(pathlib.Path(other), [*path, room]):
                        return found
                done.add(room)
            return []

        return next(filter(None, (walk(room, []) for room in self.rooms)), [])

    def units(self, room):
        """The headers of the room, and its other sources with a comment on top."""
        files = [path for path in self.texts if path.parent == room]
        headers = {path.with_suffix("") for path in files if path.suffix in HEADERS}
        for path in files:
            if path.suffix in HEADERS or path.with_suffix("") not in headers:
                yield path

    def table(self, room):
        rows = []
        for path in self.units(room):
            sentence = first_sentence(self.texts[path])
            if not sentence and path.suffix in HEADERS:
                raise ValueError(f"{path}: a comment with the purpose must come first")
            if sentence:
                sentence = re.sub(r"(?<!\\)\|", r"\\|", sentence)  # a bar ends a cell
                link = f"[{path.name}]({path.name})"
                rows.append((path not in self.doors, path.name, link, sentence))
        rows = [
            f"| {link if inside else f'**{link}**'} | {sentence} |\n"
            for inside, _, link, sentence in sorted(rows)
        ]
        text = "\n| file | purpose |\n|---|---|\n" + "".join(rows) + "\n"
        if any(row.startswith("| **") for row in rows):
            text = "\nOther rooms include the headers in bold.\n" + text
        others = ", ".join(f"[{one}]({os.path.relpath(one, room)})" for one in self.used(room))
        return (f"\nIncludes {others}.\n" if others else "") + text

    def used(self, room):
        """The paths of the rooms that a room includes."""
        included = self.includes.get(pathlib.Path(room), set())
        return sorted(one.as_posix() for one in included if one is not None)


def renewed(house, room):
    """(old, new) text of the README.md. ValueError where the marks are wrong."""
    old = (house.root / room / "README.md").read_text()
    if old.count(BEGIN) != 1 or old.count(END) != 1 or old.index(BEGIN) > old.index(END):
        raise ValueError(f"{room}/README.md: the two marks of the table must stand once, in order")
    start, end = old.index(BEGIN) + len(BEGIN), old.index(END)
    return old, old[:start] + house.table(room) + old[end:]


def main(arguments):
    house = House(ROOT)
    circle = " -> ".join(room.as_posix() for room in house.circle())
    if circle:
        print(f"rooms include each other: {circle}")
    for folder in sorted(house.roomless):
        print(f"{folder.as_posix()} includes other rooms and has no README.md: write one")
    status = int(bool(circle or house.roomless))
    for room in house.rooms:
        try:
            old, new = renewed(house, room)
        except ValueError as error:
            print(error)
            status = 1
            continue
        if arguments == ["--check"]:
            if old != new:
                print(f"{room}/README.md has an old table of files: make docs-map")
                status = 1
        elif old != new:
            (ROOT / room / "README.md").write_text(new)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
