"""summary.py REPORT...: sums JUnit reports of ctest and pytest into "N passed, N failed, N skipped".

Names every failure and every skip with its reason. A report that is missing, unreadable or empty is a failure: the tests of that
part did not run. Exits with 1 on any failure.
"""

import sys
import xml.etree.ElementTree as ElementTree


def skip_reason(case, skipped):
    """pytest gives the reason as message; with GoogleTest under ctest it is the line after 'Skipped' in the output."""
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
    """Returns (passed, [failed names], [skipped lines]) of one report."""
    try:
        cases = list(ElementTree.parse(path).iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        return 0, [f"{path}: no readable report ({error})"], []
    if not cases:
        return 0, [f"{path}: no test ran"], []
    passed, failed, skips = 0, [], []
    for case in cases:
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            failed.append(name_of(case))
        elif skipped is not None and case.get("status") != "disabled":
            skips.append(f"{name_of(case)}: {skip_reason(case, skipped)}")
        elif case.get("status") in ("notrun", "disabled"):
            failed.append(f"{name_of(case)} (did not run)")
        else:
            passed += 1
    return passed, failed, skips


def main(paths):
    passed, failed, skips = 0, [], []
    for path in paths:
        one = read(path)
        passed += one[0]
        failed += one[1]
        skips += one[2]
    for line in skips:
        print(f"skipped: {line}")
    for line in failed:
        print(f"failed: {line}")
    print(f"{passed} passed, {len(failed)} failed, {len(skips)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
