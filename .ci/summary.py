"""summary.py REPORT...: sums JUnit reports of ctest and pytest into "N passed, N failed, N
skipped". Before this line stand the seconds of each part: ctest, and pytest by folder.

Names every failure and every skip with its reason. A missing, unreadable or empty report is a
failure: the tests of that part did not run. Exits with 1 on any failure.

Beside NAME.xml may stand NAME-again.xml: the second run of the failed tests, alone (test.sh). A
test that passes there has passed, and is named: a test that needs a second try has a defect, or has
found one.
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def skip_reason(case, skipped):
    """pytest gives the reason as message; with GoogleTest under ctest the reason is the line after
    'Skipped' in the output."""
    lines = [line.strip() for line in (case.findtext("system-out") or "").splitlines()]
    for line, following in zip(lines, lines[1:]):
        if line.endswith(": Skipped"):
            return following
    return skipped.get("message") or "no reason given"


def name_of(case):
    prefix = case.get("classname") or ""
    name = case.get("name") or "?"
    return name if prefix in ("", name) else f"{prefix}.{name}"


def read(path):
    """Returns ([passed names], [failed names], [skipped lines]) of one report."""
    try:
        cases = list(ElementTree.parse(path).iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        return [], [f"{path}: no readable report ({error})"], []
    if not cases:
        return [], [f"{path}: no test ran"], []
    passed, failed, skips = [], [], []
    for case in cases:
        skipped = case.find("skipped")
        if (
            case.find("failure") is not None
            or case.find("error") is not None
            or case.get("status") == "fail"
        ):
            failed.append(name_of(case))
        elif skipped is not None and case.get("status") != "disabled":
            skips.append(f"{name_of(case)}: {skip_reason(case, skipped)}")
        elif case.get("status") in ("notrun", "disabled"):
            failed.append(f"{name_of(case)} (did not run)")
        else:
            passed.append(name_of(case))
    return passed, failed, skips


def part_of(path, case):
    """The part of `make test` in whose time a case counts: ctest, or a folder of Python tests."""
    folders = (case.get("classname") or "").split(".")
    if folders[0] != "tests":
        return pathlib.Path(path).stem
    return "/".join(folders[: 3 if folders[1:2] == ["python"] else 2])


def seconds(paths):
    """{part: (cases, seconds)} of reports. ctest runs several cases at a time."""
    found = {}
    for path in paths:
        try:
            cases = list(ElementTree.parse(path).iter("testcase"))
        except (OSError, ElementTree.ParseError):
            continue  # read() tells this
        for case in cases:
            part = part_of(path, case)
            count, spent = found.get(part, (0, 0.0))
            found[part] = (count + 1, spent + float(case.get("time") or 0))
    return found


def passed_again(path):
    """The names that passed at the second try; empty without a second try."""
    again = pathlib.Path(path).with_suffix("").as_posix() + "-again.xml"
    return set(read(again)[0]) if pathlib.Path(again).exists() else set()


def main(paths):
    passed, failed, skips, twice = 0, [], [], []
    for path in paths:
        one = read(path)
        again = passed_again(path)
        twice += [name for name in one[1] if name in again]
        failed += [name for name in one[1] if name not in again]
        passed += len(one[0])
        skips += one[2]
    for part, (count, spent) in seconds(paths).items():
        print(f"{part}: {count} tests, {spent:.0f} s together")
    for line in skips:
        print(f"skipped: {line}")
    for line in twice:
        print(f"passed at the second try alone: {line}")
    for line in failed:
        print(f"failed: {line}")
    print(f"{passed + len(twice)} passed, {len(failed)} failed, {len(skips)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
