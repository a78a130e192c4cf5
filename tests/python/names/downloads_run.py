"""offline_run.py of an engine that downloads an adapter from the hub. The hub is a folder,
LARDER_TEST_HUB; a download of org/adapter fills the hub's cache, as huggingface_hub lays it out."""

import os
import shutil
import sys
import types
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "engine"))

import offline_run  # noqa: E402
from vllm.lora import utils  # noqa: E402

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def snapshot_download(repo_id):
    assert repo_id == "org/adapter"
    cached = Path(os.environ["HF_HUB_CACHE"]) / "models--org--adapter"
    snapshot = cached / "snapshots" / COMMIT
    shutil.copytree(os.environ["LARDER_TEST_HUB"], snapshot, dirs_exist_ok=True)
    (cached / "refs").mkdir(exist_ok=True)
    (cached / "refs" / "main").write_text(COMMIT)
    return str(snapshot)


utils.hf_api = lambda: types.SimpleNamespace(snapshot_download=snapshot_download)

if __name__ == "__main__":
    offline_run.main()
