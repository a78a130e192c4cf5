#!/usr/bin/env python3
"""words.py [--table] [FILE...]: plain English in pages, by counting (docs/contributing/style.md).

Without FILE: every Markdown page of the repository. A page that exceeds a limit is a fault. Exit
status 1 for a fault. --table prints the counts of each file; of C++ those of comments."""

import math
import re
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from pages import ROOT, tracked, without_code

FOREIGN = ("tests/unit/ctl/lmcache/", "tests/fuzz/", "shared/")  # texts of others
WHAT = {"what"}
NOBODY = {"nobody", "nothing", "none"}
PRONOUNS = {"it", "its", "they", "them", "those", "that"}
MOST_WHAT, MOST_NOBODY, MOST_PRONOUNS = 2, 2, 25  # in 1,000 words
MOST_MEDIAN = 25  # words of the median sentence
CLAUSE = re.compile(r"[-* ]*(What|Who|Whoever|Whatever) ")


@dataclass
class Counts:
    words: int
    what: int
    nobody: int
    pronouns: int
    median: float
    clauses: list  # sentences whose subject is a clause: "What comes late is ..."

    def per_1000(self, count):
        return 1000 * count / max(self.words, 1)

    def faults(self):
        rows = (
            ("what", self.what, MOST_WHAT),
            ("nobody/nothing/none", self.nobody, MOST_NOBODY),
            ("pronouns", self.pronouns, MOST_PRONOUNS),
        )
        for name, count, most in rows:
            if count > math.ceil(most * self.words / 1000):
                yield f"{name}: {self.per_1000(count):.1f} in 1,000 words, at most {most}"
        if self.median > MOST_MEDIAN:
            yield f"median sentence: {self.median:.0f} words, at most {MOST_MEDIAN}"
        for sentence in self.clauses:
            yield f'a clause as subject: "{sentence[:60]}"'


def prose(path, text):
    """The sentences of a page, or of a source's comments; cells and list items count as such."""
    if path.suffix != ".md":
        text = "\n".join(re.findall(r"(?<!:)// ?(.*)", text))
    text = re.sub(r"\]\([^)]*\)", "]", without_code(text))
    lines = []
    for line in text.splitlines():
        item = re.match(r"\s*([-*+]|\d+\.) |#", line)
        cells = [cell for cell in line.split("|")] if line.lstrip().startswith("|") else [line]
        lines += ["", *cells, ""] if len(cells) > 1 or item else cells
        if line.startswith("#"):
            lines.append("")
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
        yield from re.split(r"(?<=[.!?;])\s+", re.sub(r"\s+", " ", paragraph).strip())


def count(path, text):
    what = nobody = pronouns = total = 0
    lengths, clauses = [], []
    for sentence in prose(path, text):
        found = re.findall(r"[A-Za-z][A-Za-z'-]*", sentence)
        plain = [word.lower() for word in found]
        total += len(plain)
        what += sum(word in WHAT for word in plain)
        nobody += sum(word in NOBODY for word in plain)
        pronouns += sum(word in PRONOUNS for word in plain)
        if len(plain) >= 4:
            lengths.append(len(plain))
        if CLAUSE.match(sentence) and sentence.endswith((".", ";")):
            clauses.append(sentence)
    return Counts(total, what, nobody, pronouns, statistics.median(lengths or [0]), clauses)


def counts_of(path):
    return count(path, (ROOT / path).read_text())


def pages():
    return [path for path in tracked("*.md") if not str(path).startswith(FOREIGN)]


def check(found):
    """Faults of {path: Counts}."""
    for path, counts in found.items():
        yield from (f"{path}: {fault}" for fault in counts.faults())


def table(found):
    yield f"{'words':>7} {'what':>6} {'nobody':>6} {'pron.':>6} {'median':>6}  per 1,000 words"
    rows = list(found.items())
    for path, one in rows:
        yield (f"{one.words:7} {one.per_1000(one.what):6.1f} {one.per_1000(one.nobody):6.1f} "
               f"{one.per_1000(one.pronouns):6.1f} {one.median:6.0f}  {path}")
    total = sum(one.words for _, one in rows) or 1
    sums = [sum(getattr(one, name) for _, one in rows) for name in ("what", "nobody", "pronouns")]
    yield f"{total:7} " + " ".join(f"{1000 * each / total:6.1f}" for each in sums) + "         all"


def main(arguments):
    named = [Path(one).resolve().relative_to(ROOT) for one in arguments if not one.startswith("--")]
    found = {path: counts_of(path) for path in named or pages()}
    if "--table" in arguments:
        print(*table(found), sep="\n")
        return 0
    faults = list(check(found))
    print(*faults, sep="\n", end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
