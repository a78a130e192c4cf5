"""vLLM's configuration takes embeddings of clients by the operator's flag alone."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("vllm")

from shapes import make_image_model  # noqa: E402
from test_vllm_plugin import payload  # noqa: E402
from vllm.config import VllmConfig  # noqa: E402

# One import of vLLM, and one look at the model's class, for all cases, each a fork. A case prints
# whether vLLM takes embeddings, and sizes without embeddings.
CONFIGURATIONS = """
import json, os, sys
from vllm import EngineArgs

def takes(**fields):
    config = EngineArgs(model=sys.argv[1], enforce_eager=True, **fields).create_engine_config()
    multimodal = config.model_config.multimodal_config
    return multimodal.enable_mm_embeds, multimodal.allow_missing_mm_embeddings

def case(name, fields):
    child = os.fork()
    if child:
        return os.waitpid(child, 0)
    try:
        print("CASE", name, *takes(**fields), flush=True)
    except BaseException as error:
        print("CASE", name, str(error).replace(chr(10), " ")[:400], flush=True)
    finally:
        os._exit(0)

takes()
for name, fields in json.loads(sys.argv[2]).items():
    case(name, fields)
"""
LARDER = {
    "kv_connector": "LarderConnector",
    "kv_connector_module_path": "larder.vllm",
    "kv_role": "kv_both",
}
EXAMPLE = {"kv_connector": "ExampleConnector", "kv_role": "kv_both"}
OWN = {"kv_connector": "Mine", "kv_connector_module_path": "mine", "kv_role": "kv_consumer"}


def several(*children):
    return {
        "kv_connector": "MultiConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"connectors": children},
    }


# By case: the connector, further fields of EngineArgs, and whether vLLM takes embeddings and sizes.
CASES = {
    "none": (None, {}, "False False"),
    "larder": (LARDER, {}, "False False"),
    "by-name": ({**LARDER, "kv_connector_module_path": None}, {}, "False False"),
    "consumer": ({**LARDER, "kv_role": "kv_consumer"}, {}, "False False"),
    "producer": ({**LARDER, "kv_role": "kv_producer"}, {}, "False False"),
    "own-class": (OWN, {}, "False False"),
    "asked": (LARDER, {"enable_mm_embeds": True}, "True False"),
    "composed": (several(LARDER), {}, "False False"),
    "composed-twice": (several(several(LARDER)), {}, "False False"),
    "storing-neighbour": (
        several({**EXAMPLE, "kv_role": "kv_producer"}, LARDER),
        {},
        "False False",
    ),
    # as without Larder: the other connector may need the sizes
    "neighbour": (several(EXAMPLE, LARDER), {}, "True True"),
    "other": (EXAMPLE, {}, "True True"),
}


def configurations(path, folder, names):
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(
        "from larder.vllm import LarderConnector\n\n\nclass Mine(LarderConnector):\n    pass\n"
    )
    fields = {
        name: {
            **CASES[name][1],
            **({"kv_transfer_config": CASES[name][0]} if CASES[name][0] else {}),
        }
        for name in names
    }
    env = {name: value for name, value in os.environ.items() if name != "VLLM_PLUGINS"}
    others = [one for one in env.get("PYTHONPATH", "").split(os.pathsep) if "vllm-next" in one]
    env["PYTHONPATH"] = os.pathsep.join(map(str, [path, folder, *others]))
    done = subprocess.run(
        [sys.executable, "-c", CONFIGURATIONS, make_image_model(folder), json.dumps(fields)],
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("CASE ")]
    return dict(line.split(" ", 2)[1:] for line in lines)


needs_method = pytest.mark.skipif(
    not hasattr(VllmConfig, "_resolve_mm_embedding_inputs"), reason="this vLLM has one rule for all"
)


@pytest.fixture(scope="module")
def found(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("payload")
    return configurations(payload(root, folder), folder / "model", CASES)


@needs_method
@pytest.mark.parametrize("case", CASES)
# covers F-334
def test_an_engine_that_loads_by_larder_alone_is_as_without_a_connector(case, found):
    assert found[case] == CASES[case][2]


@needs_method
# covers F-334
def test_without_the_entry_point_vllm_takes_them(root, tmp_path):
    """The control: an engine of this kind warns in its log (surroundings)."""
    found = configurations(root / "shim" / "python", tmp_path / "model", ["larder", "none"])
    assert found == {"larder": "True True", "none": "False False"}
