"""tests/lint: the checks of `make lint` that read pages. Each must be able to fail."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lint"))
import classes  # noqa: E402
import code_of_tests  # noqa: E402
import columns  # noqa: E402
import commands  # noqa: E402
import comments  # noqa: E402
import guides  # noqa: E402
import links  # noqa: E402
import pages  # noqa: E402
import texts  # noqa: E402
import words  # noqa: E402


def test_every_link_leads_somewhere():
    assert links.check() == []


@pytest.mark.parametrize(
    "text, fault",
    [
        ("see [a](missing.md)", "links to missing.md, which does not exist"),
        ("[a](there.md#no)", "links to there.md#no: there.md has no such heading"),
        ("[a](#no)", "links to #no: page.md has no such heading"),
        ('[a](missing.md "title")', "links to missing.md, which does not exist"),
        ("![p](missing.svg)", "links to missing.svg, which does not exist"),
        ("[a](there.md#one-two-1), [b](#here), [c](https://example/x)", None),
        ("`[a](missing.md)`", None),
        ("```\n[a](missing.md)\n```\n", None),
        ("<!-- [a](missing.md) -->", None),
    ],
)
def test_a_broken_link_is_found(tmp_path, text, fault):
    (tmp_path / "there.md").write_text("# One: `two`\n# One two\n")
    page = tmp_path / "page.md"
    page.write_text(f"# Here\n{text}\n")
    headings = lambda path: pages.anchors(path.read_text())  # noqa: E731
    found = list(links.broken_links(page, page.read_text(), headings))
    assert [why for _, why in found] == ([fault] if fault else [])


def test_sources_have_their_share_of_comments(tmp_path):
    assert comments.check() == []
    source = tmp_path / "a.cc"
    source.write_text("// The slot is ours: no reader has its generation." + "\nf();" * 23)
    assert comments.share_of([source]) == 1 / 24 < comments.LEAST_OF_ROOM
    assert list(comments.fault("room", [source], 1 / 24)) == []
    assert list(comments.fault("room", [source], comments.LEAST_OF_ROOM)) == [
        "room: 4.2% of lines of *.cc are comments, not 6%"
    ]


def test_no_line_of_a_source_is_too_long():
    assert columns.check() == []


def test_a_wrapped_paragraph_of_a_page_is_wrapped_at_100_columns():
    words = ("word " * 25).strip()
    single = f"# {words}\n\n{words}\n\n| {words} |\n| - |\n\n```\n{words}\n{words}\n```\n"
    block = f"    {words}\n    + {words}\n    {words}\n\n"
    link = f"[a]({'x' * 120})\nafter\n"
    assert columns.wrap(single + block + link) == single + block + link
    assert list(columns.longer_prose(single + block + link)) == []
    page = f"- {words}\n  end with `{words}` and the rest\n- next\n"
    assert list(columns.longer_prose(page)) == [(1, 126), (2, 150)]
    wrapped = columns.wrap(page)
    assert wrapped.split("\n")[-3:] == ["  and the rest", "- next", ""]
    assert f"`{words}`" in wrapped and list(columns.longer_prose(wrapped)) == []


LONG = "x" * 90


@pytest.mark.parametrize(
    "name, text, lines",
    [
        ("a.h", f"int a;\n// {LONG} xxxxxxx\n// {LONG} xxxxxx\n", [2]),
        ("a.cc", f'f(R"({LONG})" + one_more);\n', [1]),
        ("a.cc", f'f(R"({LONG} {LONG}\n{LONG} {LONG})");\n// {LONG} {LONG}\n', [3]),
        ("a.cu", f"f({LONG}, 1234);  // NOLINT(why)\n", []),
        ("a.py", f'"""{LONG} {LONG}\n{LONG} {LONG}"""\n', [1, 2]),
        ("a.py", f'def f():\n    # why\n    """{LONG} {LONG}\n    more"""\n', [3]),
        ("a.py", f'x = f(\n    """{LONG} {LONG}\n{LONG} {LONG}"""\n)\n', []),
        ("a.py", f'x = f"""{LONG} {LONG} {{1}}\n{LONG} {LONG}"""\n', []),
        ("a.py", f'x = "{LONG} {LONG}"\n', [1]),
        ("a.py", f"import {LONG}  # noqa: E402\n", []),
        ("a.py", f"import {LONG}, xyz  # noqa: E402\n", [1]),
        ("a.sh", f"cat <<END\n{LONG} {LONG}\nEND\necho {LONG} {LONG}\n", [4]),
        ("Makefile", f"all:\n\t@{LONG}\n\t@{LONG}xx\n", [3]),
        ("CMakeLists.txt", f"f({LONG} {LONG})\n", [1]),
    ],
)
def test_a_line_that_is_too_long_is_found(name, text, lines):
    assert [number for number, _ in columns.longer_lines(Path(name), text)] == lines


def test_a_name_of_a_page_that_is_gone_is_found():
    gone = "docs/" + "gone.md"
    why = f"names {gone}, which does not exist"
    assert list(links.broken_names(f"a line\n// {gone} tells more")) == [(2, why)]
    assert list(links.broken_names("docs/README.md, ../docs/x.md, https://docs/y.md")) == []


@pytest.mark.parametrize(
    "title, name",
    [
        ("## 1. The image into your registry", "1-the-image-into-your-registry"),
        ("### `kubectl larder`: A / B", "kubectl-larder-a--b"),
        ("# See [this](x.md)!", "see-this"),
        ("## KServe's own kvCacheOffloading", "kserves-own-kvcacheoffloading"),
    ],
)
def test_anchors_are_named_as_github_names_them(title, name):
    assert pages.anchors(title) == {name}


def counted(text):
    return words.count(words.prose(text))


@pytest.mark.parametrize(
    "text, fault",
    [
        (
            "What comes late is refused. " + "The server closes the connection. " * 90,
            'a clause as subject: "What comes late is refused."',
        ),
        ("The page says what. " * 20, "what: 250.0 in 1,000 words, at most 2"),
        (
            "No slot holds nothing, and nobody reads. " * 20,
            "nobody/nothing/none: 285.7 in 1,000 words, at most 2",
        ),
        ("The slot gives it to those. " * 20, "pronouns: 333.3 in 1,000 words, at most 25"),
        ("`what nobody it` and [text](what/it.md).\n\n```\nwhat\n```\n<!-- what -->", None),
        ("What does the cache cost? One step. " * 3, "what: 142.9 in 1,000 words, at most 2"),
        ("The server says what to do.", None),  # one is allowed in any page
    ],
)
def test_words_are_counted(text, fault):
    assert list(counted(text).faults()) == ([fault] if fault else [])


@pytest.mark.parametrize(
    "long, fault",
    [(27, None), (28, "docs: 28.0 of 1,000 sentences have more than 25 words, at most 27")],
)
def test_the_share_of_long_sentences_does_not_rise(long, fault):
    text = (" ".join(["word"] * 26) + ". ") * long + "One word and more. " * (1000 - long)
    found = list(words.check_long({"docs": counted(text)}))
    assert [one.removesuffix(": divide the new ones (words.py --long)") for one in found] == (
        [fault] if fault else []
    )


def test_a_sentence_of_the_most_words_is_not_long():
    assert counted(" ".join(["word"] * 25) + ".").long == 0


def passages(name, text):
    return [(one.kind, one.line, one.text) for one in texts.passages(Path(name), text)]


PYTHON = """#!/usr/bin/env python3
\"\"\"A page.

None of it.\"\"\"
x = None  # the slot, or None
# One thought
# in two lines.


def f(name):
    raise ValueError(f"{name} is no slot of this arena" " at all")
    return "a key", {"short": "two words"}
"""


def test_comments_and_messages_of_python_are_passages():
    assert sorted(passages("a.py", PYTHON)) == [
        ("comment", 2, "A page.\n\nNone of it."),
        ("comment", 5, "the slot, or X1"),
        ("comment", 6, "One thought\nin two lines."),
        ("message", 11, "X1 is no slot of this arena at all"),
    ]


def test_comments_and_messages_of_cpp_are_passages():
    source = (
        'int a = 0;  // the slot\n// one thought\n// in two lines\nauto url = "http://what";\n'
        '/* A block,\n * continued; 0: none */\nthrow Error("the arena has "\n      "no slot");\n'
    )
    assert sorted(passages("a.h", source)) == [
        ("comment", 1, "the slot"),
        ("comment", 2, "one thought\nin two lines"),
        ("comment", 5, " A block,\ncontinued; 0: X1 "),
        ("message", 7, "the arena has no slot"),
    ]


def test_comments_of_scripts_are_passages():
    text = "#!/bin/bash\n# run.sh: runs.\ncp a b  # twice\necho '#!'\nhelp: ## this list\n"
    assert passages("run.sh", text) == [
        ("comment", 2, "run.sh: runs."),
        ("comment", 3, "twice"),
        ("comment", 5, "this list"),
    ]


def test_a_cell_and_a_wrapped_item_are_one_sentence_each():
    page = (
        "| one cell | another cell |\n|---|---|\n\n"
        "- an item that\n  is wrapped\n- next\n\n# Here\nText.\n"
    )
    found = [one.strip() for one in words.prose(page) if one.strip("- ")]
    assert found == [
        "one cell",
        "another cell",
        "- an item that is wrapped",
        "- next",
        "# Here",
        "Text.",
    ]


SETTINGS = """
# A pool.
{{/* One entry of
the list. */}}
title: Hits
spec:
  - title: Pools
    description: Pods of the pool {{ $labels.pool }},
      by node.
    unit: short
  description: >-
    The state of the
    pool.
  size: {type: string, description: The most bytes, default: 1Gi}
  - {rule: a <= b, message: 'a request: at most the limit'}
"""


def test_comments_and_texts_for_people_of_yaml_and_toml_are_passages():
    assert sorted(passages("a.yaml", SETTINGS)) == [
        ("comment", 2, "A pool."),
        ("comment", 3, "One entry of\nthe list."),
        ("message", 5, "Hits"),
        ("message", 7, "Pools"),
        ("message", 8, "Pods of the pool X1,\nby node."),
        ("message", 11, "\nThe state of the\npool."),
        ("message", 14, "The most bytes"),
        ("message", 15, "a request: at most the limit"),
    ]
    assert passages("a.toml", 'protects = "A rule."\ninstead = "return;"\n') == [
        ("message", 1, "A rule.")
    ]


@pytest.mark.parametrize(
    "text, faults",
    [
        ("The slot is free. " * 30, []),
        (
            "What is free is the slot. ",
            ['room, headers: a clause as subject: "What is free is the slot."'],
        ),
        ("Nobody. " * 9, ["room, headers: nobody/nothing/none: 1000.0 in 1,000 words, at most 2"]),
        ("It is free. " * 9, ["headers: pronouns: 333.3 in 1,000 words, at most 28"]),
    ],
)
def test_a_room_above_a_limit_is_a_fault(text, faults):
    assert list(words.check_sources({("room", "headers"): counted(text)})) == faults


def test_every_page_and_every_room_is_within_the_limits():
    assert list(words.check({path: words.counts_of(path) for path in words.pages()})) == []
    assert list(words.check_sources(words.by_room(words.sources()))) == []


def test_a_page_above_a_limit_is_a_fault():
    good, bad = Path("good.md"), Path("bad.md")
    found = {good: counted("The slot is free."), bad: counted("What it is. " * 9)}
    assert {fault.split(":")[0] for fault in words.check(found)} == {"bad.md"}


def test_every_command_of_the_guides_is_run_or_marked():
    assert guides.check() == []


BLOCK = "```sh\n{}\n```\n"
TOP = "tests/python/unit/test_top.py::test_once_prints_one_screen_with_rates"
FIRST_HOUR = "e2e/scenarios/test_first_hour.py::test_the_first_hour"
CHECK = (
    "tests/component/backend_check_test.cc::BackendCheckTest.ReadsUrlAndPrefixFromConfigurationFile"
)
UNMARKED = "a shell block without 'run by' or 'not run' directly above"


@pytest.mark.parametrize(
    "marks, command, fault",
    [
        ([f"run by: {TOP}"], "larderctl --socket /s top --once   # a comment --none", None),
        ([f"run by: {CHECK}"], "larderctl backend check --config larder.yaml", None),
        ([f"run by: {FIRST_HOUR}"], "kubectl -n other get cachepools", None),
        (["run by: make demo, make test"], "make demo\nmake test", None),
        (["not run: a GPU was not at hand"], "larderctl nothing | nowhere", None),
        (
            [f"run by: {TOP}", "not run: `docker`: no Docker"],
            "docker push x && larderctl top",
            None,
        ),
        ([], "larderctl top", UNMARKED),
        (["run by: none.py::test_x"], "larderctl top", "none.py does not exist"),
        (
            [f"run by: {TOP}x"],
            "larderctl top",
            "tests/python/unit/test_top.py has no test 'test_once_prints_one_screen_with_ratesx'",
        ),
        (
            ["run by: tests/python/unit/test_top.py"],
            "larderctl top",
            "tests/python/unit/test_top.py has no test ''",
        ),
        (
            [f"run by: {CHECK}Not"],
            "larderctl backend check --config larder.yaml",
            "tests/component/backend_check_test.cc has no test "
            "'BackendCheckTest.ReadsUrlAndPrefixFromConfigurationFileNot'",
        ),
        (["run by: make nowhere"], "make nowhere", "make nowhere is no target of the Makefile"),
        (["run by: make demo"], "make demo test", "no test of the mark has `make test`"),
        ([f"run by: {TOP}"], "larderctl drop x", "no test of the mark has `larderctl drop x`"),
        (
            [f"run by: {TOP}"],
            "larderctl top \\\n  --forever",
            "no test of the mark has `larderctl top --forever`",
        ),
        ([f"run by: {TOP}"], "x && oc top", "no test of the mark has `x`"),
        ([f"run by: {FIRST_HOUR}"], "docker build .", "no test of the mark has `docker build`"),
        (
            ["not run: `docker`: no Docker"],
            "larderctl top",
            "'not run' of `docker`, which is not in the block",
        ),
        (
            [f"run by: {TOP}", "not run: no GPU"],
            "larderctl top",
            "'run by' and 'not run' of the whole block",
        ),
    ],
)
def test_a_command_that_is_run_by_no_test_is_found(tmp_path, marks, command, fault):
    page = tmp_path / "page.md"
    page.write_text("".join(f"<!-- {mark} -->\n" for mark in marks) + BLOCK.format(command))
    found = [one.split(": ", 1)[1] for one in guides.check([page])]
    assert found[:1] == ([fault] if fault else [])


def test_a_mark_stands_directly_above_a_block(tmp_path):
    page = tmp_path / "page.md"
    mark = f"<!-- run by: {TOP} -->\n"
    page.write_text(f"{mark}\n{BLOCK.format('larderctl top')}\n{mark}")
    stray = "a mark stands above no block"
    assert guides.check([page]) == [
        f"{page}:1: {stray}",
        f"{page}:3: {UNMARKED}",
        f"{page}:7: {stray}",
    ]
    page.write_text("```\n$ larderctl top\nits screen\n```\n\n```\nlarderctl top\n```\n")
    assert guides.check([page]) == [f"{page}:1: {UNMARKED}"]
    page.write_text("Run:\n\n    larderctl top\n\n- an item\n\n    and its text\n")
    assert guides.check([page]) == [f"{page}:3: {UNMARKED}"]


def test_comments_and_docstrings_of_a_test_run_nothing(tmp_path):
    test = tmp_path / "test_x.py"
    test.write_text('"""larderctl top"""\n\n\ndef test_x():\n    run("larderctl")  # top\n')
    own, imported, strings = code_of_tests.code_of(test)
    assert code_of_tests.has(own, ["larderctl"]) and not code_of_tests.has(own, ["top"])
    assert own in imported and "larderctl" in strings
    assert (
        code_of_tests.body_of(test.read_text(), "test_x") == "def test_x():\n    run('larderctl')"
    )


def test_the_functions_that_a_test_names_belong_to_the_test():
    text = (
        "def force():\n    run('upgrade')\n\n\ndef other():\n    run('remove')\n\n\n"
        "@pytest.mark.parametrize('act', [force])\ndef test_x(act):\n    act()\n"
    )
    code = code_of_tests.body_of(text, "test_x")
    assert code_of_tests.has(code, ["upgrade"]) and not code_of_tests.has(code, ["remove"])
    assert code_of_tests.body_of(text, "force") is None  # no test


def test_a_test_of_cc_ends_with_its_brace():
    text = "TEST_F(ATest, Runs) {\n  run(kLarderd);  // top\n}\n\nTEST(ATest, Not) {\n  top();\n}\n"
    assert code_of_tests.body_of(text, "ATest.Runs").strip() == "run(kLarderd);"
    assert code_of_tests.body_of(text, "ATest.Gone") is None


@pytest.mark.parametrize(
    "text, fault",
    [
        ("Ask with `larderctl top`, or `make demo MODEL=x`.", None),  # some page names a test of it
        ("`larderctl` alone, a `path/kubectl` and ``kubectl`` are no commands.", None),
        (
            "| a | `kubectl frobnicate x` |",
            "no test has `kubectl frobnicate x`, and no mark says why",
        ),
        ("- `make nowhere`", "no test has `make nowhere`, and no mark says why"),
        ("<!-- not run: `oc`: none at hand -->\n`oc apply x` and `larderctl top`", None),
        ("<!-- run by: make demo -->\nNo command.", "a mark stands above no block"),
    ],
)
def test_commands_of_sentences_are_found(tmp_path, text, fault):
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n{text}\n")
    found = [one.split(": ", 1)[1] for one in guides.check([page])]
    assert found == ([fault] if fault else [])


@pytest.mark.parametrize(
    "line, wanted",
    [
        ("sudo FOO=1 larderd &   # stays", ["larderd"]),
        ("kubectl -n models get pods -L x", ["kubectl get pods"]),
        ("helm install larder charts/larder --set a=b", ["helm install larder --set"]),
        ("kubectl exec POD -- larderctl top", ["kubectl exec", "larderctl top"]),
        ("kubectl larder backend check NAME", ["kubectl larder backend check"]),
        ("larderctl trace --output=t > file | sort", ["larderctl trace --output", "sort"]),
        ("make install PREFIX=/usr wheel", ["make install", "make wheel"]),
        ("python a/b.py --port 1", ["python b --port"]),
        ("python -m larder.query_twice --url http://x", ["python query_twice --url"]),
        ("$ larderctl status\nlarderd 0.1.0", ["larderctl status"]),
        ("vllm serve M \\\n  --port 1", ["vllm serve --port"]),
    ],
)
def test_the_words_that_tell_a_command(line, wanted):
    found = [one for each in commands.lines_of(line.splitlines()) for one in commands.split(each)]
    assert [" ".join(sum(commands.words(one), [])) for one in found] == wanted


def test_no_class_is_above_the_rule():
    assert list(classes.faults(classes.sizes(classes.product()))) == []


HEADER = """
class Door final : public Thing {
 public:
  Door() = default;
  Door(const Door&) = delete;
  explicit Door(int width) : width_{width}, open_(false) {}
  // void a_comment();
  template <typename T>
  std::vector<T> all(std::function<void(int)> each) const;
  bool operator==(const Door& other) const { return other.width_ == width_; }
  using Done = std::function<void(int)>;
  int (*knock)(int times);
  struct Hinge {
    int turns() const;
    int count = 0;
  };

 private:
  std::function<int(int)> called_ = [](int x) { return x; };
  int width_ = width(1);
};
"""
SOURCE = """
std::string Door::text() {
  return R"(a { brace
in a raw string)" + std::string("}");

  // a comment
}
Door::Hinge made() { return {}; }
int Other::method() {
  return 1'000;
}
"""


def test_methods_and_lines_of_a_class_are_counted():
    found = classes.sizes(
        {Path("room/door.h"): HEADER, Path("room/door.cc"): SOURCE, Path("other/door.cc"): SOURCE}
    )
    door, hinge = found["room", "Door"], found["room", "Hinge"]
    assert (door.methods, hinge.methods) == (3, 1)  # the constructor with a width, all(), ==
    assert (door.lines, hinge.lines) == (12 + 4, 2)
    assert set(found) == {("room", "Door"), ("room", "Hinge")}


def test_no_constructor_has_too_many_parameters():
    for path, text in classes.product().items():
        if path.suffix in (".h", ".cuh"):
            assert list(classes.wide_constructors(path, text)) == []


def test_each_header_with_a_class_tells_of_threads():
    for path, text in classes.product().items():
        if path.suffix in (".h", ".cuh"):
            assert list(classes.without_threads(path, text)) == []


@pytest.mark.parametrize(
    "text, faults",
    [
        ("// Door: opens.\nclass Door {\n};\n", 1),
        ('// Door: opens.\nclass Door {\n  std::thread thread_;  // "thread"\n};\n', 0),
        ("// Door: opens.\nclass Door {\n  std::thread on_;\n};\n", 1),
        ("// Owned by the thread of the house.\nclass Door final : public Thing {\n};\n", 0),
        ("// Door: a plain value.\nclass Door {\n};\n", 0),
        ("// Opens.\nclass Door;\nstruct Key {\n};\nvoid open(Door& door);\n", 0),
    ],
)
def test_a_header_without_a_word_on_threads_is_found(text, faults):
    assert len(list(classes.without_threads(Path("room/door.h"), text))) == faults


@pytest.mark.parametrize("count", (6, 7))
def test_a_constructor_with_too_many_parameters_is_found(count):
    words = ", ".join(["std::map<int, int> a"] + [f"int a{n} = b(1, 2)" for n in range(1, count)])
    text = f"class Door {{\n public:\n  explicit Door({words});\n}};\n"
    told = list(classes.wide_constructors(Path("room/door.h"), text))
    assert bool(told) == (count == 7) and all("has 7 parameters" in one for one in told)


def test_methods_and_lines_of_a_class_of_python_are_counted():
    text = """class Door:
    width = 1

    # a comment
    @property
    def open(self):
        def knock():
            pass

        return knock

    class Hinge:
        def turns(self):
            return 1
"""
    found = classes.sizes({Path("room/door.py"): text})
    assert found["room", "Door"] == classes.Size(1, 10)
    assert found["room", "Hinge"] == classes.Size(1, 3)


@pytest.mark.parametrize(
    ("methods", "lines", "is_fault"), [(40, 500, False), (41, 10, True), (1, 501, True)]
)
def test_a_class_that_is_too_large_is_found(methods, lines, is_fault):
    told = list(classes.faults({("room", "Door"): classes.Size(methods, lines)}))
    assert [one.endswith("at most 40 and 500: divide it") for one in told] == [True] * is_fault
