"""results_page.py [--check | add MACHINE REPORT...]: the figures of docs/performance/results.md and
of README.md.

Without arguments: writes a table for each docs/performance/data/MACHINE.jsonl. Writes the answers
of "In short" and README's three figures too, each between its two marks. --check writes no file,
and fails if one of them is not current. add: enters the figures of reports (build/bench/NAME.json,
build/demo.json) into the data of MACHINE.

A line of the data is one figure of one run: figure, value, date, commit ("-": unknown). Where
there are any: note, op and goal, state. Of the lines of one figure the last is the result; the
lines before are its history. Lines are added, never changed.
"""

import json
import operator
import pathlib
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "shim" / "python"))
from larder import report as demo_report

PAGE = pathlib.Path("docs/performance/results.md")
README = pathlib.Path("README.md")
DATA = pathlib.Path("docs/performance/data")
MACHINE = "amd-epyc-2"  # the machine of "In short" and of README's figures
BEGIN = "<!-- `make docs-map` writes this table from data/{}.jsonl. -->\n"
END = "<!-- End of {}. -->\n"
BEGIN_FIGURES = f"<!-- `make docs-map` writes these figures from {DATA}/{MACHINE}.jsonl. -->\n"
END_FIGURES = "<!-- End of the figures. -->\n"
HEAD = "| figure | value | goal | | recorded | before |\n|---|---|---|---|---|---|\n"
OPS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt}
MOST_BEFORE = 3  # earlier values in a row
# Figures that a report has in a row, not among its goals: report, row, cells. The goals of a demo
# have the names of bench-ttft's, so a demo enters its row alone.
IN_ROWS = {
    "ttft": ("4097 tokens", "ttft.{}_4k", ("cold_s", "warm_s", "larder_ms")),
    "demo": (None, "demo.{}", ("prompt_tokens", "cold_s", "warm_s", "second_engine_s")),
}
# Question, answer, and the figures of the answer. {0} is the value of the first figure.
IN_SHORT = (
    (
        "How much sooner does a repeated prompt of 4,096 tokens start?",
        "{1:.3f} s in place of {2:.1f} s: {0:.0f} times",
        ("ttft.speedup_4k", "ttft.warm_s_4k", "ttft.cold_s_4k"),
    ),
    (
        "How much of that time is Larder's?",
        "{1:.1f} ms; {0:.1f} ms at the worst of four lengths, up to 8,192 tokens",
        ("ttft.larder_ms", "ttft.larder_ms_4k"),
    ),
    (
        "A second engine that has never seen the prompt?",
        "{0:.0f} ms",
        ("ttft.second_engine_ms",),
    ),
    (
        "From the disk, from Redis?",
        "{0} times, {1} times",
        ("ttft-disk.speedup", "ttft-remote.speedup"),
    ),
    (
        "Eight users who chat at once, against the engine alone?",
        "first token {0} times sooner, {1} times the tokens a second",
        ("serve.ttft_p50_factor", "serve.tokens_per_s_factor"),
    ),
    (
        "What does the connector cost an engine that stores no chunk?",
        "{0:.1%} of the step time; {1:.1%} is vLLM's own cost of any connector",
        ("engine.idle_loss", "engine.empty_connector_loss"),
    ),
)


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


def between(name, text, begin, end, new):
    """`text` with `new` between the two marks, which must stand once."""
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"{name} must stand once")
    first, last = text.index(begin) + len(begin), text.index(end)
    return text[:first] + "\n" + new + "\n" + text[last:]


class Newest:
    """The newest record of each figure. ValueError names a figure without a record."""

    def __init__(self, records):
        self.records = {record["figure"]: record for record in records}

    def of(self, figures):
        missing = [figure for figure in figures if figure not in self.records]
        if missing:
            raise ValueError(f"{DATA}/{MACHINE}.jsonl: has no {', '.join(missing)}")
        return [self.records[figure] for figure in figures]

    def values(self, *figures):
        return [record["value"] for record in self.of(figures)]


def in_short(newest):
    """The answers of "In short", each with its goal and its run, and the bars of one run."""
    text = "| question | answer on the machine of the first table | goal | | recorded |\n"
    text += "|---|---|---|---|---|\n"
    for question, answer, figures in IN_SHORT:
        records = newest.of(figures)
        goals = ", ".join(f"{one['op']} {shown(one['goal'])}" for one in records if "op" in one)
        states = ", ".join(dict.fromkeys(state(one) for one in records if "op" in one))
        runs = ", ".join(dict.fromkeys(map(recorded, records)))
        cells = (question, answer.format(*newest.values(*figures)), goals, states, runs)
        text += "| " + " | ".join(cells) + " |\n"
    cold_s, warm_s, second_ms = newest.values(
        "ttft.cold_s_4k", "ttft.warm_s_4k", "ttft.second_engine_ms"
    )
    bars = demo_report.bars(
        [("cold", cold_s), ("warm", warm_s), ("second engine", second_ms / 1e3)]
    )
    return f"{text}\nThe first token of 4,096 tokens, in seconds:\n\n```\n{bars}\n```\n"


def three_figures(newest):
    """README's figures: the newest run of make demo."""
    figures = ("demo.prompt_tokens", "demo.cold_s", "demo.warm_s", "demo.second_engine_s")
    tokens, cold_s, warm_s, second_s = newest.values(*figures)
    (run,) = newest.of(figures[1:2])
    bars = demo_report.bars([("cold", cold_s), ("warm", warm_s), ("second engine", second_s)])
    text = (
        f"The first token of a prompt of {tokens:,} tokens comes {cold_s / warm_s:.0f} times "
        f"sooner warm, and {cold_s / second_s:.0f} times sooner in a second engine that never saw "
        f"the prompt (run of {run['date']}, commit {run['commit']}):"
    )
    return f"{textwrap.fill(text, 100)}\n\n```\n{bars}\n```\n"


def pages(root):
    """{path: text} of the two pages with current figures."""
    text, readme = (root / PAGE).read_text(), (root / README).read_text()
    for path in sorted((root / DATA).glob("*.jsonl")):
        marks = BEGIN.format(path.stem), END.format(path.stem)
        name = f"{PAGE}: the two marks of {path.name}"
        text = between(name, text, *marks, table(read(path)))
    newest = Newest(read(root / DATA / f"{MACHINE}.jsonl"))
    marks = BEGIN_FIGURES, END_FIGURES
    name = "{}: the two marks of the figures"
    return {
        PAGE: between(name.format(PAGE), text, *marks, in_short(newest)),
        README: between(name.format(README), readme, *marks, three_figures(newest)),
    }


def cells_of(report):
    """(figure, value) of the cells that IN_ROWS names."""
    if report["name"] in IN_ROWS:
        what, figure, cells = IN_ROWS[report["name"]]
        for line in report["rows"]:
            if line.get("what") == what:
                yield from ((figure.format(cell), line[cell]) for cell in cells)


def records_of(report):
    """The records of a report's goals and figures. A goal without a result has no record."""
    run = {"date": report["date"][:10], "commit": report.get("commit", "-")}
    for goal in report["goals"]:
        if "value" in goal and report["name"] != "demo":
            record = {"figure": goal["id"], "value": goal["value"]}
            record |= {name: goal[name] for name in ("op", "goal") if name in goal}
            yield record | run
    for figure, value in cells_of(report):
        yield {"figure": figure, "value": round(value, 4)} | run


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
        new = pages(ROOT)
    except (OSError, ValueError) as error:
        print(error)
        return 1
    old = [path for path, text in new.items() if text != (ROOT / path).read_text()]
    if arguments == ["--check"]:
        for path in old:
            print(f"{path} has old figures: make docs-map")
        return int(bool(old))
    for path in old:
        (ROOT / path).write_text(new[path])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
