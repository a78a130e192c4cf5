"""Digests of multi-modal items: differences, types without a digest, one digest for each object."""

import gc
import threading

import pytest

pytest.importorskip("vllm")

import numpy  # noqa: E402
import torch  # noqa: E402
from item_fakes import SECONDS, item  # noqa: E402
from vllm.multimodal.inputs import (
    MultiModalFieldElem,
    MultiModalFlatField,
    MultiModalKwargsItem,
    MultiModalSharedField,
)  # noqa: E402

from larder.vllm import item_digest  # noqa: E402
from larder.vllm.item_digest import Digests, Undigested  # noqa: E402

DATA = torch.arange(12, dtype=torch.int32).reshape(3, 4)


def digest_of(data, key="pixel_values", field=None):
    made = item(data, key)
    if field is not None:
        made = MultiModalKwargsItem({key: MultiModalFieldElem(data=data, field=field)})
    return item_digest.item_digest(made)


def test_the_digest_of_an_item_never_changes():
    """Engines of all versions share one cache."""
    assert (
        digest_of(DATA).hex() == "d46aa1105800a9fc221e2a4ebf1dce81ba523cb60ad9fb09fc66ad98ccb72545"
    )


DIFFERENT = [
    DATA,
    DATA + 1,
    DATA.reshape(4, 3),
    DATA.to(torch.int64),
    DATA.view(torch.float32),
    DATA.numpy(),
    [DATA],
    (DATA,),
    [DATA[:1], DATA[1:]],
    [DATA[:2], DATA[2:]],
    [DATA, 1],
    [DATA, 2],
    [DATA, 11],
    [DATA, 1, 1],
    [DATA, 1.0],
    [DATA, True],
    [DATA, False],
    [DATA, "1"],
    [DATA, b"1"],
    [DATA, None],
    [[DATA], 1],
    [[DATA, 1]],
    [DATA, [1]],
    torch.zeros(0),
    torch.zeros(3, 0),
    torch.tensor(5),
    torch.tensor(True),
    torch.ones(2, dtype=torch.bfloat16),
    torch.ones(2, dtype=torch.float16),
]


def test_each_difference_is_another_digest():
    found = [digest_of(value) for value in DIFFERENT]
    assert len(set(found)) == len(DIFFERENT)
    assert found == [digest_of(value) for value in DIFFERENT]


def test_key_and_way_of_batching_are_covered():
    found = [digest_of(DATA), digest_of(DATA, key="other")]
    found += [
        digest_of(DATA, field=MultiModalFlatField(slices=[slice(3)], dim=dim)) for dim in (0, 1)
    ]
    found.append(digest_of(DATA, field=MultiModalSharedField(batch_size=1)))
    assert len(set(found)) == 5


def test_other_items_of_the_request_are_not_covered():
    one, other = ([slice(0, 3)], [slice(3, 6), slice(0, 3)])
    assert digest_of(DATA, field=MultiModalFlatField(slices=one)) == digest_of(
        DATA, field=MultiModalFlatField(slices=other)
    )
    assert digest_of(DATA, field=MultiModalSharedField(batch_size=1)) == digest_of(
        DATA, field=MultiModalSharedField(batch_size=2)
    )


def test_the_place_of_the_bytes_in_memory_does_not_matter():
    scattered = torch.zeros(4, 3, dtype=torch.int32).t()
    scattered.copy_(DATA)
    assert not scattered.is_contiguous() and digest_of(scattered) == digest_of(DATA)


class Odd(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "value",
    [
        DATA.to_sparse(),
        DATA.to("meta"),
        torch.zeros(2, dtype=torch.complex64).conj(),
        DATA.as_subclass(Odd),
        numpy.array([object()]),
        [DATA, object()],
        [DATA, {1: 2}],
        [DATA, numpy.float32(1)],
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_kinds_of_values_have_no_digest(value):
    with pytest.raises(Undigested) as refused:
        item_digest._digest_of(item(value))
    assert refused.value.reason == "form"


@pytest.mark.parametrize("address", [1234, [1, 2], "name"])
def test_an_address_has_no_digest(address):
    """The form of vLLM's cache in shared memory in a tensor's place."""
    with pytest.raises(Undigested) as refused:
        item_digest.item_digest(item(address))
    assert refused.value.reason == "hidden"


class TestDigests:
    def test_an_object_is_digested_once(self, monkeypatch):
        calls = []
        monkeypatch.setattr(item_digest, "_digest_of", lambda one: calls.append(one) or b"d")
        digests, one = Digests(), item(1.0)
        assert digests.of(one) is digests.of(one)
        assert digests.of(item(1.0)).result(SECONDS) == digests.of(one).result(SECONDS) == b"d"
        assert len(calls) == 2

    def test_a_freed_item_is_forgotten(self):
        digests, one = Digests(), item(1.0)
        digests.of(one).result(SECONDS)
        digests.of(item(2.0)).result(SECONDS)  # by now the thread has let go of the first
        del one
        gc.collect()
        assert len(digests._known) <= 1

    def test_waiting_digests_are_bounded(self, monkeypatch):
        goes_on = threading.Event()
        monkeypatch.setattr(item_digest, "_digest_of", lambda _: goes_on.wait(SECONDS))
        digests, items = Digests(), [item(float(i)) for i in range(item_digest.MOST_WAITING + 1)]
        futures = [digests.of(one) for one in items]
        assert futures[-1] is None and None not in futures[:-1]
        goes_on.set()
        assert all(future.result(SECONDS) for future in futures[:-1])
        assert digests.of(items[-1]).result(SECONDS)

    def test_a_missing_item_has_no_digest(self):
        with pytest.raises(Undigested) as refused:
            Digests().of(None).result(0)
        assert refused.value.reason == "hidden"

    def test_an_item_of_another_form(self):
        with pytest.raises(Undigested) as refused:
            Digests().of({"pixel_values": DATA}).result(0)
        assert refused.value.reason == "form"

    def test_the_thread_ends_with_it(self):
        digests = Digests()
        digests.of(item(1.0)).result(SECONDS)
        (thread,) = digests._thread._threads
        del digests
        gc.collect()
        thread.join(SECONDS)
        assert not thread.is_alive()
