"""`vllm serve` with each configuration of the injector, as in the golden pods.
tests/python/engine/test_composed_server.py runs one of these in `make test`. test_composed.py runs
all without a server, and also configurations written by hand."""

import os
from pathlib import Path

import pytest
from composed_configs import answers_hits_and_counts, on_a_cpu, written
from demo.model import make_model
from engines import Engine, start_larderd

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
WRITTEN = written(HERE.parents[2])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """With a tokenizer, which a server needs."""
    shape = dict(
        layers=4, hidden=256, intermediate=512, heads=8, kv_heads=4, head_dim=32, vocab=1024
    )
    return make_model(str(tmp_path_factory.mktemp("models") / "llama"), **shape)


@pytest.fixture(autouse=True)
def neighbours(monkeypatch):
    """The server's processes import `neighbour`."""
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    )


def serve(model, folder, config, *arguments):
    with start_larderd(folder) as larderd:
        connector = on_a_cpu(config, folder / "example")
        with Engine(
            model,
            larderd.socket,
            folder,
            "--dtype",
            "float32",
            *arguments,
            connector=connector,
            serve=True,
        ) as engine:
            engine.wait_ready(600)
            engine.larderd = larderd
            answers_hits_and_counts(engine, folder / "example")


@pytest.mark.parametrize("name", WRITTEN)
# covers F-077
def test_a_server_answers_hits_and_counts(name, model, tmp_path):
    serve(model, tmp_path, WRITTEN[name])


@pytest.mark.parametrize("name", ["backend", "connector-multi"])
# covers F-077
def test_several_api_servers_do_so_too(name, model, tmp_path):
    """Like KServe's leaders: the statistics of an engine reach a process without connectors."""
    serve(model, tmp_path, WRITTEN[name], "--api-server-count", "2")
