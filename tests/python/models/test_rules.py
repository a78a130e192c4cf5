"""Rules of the connector's groups, each taken out of a copy of the package: the comparison of some
setting must fail then."""

import os
import shutil

import pytest
import settings
from test_models import slow, walk_of
from walk import judge, steps_of

GROUPS, LOAD_PLAN = "larder/vllm/groups.py", "larder/vllm/load_plan.py"
RULES = {  # what: setting, file, text, the text in its place
    "all blocks of a window are kept": (
        "gpt_oss_96",
        GROUPS,
        "math.ceil((window - 1) / spec.block_size)",
        "math.ceil((window - 1) / spec.block_size) - 1",
    ),
    "of a chunk the last blocks are kept": (
        "gpt_oss_96",
        GROUPS,
        "return table[end - self.blocks : end]",
        "return table[end - self.span : end - self.span + self.blocks]",
    ),
    "each group has its own block table": (
        "gpt_oss",
        LOAD_PLAN,
        "tables[group.table], chunk",
        "tables[0], chunk",
    ),
    "where a full hit needs one block more, a chunk less is hit": (
        "window_33",
        GROUPS,
        "return self.window is not None and (self.window - 1) % self.block_size == 0",
        "return False",
    ),
    "a full hit that ends with a span of chunked local attention gives up a chunk": (
        "llama4",
        GROUPS,
        "return tokens % self.local == 0",
        "return False",
    ),
    "a rank has its own shard": ("tp2", GROUPS, "+ rank // self.replicas,", ","),
    "a stage has its own shard": (
        "pp2",
        GROUPS,
        "return stage * (self.ranks // self.replicas) + rank",
        "return rank",
    ),
}


@slow
@pytest.mark.parametrize("rule", RULES)
def test_without_the_rule_the_comparison_fails(rule, root, world, models, tmp_path):
    name, file, there, instead = RULES[rule]
    setting = next(setting for setting in settings.SETTINGS if setting.name == name)
    shutil.copytree(root / "shim" / "python" / "larder", tmp_path / "larder")
    source = (tmp_path / file).read_text()
    assert source.count(there) == 1, f"{there!r} is not once in {file}"
    (tmp_path / file).write_text(source.replace(there, instead))
    walk = walk_of(setting, world, tmp_path, models(setting.model))
    walk.env["PYTHONPATH"] = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    results, log = walk.run(steps_of(setting, walk))
    assert "Larder is off" not in log, "the setting must run, and be wrong"
    with pytest.raises(AssertionError):
        judge(setting, results)
