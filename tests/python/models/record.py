"""What ran, as one JSON file a setting in $LARDER_MODELS_RECORD, and the table of docs/reference/compatibility.md made of them.

python tests/python/models/record.py FOLDER DOCUMENT: writes the table between the document's markers; nothing that was not run."""

import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

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
            Path(folder, f"{name}.json").write_text(json.dumps({**facts, "vllm": __version__}, indent=1) + "\n")


COLUMNS = ("model or setting", "prompt", "vLLM's own hit", "hit from Larder", "with another tail", "with zeroed KV", "result")


def table(records):
    """Markdown rows, in the order of the settings; hits in tokens."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for one in records:
        result = one.get("result", "did not run") if one["passed"] else "**FAILED**"
        cells = [one[name] if one.get(name) else "-" for name in ("tokens", "local", "hits", "tail", "zeroed")]
        lines.append(f"| {' | '.join(map(str, [one['what'], *cells, result]))} |")
    return "\n".join(lines)


def main(folder, document):
    sys.path.insert(0, str(Path(__file__).parent))
    from settings import ORDER

    records = [json.loads(path.read_text()) for path in Path(folder).glob("*.json")]
    records.sort(key=lambda one: (ORDER.index(one["name"]) if one["name"] in ORDER else len(ORDER), one["name"]))
    text = Path(document).read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    versions = ", ".join(sorted({one["vllm"] for one in records}))
    told = f"Run on vLLM {versions} on the CPU by `make test-models`; the table is written by it.\n\n"
    Path(document).write_text(f"{before}{BEGIN}\n{told}{table(records)}\n{END}{after}")


if __name__ == "__main__":
    main(*sys.argv[1:])
