"""`vllm serve` lines of README.md, docs/get-started and docs/guides: vLLM's own parser takes the
lines, and vLLM finds the connector. The engines of this folder are started with the same flags."""

import re
import shlex
from pathlib import Path

import pytest
from server_flags import cli_args
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.utils.argparse_utils import FlexibleArgumentParser

ROOT = Path(__file__).resolve().parents[3]
PAGES = (
    "README.md",
    "docs/get-started/your-model.md",
    "docs/guides/prefill-decode.md",
    "docs/guides/routers.md",
)
ONLY = ("vllm serve ",)  # of the pages' commands


def commands(page):
    blocks = "".join(re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)).replace(
        "\\\n", " "
    )
    return [line for line in blocks.splitlines() if line.startswith(ONLY)]


COMMANDS = [line for page in PAGES for line in commands(ROOT / page)]


@pytest.fixture(scope="module")
def parser():
    return cli_args.make_arg_parser(FlexibleArgumentParser())


def test_no_page_is_left_out():
    pages = [
        ROOT / "README.md",
        *(ROOT / "docs" / "get-started").glob("*.md"),
        *(ROOT / "docs" / "guides").glob("*.md"),
    ]
    assert [line for page in sorted(pages) for line in commands(page)] == sorted(
        COMMANDS, key=COMMANDS.index
    )
    assert len(COMMANDS) >= 5


@pytest.mark.parametrize("command", COMMANDS)
def test_vllm_takes_the_line(parser, command):
    arguments = parser.parse_args(shlex.split(command)[2:])
    assert arguments.model_tag == "MODEL"
    config = arguments.kv_transfer_config
    assert KVConnectorFactory.get_connector_class(config).__name__ == "LarderConnector"
    assert config.kv_role in ("kv_both", "kv_producer", "kv_consumer")
    if "--kv-events-config" in command:
        assert (
            arguments.kv_events_config.enable_kv_cache_events
            and arguments.kv_events_config.publisher == "zmq"
        )
