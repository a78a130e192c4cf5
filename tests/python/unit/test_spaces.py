"""The open namespaces of one engine: bounded, the least recently used goes first, and no namespace
in use."""

import re
from dataclasses import replace

import pytest

pytest.importorskip("vllm")

from fakes import Client, group, setup  # noqa: E402

from larder.client import LarderError  # noqa: E402
from larder.vllm.spaces import _STATES, _TAILS, NoSpace, Spaces  # noqa: E402


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def spaces(client):
    made = Spaces(client, setup())
    made.named("engine: test\n")
    return made


def test_recurrent_states_have_a_second_namespace_behind_each(client):
    states = replace(group(1), state=True)
    made = Spaces(client, setup(groups=(group(), states)))
    made.named("engine: test\n")
    assert client.namespaces == ["engine: test\n", "engine: test\nchunks: states\n"]
    space = made.of("r", "adapter: 1\n")
    assert (space.of_group(group()), space.of_group(states)) == (2, 3)
    made.leave()
    assert client.closed == [(2, False), (3, False)]
    for number in range(100):
        made.of(f"r{number}", f"adapter: {number}\n")
        made.forget(f"r{number}")
    assert len(client.open) == 2 * (1 + 30), "as many as the library has places for"


@pytest.mark.parametrize("name, line", [("kStatesLine", _STATES), ("kTailsLine", _TAILS)])
def test_larderd_knows_the_lines_of_states_and_tails(root, name, line):
    text = (root / "shim" / "protocol" / "namespace_kind.h").read_text()
    (found,) = re.findall(rf'{name} = "(.*)";', text)
    assert found.encode().decode("unicode_escape") == line


def test_tails_have_a_number_of_their_own(client):
    made = Spaces(client, setup(groups=(group(), replace(group(), tail=True))))
    made.named("engine: test\n")
    space = made.of("r")
    assert (space.number, space.states, space.tails) == (0, None, 1)
    made.unnamed()
    assert client.open == {}


def test_without_a_namespace_for_states_the_token_namespace_is_closed(client):
    made = Spaces(client, setup(groups=(group(), replace(group(1), state=True))))
    for number in range(62):
        client.add_namespace(f"another: {number}\n")
    with pytest.raises(LarderError):
        made.named("engine: test\n")
    assert len(client.open) == 62


def test_the_engines_own_is_open_from_the_start(spaces, client):
    assert spaces.of("r").number == 0 and client.namespaces == ["engine: test\n"]


# covers F-094
def test_twenty_thousand_adapters_through_one_engine(spaces, client):
    for number in range(20_000):
        request = f"r{number}"
        assert spaces.of(request, f"adapter: {number}\n") == spaces.of(
            request, f"adapter: {number}\n"
        )
        spaces.forget(request)
        spaces.take_closed()
    assert len(client.namespaces) - len(client.closed) == 1 + 62
    assert [number for number, _ in client.closed] == list(range(1, 20_000 - 61)), (
        "the least recently used first"
    )


# covers F-094
def test_a_namespace_in_use_stays(spaces, client):
    kept = spaces.of("kept", "adapter: kept\n")
    for number in range(100):
        spaces.of("r", f"adapter: {number}\n")
    assert spaces.of("other", "adapter: kept\n") == kept


# covers F-094
def test_with_all_namespaces_in_use_a_request_runs_without_the_cache(spaces):
    for number in range(62):
        spaces.of(f"r{number}", f"adapter: {number}\n")
    with pytest.raises(NoSpace, match="62"):
        spaces.of("late", "adapter: late\n")
    spaces.forget("r5")
    spaces.of("late", "adapter: late\n")
    assert spaces.take_closed() == [("adapter: 5\n", False)]


def test_a_reset_closes_adapters_and_drops_only_private_namespaces(spaces, client):
    spaces.of("a", "adapter: x\n")
    spaces.leave()
    assert spaces.take_closed() == [("adapter: x\n", False)], "other engines may use the namespace"
    own, private = spaces.of("b"), spaces.of("c", "adapter: x\n")
    assert own.line.startswith("private: ") and private.line == own.line + "adapter: x\n"
    spaces.leave()
    assert dict(spaces.take_closed()) == {own.line: True, private.line: True}
    assert spaces.of("d").line != own.line
