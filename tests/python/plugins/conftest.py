"""The real pool of the tests with the mark `plugins`."""

import pytest
from harness.mooncake import Missing, MooncakePool


@pytest.fixture
def pool(tmp_path):
    try:
        made = MooncakePool(tmp_path)
    except Missing as error:
        pytest.skip(str(error))
    with made:
        yield made
