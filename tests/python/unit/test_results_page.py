""".ci/results_page.py writes the tables of docs/performance/results.md from the data, and enters
reports; reports of Python's benchmarks have their commit."""

import importlib.util
import json

import pytest
from harness import goals

RUN = {"date": "2026-11-26", "commit": "abc1234"}
EARLIER = {"date": "2026-11-22", "commit": "0123456"}
PAGE = "before\n<!-- `make docs-map` writes this table from data/m.jsonl. -->\n<!-- End of m. -->\n"


@pytest.fixture
def script(root):
    found = importlib.util.spec_from_file_location("page", root / ".ci" / "results_page.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture
def world(script, tmp_path):
    script.ROOT = tmp_path
    (tmp_path / script.DATA).mkdir(parents=True)
    (tmp_path / script.DATA / "m.jsonl").write_text("")
    (tmp_path / script.PAGE).write_text(PAGE)
    return script


def test_the_tables_are_current(script, root):
    current = script.page(root) == (root / script.PAGE).read_text()
    assert current, f"{script.PAGE} has an old table: make docs-map"


ROWS = {
    "met": ([{"figure": "a.b", "value": 3, "op": ">=", "goal": 2}], "`a.b` | 3 | >= 2 | met"),
    "missed": (
        [{"figure": "a.b", "value": 22.757, "op": "<=", "goal": 12, "note": "8k"}],
        "`a.b`: 8k | 22.8 | <= 12 | **missed**",
    ),
    "without a goal": ([{"figure": "a.b", "value": 0.0135}], "`a.b` | 0.0135 | - | "),
    "words": (
        [{"figure": "two kills", "value": "6, 7 ms", "goal": "1 s", "state": "met"}],
        "two kills | 6, 7 ms | 1 s | met",
    ),
}


@pytest.mark.parametrize("kind", ROWS)
def test_a_row(script, kind):
    records, cells = ROWS[kind]
    written = script.row([{**records[0], **RUN}])
    assert written == f"| {cells} | 2026-11-26 abc1234 |  |\n"


def test_the_newest_run_counts_and_earlier_runs_stand_behind(script):
    figure = {"figure": "a.b", "op": "<=", "goal": 12}
    runs = [{**figure, "value": 7, **EARLIER}, {**figure, "value": 23, **RUN}]
    assert script.table(runs).endswith(
        "| `a.b` | 23 | <= 12 | **missed** | 2026-11-26 abc1234 | 7 (2026-11-22 0123456) |\n"
    )


def test_a_report_is_entered_once(world, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LARDER_COMMIT", "abc1234-dirty")
    report = tmp_path / "copy.json"
    found = [goals.goal("a.b", 3.0, ">=", 2), goals.figure("a.c", 1.5)]
    goals.write(report, "copy", [], [*found, goals.not_measured("a.d", "no time", "<=", 1)])
    assert json.loads(report.read_text())["commit"] == "abc1234-dirty"
    assert world.main(["--check"]) == 1
    assert world.main(["add", "m", str(report)]) == 0 and world.main(["--check"]) == 0
    page = (tmp_path / world.PAGE).read_text()
    assert "| `a.b` | 3 | >= 2 | met |" in page and "abc1234-dirty |" in page
    assert "`a.c`" in page and "`a.d`" not in page
    assert world.main(["add", "m", str(report)]) == 0
    assert (tmp_path / world.PAGE).read_text() == page
    assert "m.jsonl: 0 figures of copy.json" in capsys.readouterr().out


def test_without_make_the_commit_is_of_the_checkout(monkeypatch):
    monkeypatch.delenv("LARDER_COMMIT", raising=False)
    assert goals.commit() not in ("", "-")
    monkeypatch.setenv("PATH", "/nowhere")
    assert goals.commit() == "-"


@pytest.mark.parametrize(
    "line, fault",
    [
        ("{", "m.jsonl:1: "),
        ('{"figure": "a", "value": 1, "date": "-"}', "m.jsonl:1: has no commit"),
    ],
)
def test_a_broken_line_is_named(world, tmp_path, capsys, line, fault):
    (tmp_path / world.DATA / "m.jsonl").write_text(line + "\n")
    assert world.main([]) == 1 and fault in capsys.readouterr().out


def test_a_machine_without_a_place_on_the_page_is_named(world, tmp_path, capsys):
    (tmp_path / world.DATA / "new.jsonl").write_text("")
    assert world.main([]) == 1
    assert "the two marks of new.jsonl must stand once" in capsys.readouterr().out
