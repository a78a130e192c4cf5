"""The memo of digests: lines of many engines, and all that can stand in their place."""

import os
import subprocess
import sys
import tempfile
import time

import pytest

from larder import weights_memo
from larder.file_hash import Stamp
from larder.weights_memo import Memo

DIGEST = "0123456789abcdef" * 2
OLD_NS = 1_700_000_000_123_456_789


def stamp(inode=1, **fields):
    return Stamp(
        **{
            "device": 66,
            "inode": inode,
            "size": 9,
            "mtime_ns": OLD_NS,
            "ctime_ns": OLD_NS,
            **fields,
        }
    )


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "larder.sock.weights")


def test_another_engine_knows_what_one_has_put(path):
    Memo(path).put(stamp(), DIGEST)
    assert Memo(path).get(stamp()) == DIGEST
    assert os.stat(path).st_mode & 0o002 == 0


@pytest.mark.parametrize("field", Stamp._fields)
def test_each_field_of_the_state_counts(path, field):
    Memo(path).put(stamp(), DIGEST)
    assert Memo(path).get(stamp()._replace(**{field: getattr(stamp(), field) + 1})) is None


def test_states_that_may_come_back_with_other_bytes_are_not_kept(path):
    memo = Memo(path)
    now_ns = time.time_ns()
    for ctime_ns in (now_ns, now_ns - 50 * 10**9, now_ns + 10**12, OLD_NS // 10**9 * 10**9):
        memo.put(stamp(ctime_ns=ctime_ns), DIGEST)
    assert not os.path.exists(path)
    memo.put(stamp(ctime_ns=now_ns - 61 * 10**9 + (now_ns % 10**9 == 0)), DIGEST)
    assert os.path.exists(path)


@pytest.mark.parametrize(
    "old, new",
    [
        (" 66 ", " 67 "),
        ("larder-weights-1", "larder-weights-2"),
        ("abcdef0", "abcdee0"),
        ("\n", " more\n"),
    ],
)
# covers F-073
def test_a_line_that_was_changed_is_ignored(path, old, new):
    Memo(path).put(stamp(), DIGEST)
    Memo(path).put(stamp(2), DIGEST)
    with open(path) as file:
        text = file.read()
    first, second = text.splitlines(keepends=True)
    with open(path, "w") as file:
        file.write(first.replace(old, new, 1) + second)
    memo = Memo(path)
    changed = stamp(device=67) if new == " 67 " else stamp()
    assert memo.get(changed) is None and memo.get(stamp(2)) == DIGEST


@pytest.mark.parametrize(
    "junk", [b"", b"\0" * 5000, b"\xff\xfe\n" * 100, b"larder-weights-1 1 2 3", b"a" * 100_000]
)
def test_junk_is_ignored_and_lines_can_follow(path, junk):
    with open(path, "wb") as file:
        file.write(junk + b"\n")
    Memo(path).put(stamp(), DIGEST)
    assert Memo(path).get(stamp()) == DIGEST


# covers F-073
def test_a_line_that_was_torn_costs_one_line(path):
    Memo(path).put(stamp(), DIGEST)
    os.truncate(path, os.path.getsize(path) - 10)
    for inode in (2, 3):
        Memo(path).put(stamp(inode), DIGEST)
    assert [Memo(path).get(stamp(inode)) for inode in (1, 2, 3)] == [None, None, DIGEST]


def test_the_oldest_leave_and_the_file_stays_small(path, monkeypatch):
    monkeypatch.setattr(weights_memo, "_MOST", 20)
    for inode in range(100):
        Memo(path).put(stamp(inode), DIGEST)
    with open(path) as file:
        assert len(file.readlines()) <= 21
    memo = Memo(path)
    assert memo.get(stamp(99)) == DIGEST and memo.get(stamp(0)) is None
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_a_file_beyond_all_bounds_is_replaced(path, monkeypatch):
    monkeypatch.setattr(weights_memo, "_MOST_BYTES", 1000)
    with open(path, "wb") as file:
        file.write(b"x" * 5000)
    Memo(path).put(stamp(), DIGEST)
    assert os.path.getsize(path) < 1000 and Memo(path).get(stamp()) == DIGEST


# covers F-073
def test_no_memo_where_the_folder_is_not_there_or_the_path_is_something_else(tmp_path):
    for place in (tmp_path / "absent" / "memo", tmp_path):
        memo = Memo(str(place))
        memo.put(stamp(), DIGEST)
        assert memo.get(stamp()) in (DIGEST, None)
    assert os.listdir(tmp_path) == []
    Memo(None).put(stamp(), DIGEST)


def test_a_link_at_the_path_is_not_followed(tmp_path, path):
    other = tmp_path / "other"
    other.write_text("mine\n")
    os.symlink(other, path)
    Memo(path).put(stamp(), DIGEST)
    assert other.read_text() == "mine\n"


def test_a_fifo_at_the_path_does_not_stop_the_engine(path):
    os.mkfifo(path)
    Memo(path).put(stamp(), DIGEST)


@pytest.mark.skipif(os.geteuid() != 0, reason="root can be another user")
def test_the_file_of_another_user_is_taken_over_with_its_lines():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        path = os.path.join(folder, "memo")
        Memo(path).put(stamp(1), DIGEST)
        child = os.fork()
        if child == 0:
            os.seteuid(65534)
            Memo(path).put(stamp(2), DIGEST)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert os.stat(path).st_uid == 65534
        assert [Memo(path).get(stamp(inode)) for inode in (1, 2)] == [DIGEST, DIGEST]


# covers F-073
def test_many_engines_at_once_lose_nothing(path, root):
    script = f"""
from larder.weights_memo import Memo
from larder.file_hash import Stamp
import sys
memo = Memo({path!r})
for i in range(200):
    memo.put(Stamp(int(sys.argv[1]), i, 9, {OLD_NS}, {OLD_NS}), {DIGEST!r})
"""
    env = {**os.environ, "PYTHONPATH": str(root / "shim" / "python")}
    engines = [
        subprocess.Popen([sys.executable, "-c", script, str(number)], env=env)
        for number in range(4)
    ]
    assert [engine.wait(60) for engine in engines] == [0] * 4
    memo = Memo(path)
    assert all(
        memo.get(stamp(i, device=number)) == DIGEST for number in range(4) for i in range(200)
    )
