"""The rows that ran, as one JSON file a setting in $LARDER_MODELS_RECORD, and the table of
docs/reference/compatibility.md made from these files.

python tests/python/models/record.py DOCUMENT FOLDER...: writes the table between the document's
markers, with a column of results for each folder. A folder holds the records of one version of
vLLM. A row that did not run is left out."""

import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from settings import ORDER

BEGIN, END = "<!-- models: begin -->", "<!-- models: end -->"


def of(setting):
    return named(setting.name, setting.what, setting.tokens)


@contextmanager
def named(name, what, tokens):
    """Gives told(**facts); the record says whether the test passed."""
    facts = {"name": name, "what": what, "tokens": tokens, "passed": False}
    try:
        yield lambda **more: facts.update(more)
        facts["passed"] = True
    except pytest.skip.Exception as skipped:
        facts.update(passed=True, result=f"not run: {skipped.msg}")
        raise
    finally:
        folder = os.environ.get("LARDER_MODELS_RECORD")
        if folder:
            from vllm.version import __version__

            Path(folder).mkdir(parents=True, exist_ok=True)
            Path(folder, f"{name}.json").write_text(
                json.dumps({**facts, "vllm": __version__}, indent=1) + "\n"
            )


COLUMNS = (
    "model or setting",
    "prompt",
    "vLLM's own hit",
    "hit from Larder",
    "with another tail",
    "with zeroed KV",
)
NUMBERS = ("tokens", "local", "hits", "tail", "zeroed")


def result_of(record):
    if record is None:
        return "-"
    return record.get("result", "did not run") if record["passed"] else "**FAILED**"


def table(versions):
    """Markdown rows, in the order of the settings; hits in tokens. `versions`: {version: {name:
    record}}, the first one's numbers first."""
    lines = [
        f"| {' | '.join([*COLUMNS, *versions])} |",
        "|---" * (len(COLUMNS) + len(versions)) + "|",
    ]
    names = {name for records in versions.values() for name in records}
    for name in sorted(
        names, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name)
    ):
        ran = [records.get(name) for records in versions.values()]
        told = [one for one in ran if one]
        cells = [
            " / ".join(dict.fromkeys(str(one[key]) for one in told if one.get(key))) or "-"
            for key in NUMBERS
        ]
        lines.append(f"| {' | '.join([told[0]['what'], *cells, *map(result_of, ran)])} |")
    return "\n".join(lines)


def main(document, *folders):
    versions = {}
    for folder in folders:
        records = [json.loads(path.read_text()) for path in Path(folder).glob("*.json")]
        (version,) = {one["vllm"] for one in records}
        versions[version] = {one["name"]: one for one in records}
    text = Path(document).read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    told = (
        f"Run on vLLM {' and '.join(versions)} on the CPU by `make test-models`; "
        "this target writes the table.\n\n"
    )
    Path(document).write_text(f"{before}{BEGIN}\n{told}{table(versions)}\n{END}{after}")


if __name__ == "__main__":
    main(*sys.argv[1:])
