"""Unlike values of a configuration have unlike forms; one value has one form in every process."""

import collections
import dataclasses
import datetime
import decimal
import enum
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

import pytest

from larder import canonical
from larder.canonical import Unnameable, text

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")


class Colour(enum.Enum):
    RED = 1


class Taste(enum.Enum):
    RED = 1
    SWEET = 2


class Flags(enum.Flag):
    A, B, C = 1, 2, 4


class Number(int):
    pass


class Hidden:
    """An object whose repr hides its state."""

    def __init__(self, value, more=None):
        self._value, self.more = value, more

    def __repr__(self):
        return "hidden"

    def method(self):
        pass


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


@dataclasses.dataclass
class Part:
    x: object = None


@dataclasses.dataclass
class Lookalike:
    x: object = None


def closure(value):
    def inner(config):
        return config, value

    return inner


def changed(tensor):
    other = tensor.clone()
    other.reshape(-1)[len(other.reshape(-1)) // 2] += 1
    return other


LONG = torch.arange(5000).float()
ARRAY = numpy.arange(5000)
NAN = float("nan")
# Values that are pairwise unlike.
UNLIKE = [
    None, True, 1, 1.0, "1", b"1", bytearray(b"1"), "True", "None", 0, 0.0, -0.0, False, "", b"",
    [], (), {}, set(), frozenset(), [[]], [()], NAN, float("inf"), -float("inf"), "nan", 1j,
    Number(1),
    {"a.b": 1}, {"a": {"b": 1}}, {"a": 1, "b": 1}, {1: 2}, {"1": 2}, {True: 2}, {None: 2},
    {(1,): 2}, {"<tuple>": [1]}, (1,), [1], {1}, frozenset({1}), {"<dict>": [["a", 1]]}, {"": 1},
    {"<a>": 1},
    collections.OrderedDict(a=1, b=2), collections.OrderedDict(b=2, a=1), {"a": 1, "b": 2},
    collections.defaultdict(list, a=1), collections.defaultdict(set, a=1), collections.Counter("a"),
    Colour.RED, Taste.RED, Taste.SWEET, "RED", Flags.A | Flags.B, Flags.B | Flags.C,
    LONG, changed(LONG), LONG.double(), LONG.reshape(50, 100), torch.nn.Parameter(LONG),
    torch.tensor(1.0), torch.tensor([1.0]), torch.float32, torch.float16, "torch.float32",
    torch.device("cpu"), torch.Size([1]), torch.strided,
    ARRAY, numpy.where(ARRAY == 2500, -1, ARRAY), ARRAY.astype("int32"), numpy.float32(1.0),
    ARRAY.reshape(50, 100), b"x" * 100, b"x" * 99 + b"y",
    closure(1), closure(2), closure("1"), lambda c: c, lambda c: (c, 1), lambda c, d=1: c,
    lambda c, d=2: c, functools.partial(max, 1), functools.partial(max, 2),
    functools.partial(min, 1), functools.partial(max, key=1), max, min, closure, int, Colour,
    json, collections,
    Hidden(1), Hidden(2), Hidden(1, 2), Hidden("1"), Hidden(Hidden(1)), [Hidden(1)], Slotted(1),
    Slotted(2), Hidden(1).method, Hidden(2).method, Part(1), Part(2), Lookalike(1), Ellipsis,
    pathlib.PurePosixPath("a"), "a", decimal.Decimal("1"), decimal.Decimal("1.0"),
    datetime.timedelta(1), datetime.date(2020, 1, 1), range(3), range(4), slice(1), re.compile("a"),
    re.compile("a", re.I), collections.deque([1]), collections.deque([1], 5),
    "abc".upper, "abd".upper,
]  # fmt: skip


# covers F-350
def test_unlike_values_have_unlike_forms():
    seen = {}
    for number, value in enumerate(UNLIKE):
        found = text(value)
        assert found not in seen, f"{UNLIKE[seen[found]]!r} and {value!r} are both {found[:200]}"
        seen[found] = number


def again():
    """Values equal to some of UNLIKE, made once more."""
    values = {"z": 1, "a": [2.5, (3, b"4")], "c": {"y", "x"}}
    return [
        (values, dict(reversed(values.items()))),
        ({"x", "y", "z"}, {"z", "y", "x"}),
        (frozenset(map(str, range(50))), frozenset(map(str, reversed(range(50))))),
        (NAN, float("nan")),
        (LONG, LONG.clone()),
        (LONG.reshape(50, 100).T, LONG.reshape(50, 100).T.contiguous()),
        (closure(1), closure(1)),
        (Hidden([1]), Hidden([1])),
        (functools.partial(max, 1), functools.partial(max, 1)),
        (Colour.RED, Colour(1)),
    ]


@pytest.mark.parametrize("one, other", again(), ids=range(len(again())))
def test_equal_values_have_one_form(one, other):
    assert text(one) == text(other)


def test_the_memory_of_a_cached_property_is_no_state():
    asked, not_asked = Cached(1), Cached(1)
    assert asked.double == 2 and "double" in vars(asked)
    assert text(asked) == text(not_asked) != text(Cached(2))


class Cached:
    def __init__(self, value):
        self.value = value

    @functools.cached_property
    def double(self):
        return 2 * self.value


def itself():
    made = []
    made.append(made)
    return made


def deep():
    made = []
    for _ in range(100):
        made = [made]
    return made


def local_class():
    class Local:
        pass

    return Local


@pytest.mark.parametrize(
    "value, reason",
    [
        (threading.Lock(), "does not tell its state"),
        (itself(), "contains itself"),
        (deep(), "nested too deep"),
        (local_class(), "not found under its name"),
        (local_class()(), "not found under its name"),
        (torch.zeros(2).to_sparse(), "not a plain tensor"),
        (torch.empty(2, device="meta"), "no plain bytes"),
        ((one for one in ()), "does not tell its state"),
        (eval("lambda c: c", {"__name__": "of_no_file"}), "in no file"),
    ],
)
# covers F-351
def test_a_value_without_canonical_form_is_refused(value, reason):
    with pytest.raises(Unnameable, match=reason):
        canonical.form({"a": [value]})


SCRIPT = """
import test_canonical as t
for value in t.UNLIKE:
    print(t.text(value))
"""


# covers F-350
def test_no_address_and_no_order_of_a_process_gets_in():
    """Two processes with other seeds of str's hash: other orders of sets, other addresses."""

    def lines(seed):
        return subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={
                **os.environ,
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path]),
            },
            capture_output=True,
            check=True,
            timeout=120,
            text=True,
        ).stdout.splitlines()

    first, second = lines("1"), lines("2")
    assert len(first) == len(UNLIKE) and first == second
    assert not re.search("0x[0-9a-f]{6}", "\n".join(first))
