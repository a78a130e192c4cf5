""".ci/results_page.py writes the tables and answers of docs/performance/results.md and README's
figures from the data, and enters reports; reports of Python's benchmarks have their commit."""

import importlib.util
import json

import pytest
from harness import goals

RUN = {"date": "2026-11-26", "commit": "abc1234"}
EARLIER = {"date": "2026-11-22", "commit": "0123456"}
PAGE = "before\n<!-- `make docs-map` writes this table from data/m.jsonl. -->\n<!-- End of m. -->\n"
GOALS = {  # the newest goals of "In short"
    "ttft.speedup_4k": (200, ">=", 100),
    "ttft.larder_ms": (13.25, "<=", 12),
    "ttft.second_engine_ms": (50, "<=", 120),
    "ttft-disk.speedup": (84, ">=", 10),
    "ttft-remote.speedup": (106, ">=", 50),
    "serve.ttft_p50_factor": (3.2, ">=", 3),
    "serve.tokens_per_s_factor": (2.5, ">=", 1.5),
    "engine.idle_loss": (0.03, "<=", 0.01),
}
FIGURES = {
    "ttft.cold_s_4k": 10.0,
    "ttft.warm_s_4k": 0.05,
    "ttft.larder_ms_4k": 4.0,
    "engine.empty_connector_loss": 0.01,
    "demo.prompt_tokens": 4101,
    "demo.cold_s": 12.0,
    "demo.warm_s": 0.08,
    "demo.second_engine_s": 0.1,
}


@pytest.fixture
def script(root):
    found = importlib.util.spec_from_file_location("page", root / ".ci" / "results_page.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture
def world(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "ROOT", tmp_path)
    monkeypatch.setattr(script, "MACHINE", "m")
    (tmp_path / script.DATA).mkdir(parents=True)
    data = [
        {"figure": figure, "value": value, "op": op, "goal": goal, **RUN}
        for figure, (value, op, goal) in GOALS.items()
    ]
    data += [{"figure": figure, "value": value, **RUN} for figure, value in FIGURES.items()]
    lines = [json.dumps(one) + "\n" for one in data]
    (tmp_path / script.DATA / "m.jsonl").write_text("".join(lines))
    marks = f"{script.BEGIN_FIGURES}{script.END_FIGURES}after\n"
    (tmp_path / script.PAGE).write_text(PAGE + marks)
    (tmp_path / script.README).write_text(marks)
    assert script.main([]) == 0
    return script


def test_both_pages_are_current(script, root):
    for path, text in script.pages(root).items():
        assert text == (root / path).read_text(), f"{path} has old figures: make docs-map"


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
    assert world.main(["add", "m", str(report)]) == 0 and world.main(["--check"]) == 0
    page = (tmp_path / world.PAGE).read_text()
    assert "| `a.b` | 3 | >= 2 | met |" in page and "abc1234-dirty |" in page
    assert "`a.c`" in page and "`a.d`" not in page
    assert world.main(["add", "m", str(report)]) == 0
    assert (tmp_path / world.PAGE).read_text() == page
    assert "m.jsonl: 0 figures of copy.json" in capsys.readouterr().out


def test_the_answers_and_the_figures_of_the_readme_are_those_of_the_newest_run(world, tmp_path):
    page = (tmp_path / world.PAGE).read_text()
    assert "| 0.050 s in place of 10.0 s: 200 times | >= 100 | met | 2026-11-26 abc1234 |" in page
    assert "| 4.0 ms; 13.2 ms at the worst of four lengths, up to 8,192 tokens | <= 12 |" in page
    assert "| <= 12 | **missed** |" in page
    assert "  second engine ▎ 0.050 s\n" in page
    readme = (tmp_path / world.README).read_text()
    assert "150 times sooner warm, and 120 times" in readme
    assert "(run of 2026-11-26, commit abc1234):" in readme
    assert readme.endswith(f"{world.END_FIGURES}after\n")


def test_an_edited_figure_of_the_readme_is_found(world, tmp_path, capsys):
    readme = tmp_path / world.README
    readme.write_text(readme.read_text().replace("150 times", "166 times"))
    assert world.main(["--check"]) == 1
    assert capsys.readouterr().out == "README.md has old figures: make docs-map\n"


def test_a_figure_that_a_page_shows_and_the_data_lack_is_named(world, tmp_path, capsys):
    data = tmp_path / world.DATA / "m.jsonl"
    lines = data.read_text().splitlines(keepends=True)
    data.write_text("".join(line for line in lines if "demo.warm_s" not in line))
    assert world.main(["--check"]) == 1
    assert "m.jsonl: has no demo.warm_s\n" in capsys.readouterr().out


def test_a_report_enters_cells_of_its_rows(script):
    """A demo's goals have the names of bench-ttft's: the row alone is entered."""
    goal = {"id": "ttft.speedup_4k", "value": 200}
    cells = {"cold_s": 10.00004, "warm_s": 0.05, "larder_ms": 4, "second_engine_s": 0.1}
    rows = [{"what": "2049 tokens", **cells}, {"what": "4097 tokens", **cells}]
    ttft = script.records_of({"name": "ttft", "goals": [goal], "rows": rows, **RUN})
    assert [(one["figure"], one["value"]) for one in ttft] == [
        ("ttft.speedup_4k", 200),
        ("ttft.cold_s_4k", 10.0),
        ("ttft.warm_s_4k", 0.05),
        ("ttft.larder_ms_4k", 4),
    ]
    demo_row = {"prompt_tokens": 4101, **cells}
    demo = script.records_of({"name": "demo", "goals": [goal], "rows": [demo_row], **RUN})
    assert [one["figure"] for one in demo] == [
        "demo.prompt_tokens",
        "demo.cold_s",
        "demo.warm_s",
        "demo.second_engine_s",
    ]


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
