"""What one setting is put through: cold, local hit, hit from Larder, hits with and without a tail, and zeroed KV, in one vLLM."""

import os
from pathlib import Path

from engines import prompt, run_offline

TEST_LIBRARY = Path(os.environ["LARDER_LIBRARY"]).with_name("liblarder_test.so")


class Walk:
    """Runs steps under liblarder_test.so, which verifies until the file `unverified` is there."""

    def __init__(self, larderd, folder, model, extra=None, env=None, **llm):
        self.larderd, self.folder, self.model = larderd, folder, model
        self.extra, self.env, self.llm = extra, env or {}, llm

    def run(self, steps):
        """(results of the asks, log)."""
        unverified = self.folder / "unverified"
        env = {"LARDER_LIBRARY": str(TEST_LIBRARY), "LARDER_TEST_SKIP_VERIFY": str(unverified), "OMP_NUM_THREADS": "1", **self.env}
        llm = {"skip_tokenizer_init": True, **self.llm}
        results, log = run_offline(self.model, self.larderd.socket, steps, extra=self.extra, env=env, **llm)
        return [result for result in results if isinstance(result, dict)], log

    def settled(self):
        """vLLM's own cache is empty, and all that was stored can be found."""
        return [{"settle": self.larderd.admin_socket}, {"reset": True}]

    def zeroed(self):
        """From here on loads are not verified, and every stored byte is 0."""
        arena = f"/dev/shm/{self.larderd.shm_name}.arena"
        return [*self.settled(), {"touch": str(self.folder / "unverified")}, {"zero": arena}]


def prompts_of(setting):
    """The prompt, and the prompt with another tail."""
    seed = "common" if setting.own_namespace else setting.name
    tokens = prompt(seed, setting.pattern or setting.tokens)
    tokens = (tokens * (setting.tokens // len(tokens) + 1))[: setting.tokens]
    return tokens, tokens[: setting.hit] + prompt(f"{seed} tail", 40)


def steps_of(setting, walk):
    """The order in which the results are named in `judge`."""
    whole, tail = prompts_of(setting)

    def ask(tokens, **more):
        return {"ask": tokens, "max_tokens": setting.max_tokens, **setting.ask, **more}

    steps = [ask(whole[: setting.hit], off=True), {"reset": True}, ask(tail, off=True), {"reset": True}]
    steps += [ask(whole), {"settle": walk.larderd.admin_socket}, ask(whole), *walk.settled(), ask(whole), *walk.settled()]
    steps += [ask(whole[: setting.hit]), *walk.settled(), ask(tail), *walk.zeroed(), ask(whole)]
    return steps


CONTINUED_FROM = 12  # tokens of an answer that are asked again


def continued_steps(setting, walk):
    """For engines whose prefill and decode disagree (MLA on CPUs) and which keep no prefix cache: a prompt's answer fills its last
    chunk by decode; prompt and first answer are asked again, and must go on as the answer went on: by decode over the same KV."""
    whole, _ = prompts_of(setting)
    first = {"ask": whole[: setting.hit - CONTINUED_FROM], "max_tokens": CONTINUED_FROM + setting.max_tokens, **setting.ask}
    again = {"continue": 0, "tokens": setting.hit, "max_tokens": setting.max_tokens, **setting.ask}
    return [first, *walk.settled(), again, *walk.settled(), again, *walk.zeroed(), again]


def judge_continued(setting, results):
    first, warm, again, zeroed = results
    assert first["hit"] == 0 and warm["hit"] == again["hit"] == zeroed["hit"] == setting.hit
    assert warm["tokens"] == again["tokens"] == first["tokens"][CONTINUED_FROM:]
    assert zeroed["tokens"] != warm["tokens"], "the control: with zeroed KV the answer must change, else equal tokens prove nothing"


def judge(setting, results):
    full_alone, tail_alone, cold, local, warm, full, tail, zeroed = results
    assert cold["hit"] == 0, "nothing of another setting is hit"
    assert local["hit"] == 0
    assert warm["hit"] == full["hit"] == tail["hit"] == zeroed["hit"] == setting.hit
    assert local["tokens"] == warm["tokens"] == cold["tokens"]
    assert full["tokens"] == full_alone["tokens"]
    assert tail["tokens"] == tail_alone["tokens"]
    assert zeroed["tokens"] != cold["tokens"], "the control: with zeroed KV the answer must change, else equal tokens prove nothing"
