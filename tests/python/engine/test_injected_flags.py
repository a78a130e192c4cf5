"""The injector's flags, read by vLLM's own parser: the flags of every golden pod that starts vLLM
without a shell."""

import json

import pytest
from composed_configs import children as children_of
from composed_configs import written
from golden_pods import commands
from server_flags import cli_args
from vllm.config.kv_transfer import KVTransferConfig
from vllm.utils.argparse_utils import FlexibleArgumentParser


def injected(root):
    """(name of the pod, flags behind `vllm serve`)"""
    return [(name, argv[2:]) for name, argv in commands(root) if argv[:2] == ["vllm", "serve"]]


@pytest.fixture(scope="module")
def parser():
    parser = cli_args.make_arg_parser(FlexibleArgumentParser())
    parser.add_argument("model_tag", nargs="?")  # as in `vllm serve`
    return parser


def children(config):
    if config.kv_connector != "MultiConnector":
        return [config]
    # Like children of vLLM's MultiConnector: a child with an engine_id of its own would fail here.
    return [
        KVTransferConfig(**child, engine_id=config.engine_id)
        for child in config.kv_connector_extra_config["connectors"]
    ]


def test_vllm_takes_every_injected_flag(root, parser, tmp_path):
    seen = 0
    for name, flags in injected(root):
        if "--config" in flags:
            file = tmp_path / "config.yaml"
            file.write_text("port: 12345\n")
            flags = [
                str(file) if at and flags[at - 1] == "--config" else word
                for at, word in enumerate(flags)
            ]
        config = parser.parse_args(flags).kv_transfer_config
        if config is None:  # spec.engine.flags: false
            continue
        connectors = children(config)
        assert [c.kv_connector for c in connectors].count("LarderConnector") == 1, name
        assert config.kv_role == "kv_both", name
        if len(connectors) > 1:
            assert config.kv_load_failure_policy == "recompute", name
        seen += 1
    assert seen >= 20


def test_the_goldens_have_every_form_of_a_composed_configuration(root):
    """Real servers run these: tests/python/models/test_composed_servers.py."""
    composed = [config for config in written(root).values() if children_of(config)]
    assert {children_of(config)[0]["kv_role"] for config in composed} == {
        "kv_both",
        "kv_consumer",
        "kv_producer",
    }
    assert all(
        (config["kv_role"], config["kv_load_failure_policy"]) == ("kv_both", "recompute")
        for config in composed
    )
    assert all(children_of(config)[-1]["kv_connector"] == "LarderConnector" for config in composed)
    for has in (
        lambda config: "engine_id" in config,
        lambda config: "kv_port" in config,
        lambda config: children_of(config)[0]["kv_connector"] == "MultiConnector",
        lambda config: "kv_connector_module_path" in children_of(config)[0],
        lambda config: (
            "chunk_tokens" in children_of(config)[-1].get("kv_connector_extra_config", {})
        ),
    ):
        assert any(has(config) for config in composed)


def test_a_config_file_comes_before_the_flag(parser, tmp_path):
    """docs/concepts/injection.md says so of --config."""
    file = tmp_path / "config.yaml"
    file.write_text(
        "port: 12345\nkv-transfer-config:\n  kv_connector: NixlConnector\n  kv_role: kv_both\n"
    )
    ours = json.dumps(
        {
            "kv_connector": "LarderConnector",
            "kv_connector_module_path": "larder.vllm",
            "kv_role": "kv_both",
        }
    )
    args = parser.parse_args(["--config", str(file), "--kv-transfer-config", ours])
    assert args.port == 12345
    assert args.kv_transfer_config.kv_connector == "LarderConnector"


def test_a_connector_of_vllm_is_found_beside_our_module_path():
    """--kv-offloading-size changes the connector's name and leaves the module path: the engine must
    start all the same."""
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

    def config(name):
        return KVTransferConfig(
            kv_connector=name, kv_connector_module_path="larder.vllm", kv_role="kv_both"
        )

    assert (
        KVConnectorFactory.get_connector_class(config("OffloadingConnector")).__name__
        == "OffloadingConnector"
    )
    with pytest.raises(AttributeError):
        KVConnectorFactory.get_connector_class(config("NoSuchConnector"))
