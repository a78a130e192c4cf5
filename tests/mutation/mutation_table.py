"""The table of mutations, the tags in the code, and the comparison of both. Changes no file."""

import fnmatch
import pathlib
import re
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRODUCT = ("shim", "sidecar", "cuda", "operator")
SUFFIXES = {".cc", ".h", ".cu", ".cuh", ".py"}
ID = "[a-z0-9]+(?:-[a-z0-9]+)*"
TAG = re.compile(rf"(?://|#) mutation: ({ID}(?:, {ID})*)$")
OTHER_COMMENT = re.compile(r"(?:^|\s)(?://|#)\s")
LIKE_TAG = re.compile(r"mutations?\s*:", re.IGNORECASE)
QUALIFIER = re.compile(r"(?:\w|\.|:|->)$")  # before the text of a row
TOKEN = re.compile(r""""(?:\\.|[^"\\])*"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\])*'|\w+|\S""")
COMMENT = r"(?://|#)\ [^\n]*"
SPACE = rf"(?:\s|{COMMENT}\n)"  # a tag may stand inside a statement of several lines
LINES = 20  # that a statement has at most
FIELDS = {"protects": str, "text": str, "instead": str, "delete": bool, "tests": list}


class Mutation:
    """One row of the table. ValueError names the row and the faulty field."""

    def __init__(self, id_, row):
        for field, value in row.items():
            if not isinstance(value, FIELDS.get(field, ())):
                raise ValueError(f"{id_}: {field} is unknown, or of another type")
        for field in ("protects", "tests"):
            if not row.get(field):
                raise ValueError(f"{id_}: {field} is missing")
        if row.get("delete", True) is not True or ("delete" in row) == bool(row.get("instead")):
            raise ValueError(f"{id_}: one of instead and delete = true is needed")
        self.id = id_
        self.protects = row["protects"]
        self.text = row.get("text", "")  # without text the whole statement is replaced
        self.instead = row.get("instead", "")
        self.tests = row["tests"]

    def searched(self, sites):
        files = [str(site.path) for site in sites]
        return " ".join([self.id, self.protects, *self.tests, *files])


def pattern(text):
    """The text as an expression that no formatter changes: between two words stands some white
    space, elsewhere any or none. A long string may be broken behind a blank, and a comma may stand
    before a closing bracket."""
    found, last = [], ""
    for token in TOKEN.findall(text):
        if last[-1:].isidentifier() or last[-1:].isdigit():
            found.append(SPACE + ("+" if re.match(r"\w", token) else "*"))
        elif last:
            found.append(SPACE + "*")
        if token in ")]}":
            found.append(f"(?:,{SPACE}*)?")
        found.append(re.escape(token))
        if token.startswith('"'):
            found[-1] = found[-1].replace(r"\ ", r'\ (?:"\s*")?')
        last = token
    return re.compile("".join(found))


def depth(line):
    """Brackets that the line opens and does not close; below 0: that earlier lines opened."""
    tokens = TOKEN.findall(re.sub(rf"(?:^|\s){COMMENT}", "", line))
    return sum((token in "([{") - (token in ")]}") for token in tokens)


def code_of(line):
    return re.sub(rf"(?:^|\s)(?:{COMMENT}|//|#)$", "", line.rstrip())


def statement(lines, number, python):
    """(first, end) of the statement that the tagged line is a part of, in indices of lines. A
    statement of C++ begins behind a line that ends in ; { } or :, outside of brackets."""

    def depths(first, end):
        """The depth of brackets behind each line; those of blocks do not count."""
        now = 0
        for line in map(code_of, lines[first:end]):
            tokens = TOKEN.findall(line)
            now += sum((one in "([") - (one in ")]") for one in tokens)
            now += python and sum((one == "{") - (one == "}") for one in tokens)
            yield now

    def ends(index):
        code = code_of(lines[index]).strip()
        return python or not code or code[-1] in ";{}:" or code.startswith("#")

    tagged = number - 1
    first, end = tagged, tagged + 1
    while first > max(0, tagged - LINES):
        if ends(first - 1) and min(depths(first, tagged + 1)) >= 0:
            break
        first -= 1
    while end < min(len(lines), tagged + LINES):
        if ends(end - 1) and list(depths(first, end))[-1] == 0:
            break
        end += 1
    return first, end


class Site:
    """A tagged line of a file, and the lines before it where its brackets were opened."""

    def __init__(self, path, lines, number, code):
        """code: the line without the comment of the tag."""
        self.path, self.number = path, number
        self._lines = lines
        self._text = "".join(lines)
        self._end = self._offset(number - 1) + len(code)
        self._python = path.suffix == ".py"
        first, opened = number - 1, depth(code)
        while opened < 0 and first > max(0, number - LINES):
            first -= 1
            opened += depth(lines[first])
        self._start = self._offset(first)

    def _offset(self, index):
        return len("".join(self._lines[: max(0, index)]))

    def places(self, mutation):
        """(start, end) in the file of each place of the text that touches the tagged lines; of the
        tagged statement for a mutation without a text."""
        if not mutation.text:
            first, end = statement(self._lines, self.number, self._python)
            return [(self._offset(first), self._offset(end))]
        expression, found = pattern(mutation.text), []
        at, end = self._offset(self.number - LINES), self._offset(self.number + LINES)
        while match := expression.search(self._text, at, end):
            if match.start() < self._end and match.end() > self._start:
                found.append(match.span())
            at = match.start() + 1
        return found

    def at(self, place):
        """The code at the place, without comments and white space."""
        lines = self._text[slice(*place)].splitlines()
        return "".join("".join(map(code_of, lines)).split())

    def before(self, place):
        return self._text[: place[0]]

    def replaced(self, mutation):
        """The whole file with the mutation."""
        ((start, end),) = self.places(mutation)
        instead = mutation.instead
        if instead and not mutation.text:
            line = self._text[start:end]
            instead = line[: len(line) - len(line.lstrip())] + instead + "\n"
        return self._text[:start] + instead + self._text[end:]


class Tests:
    """The tests of the tree: GoogleTest cases as `Suite.Case`, programs as CMake names them."""

    def __init__(self, root):
        self.root = root
        sources = "\n".join(path.read_text() for path in root.glob("tests/**/*.cc"))
        macro = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.M)
        self.cases = [f"{suite}.{case}" for suite, case in macro.findall(sources)]
        rooms = "\n".join(path.read_text() for path in root.glob("tests/**/CMakeLists.txt"))
        self.programs = set(re.findall(r"\w\((\w+)", rooms))

    def missing(self, test):
        """Why the test cannot run, as words; empty where the test exists."""
        program, *words = test.split()
        if not words:
            return f"{test}: a program and a filter are needed"
        if program == "pytest":
            return self._missing_python(test, words)
        if program not in self.programs:
            return f"{test}: no such program"
        pattern = words[0].replace("/*", "")  # the number of a parameterised case
        if "." in pattern or "*" in pattern:
            if not any(fnmatch.fnmatchcase(case, pattern) for case in self.cases):
                return f"{test}: no such case"
        return ""

    def _missing_python(self, test, words):
        path = self.root / words[0]
        if len(words) != 2 or not path.is_file():
            return f"{test}: no such file, or no name"
        functions = re.findall(r"def (test_\w+)\(", path.read_text())
        found = any(words[1] in name for name in functions)
        return "" if found else f"{test}: no such test in the file"


class Tree:
    """Table, tags and tests of a checkout. ValueError where the table is no table."""

    def __init__(self, root):
        table = root / "tests" / "mutation" / "mutations.toml"
        rows = tomllib.loads(table.read_text())  # an ID that stands twice is a ValueError
        self.mutations = {id_: Mutation(id_, row) for id_, row in rows.items()}
        self.root = root
        self.sites = {}
        self.malformed = []
        for path in self._sources():
            self._read_tags(path)
        self.tests = Tests(root)

    def _sources(self):
        for folder in PRODUCT:
            for path in sorted((self.root / folder).rglob("*")):
                if path.suffix in SUFFIXES and "build" not in self._name(path).parts:
                    yield path

    def _read_tags(self, path):
        lines = path.read_text().splitlines(keepends=True)
        for number, line in enumerate(map(str.rstrip, lines), 1):
            if not LIKE_TAG.search(line):
                continue
            place = f"{self._name(path)}:{number}"
            tag = TAG.search(line)
            if tag is None:
                self.malformed.append(f"{place}: not `mutation: ID` at the end of the line")
                continue
            code = line[: tag.start()].rstrip()
            if OTHER_COMMENT.search(code):
                self.malformed.append(f"{place}: another comment stands before the tag")
            for id_ in tag[1].split(", "):
                self.sites.setdefault(id_, []).append(Site(path, lines, number, code))

    def _name(self, path):
        return path.relative_to(self.root)

    def _place(self, site):
        return f"{self._name(site.path)}:{site.number}"

    def problems(self):
        found = list(self.malformed)
        for id_, sites in self.sites.items():
            places = ", ".join(self._place(site) for site in sites)
            if id_ not in self.mutations:
                found.append(f"{id_}: tag without a row in mutations.toml: {places}")
            elif len(sites) > 1:
                found.append(f"{id_}: tag stands {len(sites)} times: {places}")
        for mutation in self.mutations.values():
            found += self._faults(mutation)
        return found

    def _faults(self, mutation):
        sites = self.sites.get(mutation.id, [])
        if not sites:
            yield f"{mutation.id}: no line has the tag"
        for site in sites[:1]:
            places, at = site.places(mutation), self._place(site)
            if len(places) != 1:
                yield f"{mutation.id}: {at} has the text {len(places)} times: {mutation.text}"
            elif mutation.text and QUALIFIER.search(site.before(places[0])):
                yield (
                    f"{mutation.id}: {at} has a longer name before the text, so that the mutated "
                    f"code does not build: {mutation.text}"
                )
            elif site.at(places[0]) == "".join(mutation.instead.split()):
                yield f"{mutation.id}: the replacement is the text itself"
        faults = map(self.tests.missing, mutation.tests)
        yield from (f"{mutation.id}: {fault}" for fault in faults if fault)
