#!/usr/bin/env python3
"""words.py [--table | --kinds | --long] [FILE...]: plain English, by counting
(docs/contributing/style.md).

Without FILE: every Markdown page of the repository, and the text of sources (texts.py) by room. A
page or a room above a limit is a fault. Pronouns of sources and the share of long sentences are
judged by kind of text. Exit status 1 for a fault. --table prints the counts of each page or FILE,
--kinds those of each kind of text, --long the long sentences."""

import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import texts
from pages import ROOT, tracked, without_code

FOREIGN = ("tests/unit/ctl/lmcache/", "tests/fuzz/corpora/", "shared/")  # texts of others
WRITTEN = ("manifests/rendered/",)  # by a program, from texts that are counted
SAMPLES = ("tests/lint/words.py", "tests/python/unit/test_lint.py")  # the words as examples
SETTINGS = ("charts/*.yaml", "charts/*.tpl", "manifests/*.yaml", "tests/mutation/mutations.toml")
SCRIPTS = ("*.sh", ".ci/run", "Makefile", "*CMakeLists.txt", "Dockerfile*")
SOURCES = ("*.py", *(f"*{ending}" for ending in texts.CPP), *SCRIPTS, *SETTINGS)
WHAT = {"what"}
NOBODY = {"nobody", "nothing", "none"}
PRONOUNS = {"it", "its", "they", "them", "those", "that"}
MOST_WHAT, MOST_NOBODY, MOST_PRONOUNS = 2, 2, 25  # in 1,000 words
MOST_SOURCE_PRONOUNS = 28  # a comment often says "its"
MOST_WORDS = 25  # of a sentence; a sentence with more is long
# Long sentences in 1,000, by kind of text: the shares when the rule came, a little above. Generated
# tables of files do not count as docs. A row of the code map counts with its includes.
MOST_LONG = {
    "docs": 27,
    "C++ messages": 3,
    "Python comments": 8,
    "Python messages": 6,
    "headers": 16,
    "scripts": 13,
    "sources": 14,
    "YAML and TOML comments": 0,
    "YAML and TOML messages": 1,
}
SUMMED = ("words", "what", "nobody", "pronouns", "sentences", "long")
# The table of files that .ci/room_tables.py writes: its words are those of the sources.
GENERATED = re.compile(r"<!-- `make docs-map` writes this table.*?<!-- End of the table. -->", re.S)
CLAUSE = re.compile(r"[-* ]*(What|Who|Whoever|Whatever) ")


@dataclass
class Counts:
    words: int
    what: int
    nobody: int
    pronouns: int
    sentences: int  # of at least 4 words
    long: int
    clauses: list  # sentences whose subject is a clause: "What comes late is ..."

    def per_1000(self, count):
        return 1000 * count / max(self.words, 1)

    @property
    def long_per_1000(self):
        return 1000 * self.long / max(self.sentences, 1)

    def faults(self, most_pronouns=MOST_PRONOUNS):
        rows = (
            ("what", self.what, MOST_WHAT),
            ("nobody/nothing/none", self.nobody, MOST_NOBODY),
            ("pronouns", self.pronouns, most_pronouns),
        )
        for name, count, most in rows:
            if count > math.ceil(most * self.words / 1000):
                yield f"{name}: {self.per_1000(count):.1f} in 1,000 words, at most {most}"
        for sentence in self.clauses:
            yield f'a clause as subject: "{sentence[:60]}"'


def prose(text):
    """The sentences of a page; cells and list items count as such."""
    text = re.sub(r"\]\([^)]*\)", "]", without_code(text))
    lines = []
    for line in text.splitlines():
        item = re.match(r"\s*([-*+]|\d+\.) |#", line)
        cells = line.split("|") if line.lstrip().startswith("|") else [line]
        if len(cells) > 1 or item:
            lines.append("")
        lines += "\n\n".join(cells).split("\n") + [""] * (len(cells) > 1)
        if line.startswith("#"):
            lines.append("")
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
        yield from re.split(r"(?<=[.!?;])\s+", re.sub(r"\s+", " ", paragraph).strip())


def count(sentences):
    what = nobody = pronouns = total = told = long = 0
    clauses = []
    for sentence in sentences:
        found = re.findall(r"[A-Za-z][A-Za-z'-]*", sentence)
        plain = [word.lower() for word in found]
        total += len(plain)
        what += sum(word in WHAT for word in plain)
        nobody += sum(word in NOBODY for word in plain)
        pronouns += sum(word in PRONOUNS for word in plain)
        told += len(plain) >= 4
        long += len(plain) > MOST_WORDS
        if CLAUSE.match(sentence) and sentence.endswith((".", ";")):
            clauses.append(sentence)
    return Counts(total, what, nobody, pronouns, told, long, clauses)


def of_source(path, text):
    """(kind of text, sentences) of each passage of a source."""
    for passage in texts.passages(path, text):
        yield kind_of(path, passage.kind), prose(passage.text)


def kind_of(path, kind):
    if path.suffix == ".py":
        return f"Python {kind}s"
    if path.suffix in texts.SETTINGS:
        return f"YAML and TOML {kind}s"
    if path.suffix not in texts.CPP:
        return "scripts"
    if kind == "message":
        return "C++ messages"
    return "headers" if path.suffix in (".h", ".cuh") else "sources"


def sentences_of(path):
    text = (ROOT / path).read_text()
    if path.suffix == ".md":
        return prose(GENERATED.sub("", text))
    return (one for _, sentences in of_source(path, text) for one in sentences)


def counts_of(path):
    return count(sentences_of(path))


def long_sentences(paths):
    for path in paths:
        for sentence in sentences_of(path):
            if count([sentence]).long:
                yield f"{path}: {sentence}"


def pages():
    return [path for path in tracked("*.md") if not str(path).startswith(FOREIGN)]


def sources():
    left_out = FOREIGN + SAMPLES + WRITTEN
    return [path for path in tracked(*SOURCES) if not str(path).startswith(left_out)]


def room_of(path):
    """The folder by which a source is judged: its first two folders."""
    return "/".join(path.parts[:-1][:2]) or path.name


def by_room(paths):
    """{(room, kind of text): Counts} of sources."""
    found = {}
    for path in paths:
        for kind, sentences in of_source(path, (ROOT / path).read_text()):
            found.setdefault((room_of(path), kind), []).extend(sentences)
    return {key: count(sentences) for key, sentences in sorted(found.items())}


def by_kind(rooms):
    """{kind of text: Counts} of the rooms together."""
    found = {}
    for (_, kind), one in rooms.items():
        found.setdefault(kind, []).append(one)
    return {kind: summed(counts) for kind, counts in sorted(found.items())}


def summed(counts):
    total = {name: sum(getattr(one, name) for one in counts) for name in SUMMED}
    return Counts(**total, clauses=[each for one in counts for each in one.clauses])


def check(found):
    """Faults of {page: Counts}."""
    for path, counts in found.items():
        yield from (f"{path}: {fault}" for fault in counts.faults())


def check_long(kinds):
    """Faults of {kind of text: Counts}: a share of long sentences that rose."""
    for kind, one in kinds.items():
        most, share = MOST_LONG.get(kind, 0), one.long_per_1000
        if share > most:
            yield (
                f"{kind}: {share:.1f} of 1,000 sentences have more than {MOST_WORDS} words, "
                f"at most {most}: divide the new ones (words.py --long)"
            )


def check_sources(rooms):
    """Faults of {(room, kind of text): Counts}. Pronouns count over all rooms together."""
    for (room, kind), one in rooms.items():
        yield from (f"{room}, {kind}: {each}" for each in one.faults(most_pronouns=1000))
    for kind, one in by_kind(rooms).items():
        faults = one.faults(MOST_SOURCE_PRONOUNS)
        yield from (f"{kind}: {each}" for each in faults if each.startswith("pronouns"))


def table(found):
    yield (
        f"{'words':>7} {'what':>6} {'nobody':>6} {'pron.':>6} {'long':>6}  per 1,000 words, "
        "long of 1,000 sentences"
    )
    rows = list(found.items())
    for path, one in rows:
        yield (
            f"{one.words:7} {one.per_1000(one.what):6.1f} {one.per_1000(one.nobody):6.1f} "
            f"{one.per_1000(one.pronouns):6.1f} {one.long_per_1000:6.1f}  {path}"
        )
    one = summed([counts for _, counts in rows])
    yield (
        f"{one.words:7} {one.per_1000(one.what):6.1f} {one.per_1000(one.nobody):6.1f} "
        f"{one.per_1000(one.pronouns):6.1f} {one.long_per_1000:6.1f}  all"
    )


def main(arguments):
    named = [Path(one).resolve().relative_to(ROOT) for one in arguments if not one.startswith("--")]
    if "--kinds" in arguments:
        docs = summed([counts_of(path) for path in pages()])
        print(*table({"docs": docs, **by_kind(by_room(sources()))}), sep="\n")
        return 0
    if "--long" in arguments:
        print(*long_sentences(named or [*pages(), *sources()]), sep="\n")
        return 0
    found = {path: counts_of(path) for path in named or pages()}
    if "--table" in arguments:
        print(*table(found), sep="\n")
        return 0
    faults = list(check(found))
    if not named:
        rooms = by_room(sources())
        kinds = {"docs": summed(list(found.values())), **by_kind(rooms)}
        faults += [*check_sources(rooms), *check_long(kinds)]
    print(*faults, sep="\n", end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
