"""Requests without a namespace: the log names each adapter once, and keeps few names."""

from types import SimpleNamespace as Fake

from larder.vllm import request_spaces
from larder.vllm.spaces import NoSpace


def refuse(*_):
    raise NoSpace("all are in use")


def test_names_in_the_log_are_bounded_and_a_name_may_come_again(monkeypatch):
    told = []
    monkeypatch.setattr(request_spaces.logger, "warning", lambda text, name, why: told.append(name))
    spaces = request_spaces.RequestSpaces(Fake(of=refuse), Fake(line=str))

    def ask(number):
        adapter = Fake(lora_name=f"number {number}")
        assert spaces.of(Fake(request_id="r", lora_request=adapter)) is None

    most = request_spaces._MOST_TOLD
    for number in range(most):
        ask(number)
        ask(0)
    assert len(told) == len(spaces._told) == most, "each once"
    ask(most)
    ask(0)
    assert told[-2:] == [f"with the adapter number {most}", "with the adapter number 0"]
    assert len(spaces._told) == 2
