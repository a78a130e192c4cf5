"""W5: weights that differ in a few rows are other weights, with real vLLM. Chunks that an
engine stored under the one are not found under the other, and are found again under the one."""

import random
import shutil

from engines import run_offline
from safetensors.torch import load_file, save_file
from shapes import make_model

# 60 of 1,024 rows of the embeddings, outside of the rows that the old sampling read.
ROWS = range(300, 360)
HIT = 512  # chunks of 256 tokens, or blocks of 128


def draw_anew(path):
    """The same file, names, sizes and header; ROWS of the embeddings have other values."""
    import torch

    tensors = load_file(path)
    rows = tensors["model.embed_tokens.weight"]
    rows[list(ROWS)] = (
        torch.randn(len(ROWS), rows.shape[1], generator=torch.Generator().manual_seed(60)).to(
            rows.dtype
        )
        * 0.08
    )
    save_file(tensors, path, metadata={"format": "pt"})


def prompt_of_rows():
    generator = random.Random("rows")
    return [generator.choice(ROWS) for _ in range(HIT + 40)]


def ask_twice(world, model):
    """(the answer without Larder, the answer with Larder) of one engine."""
    ask = {"ask": prompt_of_rows(), "max_tokens": 12}
    settled = [{"settle": world.admin_socket}, {"reset": True}]
    steps = [{**ask, "off": True}, {"reset": True}, ask, *settled]
    results, log = run_offline(
        model, world.socket, steps, env={"OMP_NUM_THREADS": "1"}, skip_tokenizer_init=True
    )
    assert "Larder is off" not in log
    return results[0], results[2]


# covers F-070
def test_sixty_rows_drawn_anew_in_place(world, tmp_path):
    model = shutil.copytree(make_model(tmp_path, "llama", 0), tmp_path / "served")
    weights = model / "model.safetensors"
    size = weights.stat().st_size
    original = weights.read_bytes()

    alone, cold = ask_twice(world, model)
    assert cold["hit"] == 0 and cold["tokens"] == alone["tokens"]

    draw_anew(weights)
    assert weights.stat().st_size == size
    retrained_alone, retrained = ask_twice(world, model)
    assert retrained_alone["tokens"] != alone["tokens"], "the rows must matter to the answer"
    assert (retrained["hit"], retrained["tokens"]) == (0, retrained_alone["tokens"])

    weights.write_bytes(original)
    _, again = ask_twice(world, model)
    assert (again["hit"], again["tokens"]) == (HIT, alone["tokens"]), (
        "the files of before are the weights of before"
    )
