"""`vllm serve` with Larder inside a MultiConnector, as the injector writes the configuration for a
pod with another connector. The injector's other configurations:
tests/python/models/test_composed_servers.py."""

from composed_configs import answers_hits_and_counts, on_a_cpu, written
from engines import Engine, start_larderd


# covers F-077
def test_a_composed_server_answers_hits_and_counts(root, model, tmp_path):
    example, config = tmp_path / "example", written(root)["connector-multi"]
    # A list without our plug-in: the processes of the server have only their imports.
    more = {"VLLM_PLUGINS": "lora_filesystem_resolver"}
    with start_larderd(tmp_path) as larderd:
        with Engine(
            model,
            larderd.socket,
            tmp_path,
            "--dtype",
            "float32",
            connector=on_a_cpu(config, example),
            serve=True,
            **more,
        ) as engine:
            engine.wait_ready()
            engine.larderd = larderd
            answers_hits_and_counts(engine, example)
