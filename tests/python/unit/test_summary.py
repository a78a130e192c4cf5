"""The last line of make test: .ci/summary.py."""

import pathlib
import subprocess
import sys

SUMMARY = pathlib.Path(__file__).parents[3] / ".ci" / "summary.py"
FIRST = """<testsuite><testcase name="Reliable.One"/><testcase name="Busy.Two"><failure/></testcase>
<testcase name="Broken.Three"><failure/></testcase></testsuite>"""
AGAIN = (
    '<testsuite><testcase name="Busy.Two"/><testcase name="Broken.Three"><failure/></testcase>'
    '</testsuite>'
)
NO_TIME = "ctest: 3 tests, 0 s together"


def summary(folder, *names):
    ended = subprocess.run(
        [sys.executable, SUMMARY, *(folder / name for name in names or ("ctest.xml",))],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return ended.returncode, ended.stdout.splitlines()


def test_failures_are_listed(tmp_path):
    (tmp_path / "ctest.xml").write_text(FIRST)
    assert summary(tmp_path) == (
        1,
        [NO_TIME, "failed: Busy.Two", "failed: Broken.Three", "1 passed, 2 failed, 0 skipped"],
    )


def test_tests_passing_at_the_second_try_pass_and_are_listed(tmp_path):
    (tmp_path / "ctest.xml").write_text(FIRST)
    (tmp_path / "ctest-again.xml").write_text(AGAIN)
    said = [
        NO_TIME,
        "passed at the second try alone: Busy.Two",
        "failed: Broken.Three",
        "2 passed, 1 failed, 0 skipped",
    ]
    assert summary(tmp_path) == (1, said)


def test_a_report_that_is_missing_or_empty_is_a_failure_whatever_came_after_it(tmp_path):
    (tmp_path / "ctest-again.xml").write_text(AGAIN)
    assert summary(tmp_path)[0] == 1
    (tmp_path / "ctest.xml").write_text("<testsuite/>")
    assert summary(tmp_path)[0] == 1


def test_each_part_has_its_time(tmp_path):
    (tmp_path / "ctest.xml").write_text(
        '<testsuite><testcase name="One.Test" classname="One.Test" time="1.25"/>'
        '<testcase name="Two.Test" classname="Two.Test" time="2.5"/></testsuite>'
    )
    (tmp_path / "pytest.xml").write_text(
        '<testsuites><testsuite>'
        '<testcase classname="tests.python.unit.test_top" name="test_a" time="3"/>'
        '<testcase classname="tests.python.unit.test_top.TestX" name="test_b" time="4.2"/>'
        '<testcase classname="tests.engine.test_engine" name="test_c" time="10"/>'
        '</testsuite></testsuites>'
    )
    assert summary(tmp_path, "ctest.xml", "pytest.xml") == (
        0,
        [
            "ctest: 2 tests, 4 s together",
            "tests/python/unit: 2 tests, 7 s together",
            "tests/engine: 1 tests, 10 s together",
            "5 passed, 0 failed, 0 skipped",
        ],
    )
