"""vLLM names a block by the name and path of its adapter: vLLM's cache keeps blocks of replaced
files."""

from types import SimpleNamespace

from larder.vllm.local_cache import LocalCache

OLD, NEW = ("old files",), ("new files",)


def request(number=1, name="a", path="/adapters/a"):
    return SimpleNamespace(
        lora_request=SimpleNamespace(lora_int_id=number, lora_name=name, lora_path=path)
    )


def cache(*loads):
    """Of an engine whose workers have reported these loads, one after the other, and that had a
    request of adapter 1."""
    made = LocalCache()
    made.seen(request().lora_request)
    for number, files in loads:
        made.loaded({number: files})
    return made


def test_an_adapter_that_is_loaded_again_from_the_same_files_is_as_it_was():
    assert not cache((1, OLD), (1, OLD)).may_be_old(request(), OLD)


# covers F-095
def test_an_adapter_that_is_loaded_again_from_other_files_is_older_in_vllms_cache():
    made = cache((1, OLD), (1, NEW))
    assert made.may_be_old(request(), NEW)
    assert not made.may_be_old(request(2, "b"), OLD) and not made.may_be_old(
        SimpleNamespace(lora_request=None), None
    )
    made.emptied()
    assert not made.may_be_old(request(), NEW)


def test_an_adapter_reloaded_from_the_same_path_has_another_number():
    """The servers of vLLM number each load; vLLM's block hashes do not have the number."""
    again = request(2)
    made = cache((1, OLD))
    made.seen(again.lora_request)
    assert made.may_be_old(again, NEW) and not made.may_be_old(again, OLD)
    assert cache().may_be_old(again, NEW), "the first one is unknown"


def test_files_that_changed_while_they_were_loaded_may_be_anything():
    assert cache((1, ()), (1, NEW)).may_be_old(request(), NEW)


def test_changed_weights_make_the_whole_cache_old():
    made = cache()
    made.weights_change()
    assert made.may_be_old(request(), OLD) and made.may_be_old(
        SimpleNamespace(lora_request=None), None
    )
    made.emptied()
    assert not made.may_be_old(SimpleNamespace(lora_request=None), None)


def test_known_adapters_are_bounded():
    made = LocalCache()
    for number in range(70_000):
        made.seen(request(number, str(number)).lora_request)
        made.loaded({number: OLD})
    assert max(len(made._number), len(made._files)) == 65536


def test_too_many_replaced_adapters_cost_stores_until_the_cache_is_emptied():
    """A name of a folder that hangs has no known files, in each load."""
    made = LocalCache()
    for number in range(70_000):
        made.loaded({number: ()})
    assert len(made._replaced) <= 65536
    plain = SimpleNamespace(lora_request=None)
    assert made.may_be_old(request(3, "b", "/b"), OLD) and made.may_be_old(plain, None)
    made.emptied()
    assert not made.may_be_old(request(3, "b", "/b"), OLD) and not made.may_be_old(plain, None)
