"""tests/mutation: the check finds each kind of drift, and every end of a run leaves the source as
before. The tree is a small one of the test's own."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

CODE = "int rule() {\n  return 1;  // mutation: one-rule\n}\n"
ROW = """[one-rule]
protects = "The rule gives one."
text = 'return 1;'
instead = 'return 2;'
tests = ["a_test Suite.Case"]
"""
# The tree's test passes while the rule is in place. Without the rule the test waits for the file
# `go_on`.
PROGRAM = """#!/bin/sh
grep -q 'return 1;' shim/rule.cc && exit 0
touch mutated
for try in 1 2 3 4 5 6 7 8 9 10; do [ -e go_on ] && exit 1; sleep 0.5; done
exit 1
"""


class World:
    def __init__(self, folder, root):
        self.folder = folder
        self.source = self.write("shim/rule.cc", CODE)
        self.table = self.write("tests/mutation/mutations.toml", ROW)
        self.write("tests/a_test.cc", "TEST(Suite, Case) {}\n")
        self.write("tests/CMakeLists.txt", "larder_test(a_test a_test.cc)\n")
        for name in ("mutations.py", "mutation_table.py"):
            shutil.copy(root / "tests" / "mutation" / name, folder / "tests" / "mutation")
        self.write("bin/cmake", "#!/bin/sh\n").chmod(0o755)
        self.write("build/dev/bin/a_test", PROGRAM).chmod(0o755)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def start(self, *arguments):
        environment = dict(os.environ, PATH=f"{self.folder}/bin:{os.environ['PATH']}")
        command = [sys.executable, self.folder / "tests" / "mutation" / "mutations.py", *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(command, env=environment, **pipes)

    def run(self, *arguments):
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=60)
        return process.returncode, output

    def mutated(self):
        """A run that stands in the test of the mutated code."""
        process = self.start()
        deadline = time.monotonic() + 30
        while not (self.folder / "mutated").exists():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
        assert "return 2;  // mutation: one-rule" in self.source.read_text()
        return process


@pytest.fixture
def world(tmp_path, root):
    return World(tmp_path, root)


def test_a_tree_in_order(world):
    assert world.run("--check") == (0, "1 mutations, 0 wrong\n")


def code(tag="// mutation: one-rule", text="return 1;"):
    return f"int rule() {{\n  {text}  {tag}\n}}\n"


NOT_AT_THE_END = "shim/rule.cc:2: not `mutation: ID` at the end of the line"
CODE_DRIFTS = {  # the source, and words of the message
    "no tag": (code(tag=""), "one-rule: no line has the tag"),
    "an orphan": (CODE + "x;  // mutation: other\n", "other: tag without a row in mutations"),
    "a double tag": (CODE + CODE, "one-rule: tag stands 2 times: shim/rule.cc:2, shim/rule.cc:5"),
    "a drifted line": (code(text="return one;"), "one-rule: shim/rule.cc:2 has the text 0 times"),
    "the text on another line": (code(text="\n") + "return 1;\n", "has the text 0 times"),
    "the text twice": (code(text="return 1; return 1;"), "has the text 2 times"),
    "a longer name": (code(text="other.return 1;"), "has a longer name before the text"),
    "the text in a comment": (code(text="x;  // return 1;"), "another comment stands before"),
    "a tag with more behind": (code(tag="// mutation: one-rule (README)"), NOT_AT_THE_END),
    "a tag in capitals": (code(tag="// Mutation: one-rule"), NOT_AT_THE_END),
    "a tag without a space": (code(tag="//mutation: one-rule"), NOT_AT_THE_END),
}
TABLE_DRIFTS = {
    "no replacement": (("instead = 'return 2;'\n", ""), "one-rule: one of instead and delete"),
    "an empty replacement": (("return 2;", ""), "one-rule: one of instead and delete"),
    "two replacements": (("instead", "delete = true\ninstead"), "one-rule: one of instead and"),
    "an equal replacement": (("return 2;", "return 1;"), "the replacement is the text itself"),
    "a date": (("text =", "seen = '2026-11-21'\ntext ="), "one-rule: seen is unknown"),
    "no sentence": (("The rule gives one.", ""), "one-rule: protects is missing"),
    "no test": (('"a_test Suite.Case"', ""), "one-rule: tests is missing"),
    "an unknown case": (("Suite.Case", "Suite.Other"), "a_test Suite.Other: no such case"),
    "an unknown suite": (("Suite.Case", "Other.*"), "a_test Other.*: no such case"),
    "an unknown program": (("a_test ", "b_test "), "b_test Suite.Case: no such program"),
    "an unknown file": (("a_test Suite.Case", "pytest tests/test_x.py test_x"), "no such file"),
}


LAYOUTS = {  # the text of a row, the statement as a formatter lays it out, and the mutated one
    "a condition": ("if (one < two) return;", "if (one < two)\n  return;  // TAG", "new  // TAG"),
    "a call": ("stop(one, now());", "stop(one,\n     now());  // TAG", "new  // TAG"),
    "an expression": ("a && b.c()", "x = a &&\n    b\n        .c();  // TAG", "x = new;  // TAG"),
    "a long string": ('f("one two");', 'f(\n    "one "\n    "two");  // TAG', "new  // TAG"),
    "a tag inside": ("return a || b;", "return a ||  // TAG\n       b;", "new"),
    "a tag behind": ("call(one", "call(one,\n     two);  // TAG", "new,\n     two);  // TAG"),
    "a last comma": ("f(a, b)", "x = f(\n    a,\n    b,\n)  # TAG", "x = new  # TAG"),
    "brackets around all": ("a or b", "x = (\n    a or b\n)  # TAG", "x = (\n    new\n)  # TAG"),
}


STATEMENTS = {  # a statement without a text in its row
    "one line": "return 1;  // TAG",
    "several lines": "if (one)\n  stop(one,\n     now());  // TAG",
    "a tag inside": "return a ||  // TAG\n       b;",
    "a loop": "for (int i = 0; i < 3;\n     ++i)\n  stop(i);  // TAG",
    "a block's head": "if (one ||\n    two) {  // TAG",
}


def tree_of(world, root):
    sys.path.insert(0, str(root / "tests" / "mutation"))
    try:
        from mutation_table import Tree
    finally:
        sys.path.pop(0)
    return Tree(world.folder)


def problems(world, root):
    try:
        return "\n".join(tree_of(world, root).problems())
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_of_a_statement_does_not_count(world, root, layout):
    text, code, mutated = (one.replace("TAG", "mutation: one-rule") for one in LAYOUTS[layout])
    world.source.write_text(f"before();\n{code}\nafter();\n")
    world.table.write_text(ROW.replace("return 1;", text).replace("return 2;", "new"))
    tree = tree_of(world, root)
    assert tree.problems() == []
    (site,) = tree.sites["one-rule"]
    assert site.replaced(tree.mutations["one-rule"]) == f"before();\n{mutated}\nafter();\n"


@pytest.mark.parametrize("kind", STATEMENTS)
def test_a_row_without_a_text_is_of_the_whole_statement(world, root, kind):
    code = STATEMENTS[kind].replace("TAG", "mutation: one-rule")
    world.source.write_text(f"before();\n  // why\n  {code}\n  after();\n")
    row = ROW.replace("text = 'return 1;'\n", "")
    for change, line in (("instead = 'new;'", "  new;\n"), ("delete = true", "")):
        world.table.write_text(row.replace("instead = 'return 2;'", change))
        tree = tree_of(world, root)
        assert tree.problems() == []
        (site,) = tree.sites["one-rule"]
        mutated = site.replaced(tree.mutations["one-rule"])
        assert mutated == f"before();\n  // why\n{line}  after();\n"


def test_a_text_on_the_line_before_the_statement_is_not_of_the_rule(world, root):
    world.source.write_text("return 1;\nother(\n    5);  // mutation: one-rule\n")
    assert "has the text 0 times" in problems(world, root)


def test_words_keep_the_space_between_them(world, root):
    world.source.write_text(code(text="return1;"))
    assert "has the text 0 times" in problems(world, root)


@pytest.mark.parametrize("drift", CODE_DRIFTS)
def test_a_drift_of_the_code_is_named(world, root, drift):
    source, words = CODE_DRIFTS[drift]
    assert problems(world, root) == ""
    world.source.write_text(source)
    assert words in problems(world, root)


@pytest.mark.parametrize("drift", TABLE_DRIFTS)
def test_a_drift_of_the_table_is_named(world, root, drift):
    change, words = TABLE_DRIFTS[drift]
    assert change[0] in ROW
    world.table.write_text(ROW.replace(*change))
    assert words in problems(world, root)


def test_a_row_that_stands_twice_ends_the_check(world):
    world.table.write_text(ROW + ROW)
    status, output = world.run("--check")
    assert status == 1 and "one-rule" in output and "0 mutations, 1 wrong" in output


def test_several_rules_of_a_line_and_a_text_that_goes_away(world):
    world.source.write_text(CODE.replace("one-rule", "one-rule, two-rule"))
    two = ROW.replace("one-rule", "two-rule").replace("instead = 'return 2;'", "delete = true")
    world.table.write_text(ROW + two)
    assert world.run("--check") == (0, "2 mutations, 0 wrong\n")
    world.write("go_on", "")
    assert world.run("two-rule") == (0, "ok  two-rule: The rule gives one.\n1 mutations, 0 wrong\n")


def test_a_run_says_which_rule_no_test_needs(world):
    world.write("build/dev/bin/a_test", "#!/bin/sh\nexit 0\n")
    status, output = world.run()
    assert status == 1 and "NOT one-rule: passes without the rule: a_test Suite.Case" in output
    assert world.source.read_text() == CODE


def test_a_test_that_fails_before_proves_no_rule(world):
    world.write("build/dev/bin/a_test", "#!/bin/sh\nexit 1\n")
    status, output = world.run()
    assert status == 1 and "NOT one-rule: fails with the rule in place" in output


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_run_that_is_ended_leaves_no_mutated_file(world, ending):
    process = world.mutated()
    process.send_signal(ending)
    process.communicate(timeout=30)
    assert process.returncode != 0 and world.source.read_text() == CODE
    assert world.run("--check")[0] == 0


def test_after_a_kill_the_next_run_puts_the_file_back(world):
    process = world.mutated()
    process.kill()
    process.wait()
    status, output = world.run("--check")
    assert status == 1 and "the next run puts the file back" in output
    world.write("go_on", "")
    status, output = world.run()
    assert status == 0 and "put back" in output and world.source.read_text() == CODE


def test_an_edit_behind_a_kill_is_left_alone(world):
    process = world.mutated()
    process.kill()
    process.wait()
    world.source.write_text("edited\n")
    status, output = world.run()
    assert status == 1 and "edited since" in output and world.source.read_text() == "edited\n"


def test_one_run_at_a_time(world):
    process = world.mutated()
    status, output = world.run()
    assert status == 1 and "another run is under way" in output
    assert "return 2;" in world.source.read_text()
    world.write("go_on", "")
    process.communicate(timeout=30)
    assert process.returncode == 0 and world.source.read_text() == CODE
