"""Model shapes and engine settings, each in a vLLM of its own. LARDER_MODELS=all: every one, and a record for docs/compatibility.md;
else those that are a part of `make test`."""

import os
import re
import time

import pytest
import record
from settings import SETTINGS
from walk import Walk, judge, steps_of

ALL = os.environ.get("LARDER_MODELS") == "all"


@pytest.mark.parametrize("setting", [s for s in SETTINGS if ALL or s.in_test], ids=lambda s: s.name)
def test_setting(setting, world, models, tmp_path):
    env = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"} if setting.processes else {}
    walk = Walk(world, tmp_path, models(setting.model), setting.extra, env, **setting.llm)
    began = time.monotonic()
    with record.of(setting) as told:
        results, log = walk.run(steps_of(setting, walk))
        told(seconds=time.monotonic() - began)
        if setting.refused:
            lines = re.findall(r"Larder is off for this engine: (.*)", log)
            told(result=f"refused: {lines[0] if lines else log[-500:]}")
            assert len(lines) == 1 and re.search(setting.refused, lines[0]), lines
            assert {result["hit"] for result in results} == {0}
        else:
            told(hits=results[4]["hit"], result="equal tokens")
            assert "Larder is off" not in log, re.findall(r"Larder is off.*", log)
            judge(setting, results)
