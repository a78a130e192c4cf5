"""vLLM's parser of the flags of its server. The module has moved between versions."""

import pytest

try:
    from vllm.entrypoints.launchers import cli_args
except ImportError:
    cli_args = pytest.importorskip(
        "vllm.entrypoints.common.cli_args", reason="this vLLM has its parser elsewhere"
    )
