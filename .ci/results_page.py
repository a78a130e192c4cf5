"""results_page.py [--check | add MACHINE REPORT...]: the tables of docs/performance/results.md.

Without arguments: writes a table for each docs/performance/data/MACHINE.jsonl, between its two
marks. --check writes no file, and fails if a table is not current. add: enters the figures of
reports (build/bench/NAME.json) into the data of MACHINE.

A line of the data is one figure of one run: figure, value, date, commit ("-": unknown), and where
there are any: note, op and goal, state. Of the lines of one figure the last is the result; the
lines before are its history. Lines are added, never changed.
"""

import json
import operator
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = pathlib.Path("docs/performance/results.md")
DATA = pathlib.Path("docs/performance/data")
BEGIN = "<!-- `make docs-map` writes this table from data/{}.jsonl. -->\n"
END = "<!-- End of {}. -->\n"
HEAD = "| figure | value | goal | | recorded | before |\n|---|---|---|---|---|---|\n"
OPS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt}
MOST_BEFORE = 3  # earlier values in a row


def shown(value):
    """A number with four digits at most, or the words of the data."""
    if not isinstance(value, (int, float)):
        return value
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g} million"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) >= 10 else f"{value:.4g}"


def recorded(record):
    return "-" if record["date"] == "-" else f"{record['date']} {record['commit']}"


def state(record):
    """Whether the goal is met. Words of the data stand where one number cannot tell."""
    if "state" in record:
        return record["state"]
    if "goal" not in record:
        return ""
    met = OPS[record["op"]](record["value"], record["goal"])
    return "met" if met else "**missed**"


def row(records):
    """The row of one figure."""
    last, earlier = records[-1], records[:-1][-MOST_BEFORE:]
    note = f": {last['note']}" if "note" in last else ""
    goal = f"{last['op']} {shown(last['goal'])}" if "op" in last else last.get("goal", "-")
    before = ", ".join(f"{shown(one['value'])} ({recorded(one)})" for one in reversed(earlier))
    name = last["figure"]
    name = name if " " in name else f"`{name}`"  # the id of a figure, or words
    cells = (name + note, shown(last["value"]), goal, state(last), recorded(last), before)
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"


def read(path):
    """The records of a machine. ValueError names a line that is none."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            record = json.loads(line)
            missing = {"figure", "value", "date", "commit"} - record.keys()
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from None
        if missing:
            raise ValueError(f"{path}:{number}: has no {', '.join(sorted(missing))}")
        found.append(record)
    return found


def table(records):
    by_figure = {}
    for record in records:
        by_figure.setdefault(record["figure"], []).append(record)
    return HEAD + "".join(map(row, by_figure.values()))


def page(root):
    text = (root / PAGE).read_text()
    for path in sorted((root / DATA).glob("*.jsonl")):
        begin, end = BEGIN.format(path.stem), END.format(path.stem)
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"{PAGE}: the two marks of {path.name} must stand once")
        first, last = text.index(begin) + len(begin), text.index(end)
        text = text[:first] + "\n" + table(read(path)) + "\n" + text[last:]
    return text


def records_of(report):
    """The records of a report's goals and figures. A goal without a result has no record."""
    for goal in report["goals"]:
        if "value" not in goal:
            continue
        record = {"figure": goal["id"], "value": goal["value"]}
        record |= {name: goal[name] for name in ("op", "goal") if name in goal}
        yield record | {"date": report["date"][:10], "commit": report.get("commit", "-")}


def add(root, machine, reports):
    """Enters reports. A record that the data have is left out."""
    path = root / DATA / f"{machine}.jsonl"
    known = read(path)
    for report in reports:
        new = [one for one in records_of(json.loads(report.read_text())) if one not in known]
        with path.open("a") as data:
            data.writelines(json.dumps(one, ensure_ascii=False) + "\n" for one in new)
        print(f"{path.name}: {len(new)} figures of {report.name}")


def main(arguments):
    try:
        if arguments[:1] == ["add"] and len(arguments) > 2:
            add(ROOT, arguments[1], [pathlib.Path(one) for one in arguments[2:]])
        elif arguments not in ([], ["--check"]):
            print(__doc__)
            return 2
        new = page(ROOT)
    except (OSError, ValueError) as error:
        print(error)
        return 1
    if arguments == ["--check"]:
        current = new == (ROOT / PAGE).read_text()
        if not current:
            print(f"{PAGE} has an old table: make docs-map")
        return int(not current)
    (ROOT / PAGE).write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
