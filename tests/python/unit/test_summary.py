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


def summary(folder):
    ended = subprocess.run(
        [sys.executable, SUMMARY, folder / "ctest.xml"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return ended.returncode, ended.stdout.splitlines()


def test_what_fails_is_named(tmp_path):
    (tmp_path / "ctest.xml").write_text(FIRST)
    assert summary(tmp_path) == (
        1,
        ["failed: Busy.Two", "failed: Broken.Three", "1 passed, 2 failed, 0 skipped"],
    )


def test_what_passes_at_the_second_try_has_passed_and_is_named(tmp_path):
    (tmp_path / "ctest.xml").write_text(FIRST)
    (tmp_path / "ctest-again.xml").write_text(AGAIN)
    said = [
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
