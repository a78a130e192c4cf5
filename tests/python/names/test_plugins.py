"""A plug-in of vLLM may replace any layer, and vLLM's configuration does not tell of plug-ins."""

import os

from engine_life import alone, ask, live
from engines import prompt

TEXT = prompt("plug-ins", 600)
# The weights of the layer are the same, and its results are not.
CODE = """
def register():
    from vllm.model_executor.models.llama import LlamaMLP

    if not hasattr(LlamaMLP, "before"):
        LlamaMLP.before = LlamaMLP.forward
        LlamaMLP.forward = lambda self, x: self.before(x) * 0.25
"""


def install(folder):
    (folder / "quieter.py").write_text(CODE)
    facts = folder / "quieter-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: quieter\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[vllm.general_plugins]\nquieter = quieter:register\n")


# covers F-064
def test_an_engine_with_a_plug_in_has_a_namespace_of_its_own(world, models, root, tmp_path):
    paths = [tmp_path, root / "shim" / "python", os.environ.get("PYTHONPATH", "")]
    env = {"PYTHONPATH": os.pathsep.join(filter(None, map(str, paths)))}
    (plain,) = live(world, models("llama"), ask(TEXT))
    install(tmp_path)
    missed, hit, without = live(world, models("llama"), ask(TEXT), ask(TEXT), alone(TEXT), env=env)
    assert (missed["hit"], hit["hit"]) == (0, 512)
    assert missed["tokens"] == hit["tokens"] == without["tokens"] != plain["tokens"]
