"""rules.py [--check | --unseen] [WORDS...]: takes the rules of README.md's table out, one by one, and sees that the test named there fails.

Each rule: the line becomes what stands beside it, the test is built and must pass before and fail after; the file is put back,
and the day goes into the table. With WORDS only rules whose row has one of them, with --unseen those not seen to fail yet. --check
builds nothing: every line must stand exactly once in its file, and every rule must have been seen. Works in the checkout: nothing else may build there meanwhile.
"""

import datetime
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "dev"
TABLE = ROOT / "tests" / "crash" / "README.md"
PLAIN = {"sim", "corruption", "corruption_disk"}  # no GoogleTest: the words behind them are their arguments


class Rule:
    def __init__(self, row):
        self.row = row
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        self.name = cells[0]
        self.test, self.file, self.line, self.instead = [cell.strip("`").replace("\\|", "|") for cell in cells[1:5]]
        self.path = ROOT / self.file
        self.was_seen = re.fullmatch(r"\d{4}-\d\d-\d\d", cells[5]) is not None

    def count(self):
        return self.path.read_text().count(self.line) if self.path.exists() else 0

    def run(self):
        """Whether the test passes; a build that fails raises."""
        program, *words = self.test.split()
        if program == "pytest":
            build("larder_shared")
            python = subprocess.run("cd .ci && . ./paths.sh && echo $venv/bin/python", shell=True, cwd=ROOT, check=True, text=True,
                                    stdout=subprocess.PIPE).stdout.strip()
            return passes([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", words[0], "-k", words[1]],
                          env={"PYTHONPATH": f"{ROOT}/shim/python", "LARDER_LIBRARY": f"{BUILD}/lib/liblarder.so", "PATH": "/usr/bin:/bin"})
        build(program)
        return passes([BUILD / "bin" / program, *(words if program in PLAIN else [f"--gtest_filter={words[0]}"])])

    def note(self, seen):
        text = TABLE.read_text()
        TABLE.write_text(text.replace(self.row, f"{self.row.rsplit('|', 2)[0]}| {seen} |"))

    def taken_out_fails(self):
        text = self.path.read_text()
        self.path.write_text(text.replace(self.line, self.instead))
        try:
            return not self.run()
        finally:
            self.path.write_text(text)


def build(target):
    subprocess.run(["cmake", "--build", "--preset", "dev", "-j2", "--target", target], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def passes(command, env=None):
    try:
        return subprocess.run(command, cwd=ROOT, env=env, timeout=180, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def rules():
    text = TABLE.read_text()
    return [Rule(row) for row in text[text.index("| rule |"):].split("\n\n")[0].splitlines()[2:]]


def main(arguments):
    if [word for word in arguments if word.startswith("--") and word not in ("--check", "--unseen")]:
        print(__doc__.strip())
        return 2
    wanted = [word for word in arguments if not word.startswith("--")]
    chosen = [rule for rule in rules() if not wanted or any(word in rule.name + rule.test for word in wanted)]
    if "--unseen" in arguments:
        chosen = [rule for rule in chosen if not rule.was_seen]
    wrong = [f"{rule.file} has {rule.count()} times: {rule.line}" for rule in chosen if rule.count() != 1]
    if "--check" in arguments:
        wrong += [f"never seen to fail without it: {rule.name}" for rule in chosen if not rule.was_seen]
    elif not wrong:
        for rule in chosen:
            try:
                before = rule.run()
                fails = before and rule.taken_out_fails()
            except subprocess.CalledProcessError:  # what stands instead does not compile
                before = fails = False
            rule.note(datetime.date.today() if fails else "no")
            print(f"{'ok' if fails else 'NOT'}: {rule.name}: {rule.test}", flush=True)
            if not fails:
                wrong.append(f"{rule.name}: " + ("passes without its rule" if before else "fails with its rule, or does not build without it"))
    for line in wrong:
        print("wrong:", line)
    print(f"{len(chosen)} rules, {len(wrong)} wrong")
    return 1 if wrong or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
