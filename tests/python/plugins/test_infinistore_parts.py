"""The modules of larder-infinistore without a socket: the search, the requests, records."""

import random
import sys

import pytest
from harness.infinistore import ROOT

sys.path += [str(ROOT / "plugins"), str(ROOT / "plugins" / "infinistore")]

from fake_infinistore import HEADER, FakeInfiniStore  # noqa: E402
from larder_infinistore import record, requests, search  # noqa: E402


def bisect(there, order):
    """As the server does."""
    left, right = 0, len(order)
    while left < right:
        middle = left + (right - left) // 2
        left, right = (middle + 1, right) if there[order[middle]] else (left, middle)
    return left - 1


def answer(there):
    return search.presence(len(there), bisect(there, search.order(len(there))))


@pytest.mark.parametrize("count", [*range(1, 40), 64, 65, 100, 256, 257, 1000, 1023, 1024])
def test_one_change_is_found_exactly(count):
    for at in range(count + 1) if count < 300 else (0, 1, 2, 255, 512, 513, count - 1, count):
        for first in (True, False):
            there = [first] * at + [not first] * (count - at)
            assert answer(there) == there


@pytest.mark.parametrize("count", range(1, 9))
def test_few_names_are_found_exactly(count):
    for pattern in range(1 << count):
        there = [bool(pattern >> at & 1) for at in range(count)]
        assert answer(there) == there


# A hole between two answers is not seen.
def test_more_changes_are_found_at_the_asked_names():
    chance = random.Random(3)
    for _ in range(2000):
        there = [chance.random() < 0.5 for _ in range(chance.randrange(9, 300))]
        found = answer(there)
        assert len(found) == len(there)
        assert found[0] == there[0] and found[-1] == there[-1]


def test_the_request_of_a_look_is_small():
    names = [record.fresh_name() for _ in range(1024)]
    raw = requests.match(names, search.order(1024))
    assert len(raw) < 70_000
    assert len(requests.match(names[:64], search.order(64))) < 5_000


def test_requests_are_flatbuffers():
    reader = FakeInfiniStore.__new__(FakeInfiniStore)
    names = [record.fresh_name() for _ in range(3)]
    magic, operation, size = HEADER.unpack(requests.match(names, [2, 0, 0, 1])[: HEADER.size])
    raw = requests.match(names, [2, 0, 0, 1])
    assert (magic, operation, size) == (0xDEADBEEF, b"M", len(raw) - HEADER.size)
    assert reader._names(raw[HEADER.size :]) == [names[2], names[0], names[0], names[1]]
    body = requests.put(names[0], 12345)[HEADER.size :]
    assert reader._string(body, reader._field(body, 0)) == names[0]


def test_a_record_fits_its_key_alone():
    made = record.Record(record.fresh_name(), 2 << 20)
    raw = record.encode("larder:1:a:b", made)
    assert record.decode("larder:1:a:b", raw) == made
    assert record.decode("larder:1:a:c", raw) is None
    assert record.decode("larder:1:a:b", raw[:-1]) is None
    assert record.decode("larder:1:a:b", b"x" + raw[1:]) is None


# A request of two segments could be read while it is written.
def test_a_record_is_written_in_one_segment():
    made = record.encode("k" * 200, record.Record(record.fresh_name(), 1))
    assert len(requests.put(record.fresh_name(), len(made))) + len(made) < 512
