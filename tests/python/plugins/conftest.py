"""The real services of the tests with the mark `plugins`, and larderd's end of a plug-in."""

import pytest
from harness import infinistore, mooncake
from harness.plugin_environment import Missing


@pytest.fixture
def pool(tmp_path):
    """A Mooncake pool."""
    try:
        made = mooncake.MooncakePool(tmp_path)
    except Missing as error:
        pytest.skip(str(error))
    with made:
        yield made


@pytest.fixture
def store(tmp_path):
    """An InfiniStore server."""
    try:
        made = infinistore.InfiniStore(tmp_path)
    except Missing as error:
        pytest.skip(str(error))
    with made:
        yield made


@pytest.fixture
def larderd(start):
    """Connected to the plug-in of the file's `start`, and the service works."""
    larderd, _ = start()
    larderd.accept()
    larderd.wait_state(True)
    return larderd
