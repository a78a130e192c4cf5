"""The walk of one setting: cold, local hit, hit from Larder, hits with and without a tail, and
zeroed KV, in one vLLM."""

import json
import os
from pathlib import Path

from engines import prompt, run_offline

TEST_LIBRARY = Path(os.environ["LARDER_LIBRARY"]).with_name("liblarder_test.so")
TAIL = 40
# More arguments of LLM(), as JSON: on a GPU {"block_size": 128, "attention_config": {"backend":
# "FLASH_ATTN"}}, say.
MORE = json.loads(os.environ.get("LARDER_MODELS_LLM", "{}"))


class Walk:
    """Runs steps under liblarder_test.so, which verifies until the file `unverified` is there."""

    def __init__(self, larderd, folder, model, extra=None, env=None, **llm):
        self.larderd, self.folder, self.model = larderd, folder, model
        self.extra, self.env, self.llm = extra, env or {}, llm

    def run(self, steps, timeout_s=240, **how):
        """(results of the asks, log). `how`: of run_offline."""
        unverified = self.folder / "unverified"
        unverified.unlink(missing_ok=True)
        env = {
            "LARDER_LIBRARY": str(TEST_LIBRARY),
            "LARDER_TEST_SKIP_VERIFY": str(unverified),
            "OMP_NUM_THREADS": "1",
            **self.env,
        }
        llm = {"skip_tokenizer_init": True, **MORE, **self.llm}
        results, log = run_offline(
            self.model,
            self.larderd.socket,
            steps,
            extra=self.extra,
            env=env,
            timeout_s=timeout_s,
            **how,
            **llm,
        )
        return [result for result in results if isinstance(result, dict)], log

    def settled(self):
        """vLLM's own cache is empty, and all that was stored can be found."""
        return [{"settle": self.larderd.admin_socket}, {"reset": True}]

    def zeroed(self):
        """From here on loads are not verified, and every stored byte is 0."""
        arena = f"/dev/shm/{self.larderd.shm_name}.arena"
        return [*self.settled(), {"touch": str(self.folder / "unverified")}, {"zero": arena}]


def prompts_of(setting):
    """The prompt, its first `hit` tokens, and these tokens with another tail."""
    seed = "common" if setting.own_namespace else setting.name
    tokens = prompt(seed, setting.pattern or setting.tokens)
    tokens = (tokens * (setting.tokens // len(tokens) + 1))[: setting.tokens - setting.ahead]
    tail = prompt(f"{seed} tail", TAIL)
    if setting.ahead:  # token 3 stands for the image
        tokens, tail = ([max(token, 4) for token in part] for part in (tokens, tail))
    first = tokens[: setting.hit - setting.ahead]
    return tokens, first, first + tail


def steps_of(setting, walk, more=()):
    """The order of the results' names in `judge`. The results of `more` come before the last
    result, of zeroed KV."""
    whole, first, tail = prompts_of(setting)

    def ask(tokens, **fields):
        return {"ask": tokens, "max_tokens": setting.max_tokens, **setting.ask, **fields}

    steps = [ask(first, off=True), {"reset": True}, ask(tail, off=True), {"reset": True}]
    steps += [
        ask(whole),
        {"settle": walk.larderd.admin_socket},
        ask(whole),
        *walk.settled(),
        ask(whole),
        *walk.settled(),
    ]
    steps += [
        ask(first),
        *walk.settled(),
        ask(tail),
        *walk.settled(),
        *more,
        *walk.zeroed(),
        ask(whole),
    ]
    return steps


def judge(setting, results):
    """AssertionError, or the row for the table of docs/reference/compatibility.md."""
    first_alone, tail_alone, cold, local, warm, first, tail, *_, zeroed = results
    seen = [(result["hit"], result["local"]) for result in (cold, local, warm, first, tail, zeroed)]
    assert seen[0] == (0, 0), f"no chunk of another setting is hit: {seen}"
    assert seen[1] == (0 if setting.local_hit else setting.hit, setting.local_hit), seen
    assert seen[2:] == [
        (setting.hit, 0),
        (setting.full_hit, 0),
        (setting.hit, 0),
        (setting.hit, 0),
    ], seen
    assert local["tokens"] == warm["tokens"] == cold["tokens"]
    assert first["tokens"] == first_alone["tokens"]
    assert tail["tokens"] == tail_alone["tokens"]
    assert zeroed["tokens"] != cold["tokens"], (
        "the control: with zeroed KV the answer must change, else equal tokens are no proof"
    )
    return {
        "local": local["local"],
        "hits": warm["hit"],
        "tail": f"{tail['hit']} of {setting.hit + TAIL}",
        "zeroed": "other tokens",
    }
