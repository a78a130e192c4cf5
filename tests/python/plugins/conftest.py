"""The real services of the tests with the mark `plugins`."""

import pytest
from harness import infinistore, mooncake


@pytest.fixture
def pool(tmp_path):
    """A Mooncake pool."""
    try:
        made = mooncake.MooncakePool(tmp_path)
    except mooncake.Missing as error:
        pytest.skip(str(error))
    with made:
        yield made


@pytest.fixture
def store(tmp_path):
    """An InfiniStore server."""
    try:
        made = infinistore.InfiniStore(tmp_path)
    except infinistore.Missing as error:
        pytest.skip(str(error))
    with made:
        yield made
