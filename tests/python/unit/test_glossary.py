"""docs/concepts/glossary.md: the file that a row links to defines the class that the row names."""

import re

import pytest


DEFINITION = r"^\s*(?:class|struct|enum(?: class)?|using) {}\b(?!;)"  # no declaration in advance


def faults(row, folder):
    cells = [cell.strip() for cell in row.strip().strip("|").split("|")]
    if len(cells) != 3:
        return [f"{len(cells)} cells: {row}"]
    term, meaning, where = cells
    found = []
    if len(re.findall(r"[.](?:\s|$)", meaning)) != 2:
        found.append(f"{term}: two sentences")
    links = re.findall(r"(?:`(\w+)` in )?\[[\w.]+\]\(([^)]+)\)", where)
    if not links:
        found.append(f"{term}: no file")
    for name, path in links:
        text = (folder / path).read_text()
        if name and not re.search(DEFINITION.format(name), text, re.MULTILINE):
            found.append(f"{term}: no {name} in {path}")
    return found


def test_every_term_has_two_sentences_and_its_class(root):
    folder = root / "docs" / "concepts"
    lines = (folder / "glossary.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ")][1:]
    assert len(rows) >= 40
    assert [fault for row in rows for fault in faults(row, folder)] == []
    terms = [row.split("|")[1].strip().lower() for row in rows]
    assert len(set(terms)) == len(terms)


@pytest.mark.parametrize(
    "row, fault",
    [
        ("| slot | One. Two. | `Slot` in [a.h](a.h) |", "slot: no Slot in a.h"),
        ("| slot | One. Two. | `Later` in [a.h](a.h) |", "slot: no Later in a.h"),
        ("| slot | One. Two. | `Named` in [a.h](a.h) |", "slot: no Named in a.h"),
        ("| slot | One. | `Arena` in [a.h](a.h) |", "slot: two sentences"),
        ("| slot | One. Two. | none |", "slot: no file"),
    ],
)
def test_the_check_bites(tmp_path, row, fault):
    (tmp_path / "a.h").write_text("// Named: a name.\nclass Later;\nclass Arena {};")
    assert faults(row, tmp_path) == [fault]
