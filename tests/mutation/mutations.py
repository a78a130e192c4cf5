"""mutations.py --check | [WORDS...]: takes rules out of the product, and sees tests fail.

mutations.toml lists the rules. The line that keeps a rule ends in a comment with the tag `mutation:
ID`.

--check compares tags and table and builds no program. Each ID stands once in the code and once in
the table. The text to replace stands once in the tagged statement, however a formatter has broken
the statement, and the named tests exist.

Otherwise each chosen mutation is run (WORDS: parts of an ID, a sentence, a file or a test; without
WORDS all): build, the tests pass; replace the text, build, the tests fail; put the file back. The
file is put back at every end of the run; after SIGKILL or a power loss, by the next run. The run
works in the checkout: start no other build meanwhile.
"""

import contextlib
import fcntl
import json
import pathlib
import re
import signal
import subprocess
import sys

from mutation_table import ROOT, Tree

SAVED = ROOT / "build" / "mutation"
BUILD = ROOT / "build" / "dev"
PLAIN = {"sim", "corruption", "corruption_disk"}  # no GoogleTest: arguments follow the name
TEST_S = 180


def build(target):
    command = ["cmake", "--build", "--preset", "dev", "-j2", "--target", target]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def python():
    command = "cd .ci && . ./paths.sh && echo $venv/bin/python"
    return subprocess.check_output(command, shell=True, cwd=ROOT, text=True).strip()


def passes(test):
    """Whether the test passes; a build that fails raises. A test that hangs has failed."""
    program, *words = test.split()
    environment = None
    if program == "pytest":
        build("larder_shared")
        command = [python(), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += [words[0], "-k", words[1]]
        environment = {"PYTHONPATH": f"{ROOT}/shim/python", "PATH": "/usr/bin:/bin"}
        environment["LARDER_LIBRARY"] = f"{BUILD}/lib/liblarder.so"
    else:
        build(program)
        arguments = words if program in PLAIN else [f"--gtest_filter={words[0]}"]
        command = [BUILD / "bin" / program, *arguments]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        ended = subprocess.run(command, cwd=ROOT, env=environment, timeout=TEST_S, **quiet)
        return ended.returncode == 0
    except subprocess.TimeoutExpired:
        return False


@contextlib.contextmanager
def mutated(path, text):
    """The file holds `text` inside. The former text is saved first, for a run that is killed."""
    former = path.read_text()
    note = SAVED / "note.json"
    partial = note.with_suffix(".partial")
    partial.write_text(json.dumps({"path": str(path), "former": former, "mutated": text}))
    partial.replace(note)
    try:
        path.write_text(text)
        yield
    finally:
        path.write_text(former)
        note.unlink()


def put_back():
    """Undoes the mutation of a run that was killed. RuntimeError if the file was edited since."""
    note = SAVED / "note.json"
    if not note.exists():
        return
    saved = json.loads(note.read_text())
    path = pathlib.Path(saved["path"])
    if path.read_text() not in (saved["former"], saved["mutated"]):
        raise RuntimeError(
            f"{path} was mutated by a run that was killed, and edited since: "
            f"put the line back by hand, then remove {note}"
        )
    path.write_text(saved["former"])
    note.unlink()
    print(f"put back {path}, which a run that was killed had mutated")


def outcome(mutation, site):
    """The fault of the mutation, as words; empty if every test passes before and fails after."""
    try:
        broken = [test for test in mutation.tests if not passes(test)]
    except subprocess.CalledProcessError:
        return "does not build"
    if broken:
        return "fails with the rule in place: " + ", ".join(broken)
    with mutated(site.path, site.replaced(mutation)):
        try:
            blind = [test for test in mutation.tests if passes(test)]
        except subprocess.CalledProcessError:
            return "the mutated code does not build"
    return "passes without the rule: " + ", ".join(blind) if blind else ""


def run(tree, words):
    wrong = tree.problems()
    chosen = [
        one
        for one in tree.mutations.values()
        if not words or any(word in one.searched(tree.sites.get(one.id, [])) for word in words)
    ]
    for mutation in chosen if not wrong else []:
        fault = outcome(mutation, tree.sites[mutation.id][0])
        seen = "NOT" if fault else "ok "
        print(f"{seen} {mutation.id}: {fault or mutation.protects}", flush=True)
        if fault:
            wrong.append(f"{mutation.id}: {fault}")
    return len(chosen), wrong


def check(tree):
    wrong = tree.problems()
    if (SAVED / "note.json").exists():
        wrong.append(
            "a file is mutated: a run is under way, or was killed; the next run puts the file back"
        )
    return len(tree.mutations), wrong


def locked_run(words):
    SAVED.mkdir(parents=True, exist_ok=True)
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, frame: sys.exit(128 + number))  # `finally` runs
    with open(SAVED / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        put_back()

        return run(Tree(ROOT), words)


def main(arguments):
    options = [word for word in arguments if word.startswith("-")]
    if options not in ([], ["--check"]) or (options and len(arguments) > 1):
        print(__doc__.strip())
        return 2
    try:
        count, wrong = check(Tree(ROOT)) if options else locked_run(arguments)
    except BlockingIOError:
        count, wrong = 0, ["another run is under way in this checkout"]
    except (RuntimeError, ValueError) as error:
        count, wrong = 0, [str(error)]
    for line in wrong:
        print("wrong:", line)
    print(f"{count} mutations, {len(wrong)} wrong")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
