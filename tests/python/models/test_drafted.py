"""Drafters in real vLLM. The target verifies each draft, so wrong draft KV changes no token. These
tests therefore compare drafts, over 32 steps, with the drafts of an engine that computes the
prompt. float32, one thread: bfloat16 hides and makes differences."""

import random
from pathlib import Path

import pytest
import record
from engines import start_larderd
from heads import make_head, make_mtp
from test_models import ask, slow
from walk import Walk

SCRIPT = Path(__file__).with_name("drafted_run.py")
STEPS = 32


class Drafted(Walk):
    """A model with a drafter, k = 3."""

    def __init__(self, larderd, folder, model, speculative, **llm):
        speculative = {"num_speculative_tokens": 3, **speculative}
        super().__init__(
            larderd, folder, model, dtype="float32", speculative_config=speculative, **llm
        )

    def run(self, steps, timeout_s=900, **how):
        results, log = super().run(steps, timeout_s, script=SCRIPT, **how)
        assert "Larder is off" not in log, [
            line for line in log.splitlines() if "Larder is off" in line
        ]
        return results


def texts(tokens=600, forks=2):
    """A prompt, and forks behind its token 512."""
    generator = random.Random(1)
    whole = [generator.randrange(3, 1000) for _ in range(tokens)]
    return whole, *(
        [*whole[:512], *(generator.randrange(3, 1000) for _ in range(tokens - 512))]
        for _ in range(forks)
    )


def asked(tokens, **more):
    return ask(tokens, STEPS, **more)


def named():
    """A request without a hit: after this request a second engine on a busy machine knows the name
    of its weights."""
    return asked(list(range(3, 40)), off=True)


def alone(*prompts):
    return [step for text in prompts for step in (asked(text, off=True), {"reset": True})]


def differing(one, other):
    """The number of steps with different drafts. The end of a request cuts its last steps."""
    pairs = list(zip(one["proposed"], other["proposed"]))[:STEPS]
    assert len(pairs) >= 8
    return sum(mine != theirs for mine, theirs in pairs)


@pytest.fixture
def larderd(tmp_path):
    with start_larderd(tmp_path, "512MiB") as running:
        yield running


HEADS = {
    "eagle": "EAGLE, a random head, 3 drafts a step (float32)",
    "eagle3": "EAGLE-3, a random head, 3 drafts a step (float32)",
    "mtp": "MTP, GLM-4.5 with one random module, 3 drafts a step (float32)",
}
# A drafter's attention reads tokens one to three positions back (heads.py): the first drafts behind
# 514 tokens read the KV of token 511.
SHORT = 514
# With two tokens behind its fifth block, vLLM's own hit gives up the fifth block alone.
LONG = 5 * 128 + 2


def headed(kind, larderd, folder, models):
    """Drafted with a head of HEADS."""
    if kind == "mtp":
        return Drafted(larderd, folder, make_mtp(folder, models("glm4_moe")), {"method": "mtp"})
    return Drafted(
        larderd, folder, models("llama"), {"method": kind, "model": str(make_head(folder, kind))}
    )


@slow
@pytest.mark.parametrize("kind", HEADS)
def test_a_head_drafts_as_if_it_had_computed_the_prompt(kind, larderd, models, tmp_path):
    """The key of a chunk covers the next token: a fork right behind a chunk does not hit this
    chunk."""
    with record.named(kind, HEADS[kind], SHORT) as told:
        walk, (whole, fork, other) = headed(kind, larderd, tmp_path, models), texts(SHORT)
        first = [
            *alone(whole, fork, other),
            asked(whole),
            {"settle": larderd.admin_socket},
            asked(whole),
            *walk.settled(),
            asked(whole),
            *walk.settled(),
        ]
        controls = [{"drafts": "zero"}, asked(whole), {"drafts": "kept"}, *walk.settled()]
        rule_off = [
            {"rule": "off"},
            asked(whole),
            *walk.settled(),
            asked(fork),
            {"rule": "on"},
            *walk.settled(),
        ]
        cold, cold_fork, cold_other, stored, local, warm, zeroed, unruled, wrong, forked = walk.run(
            [*first, *controls, *rule_off, asked(fork)]
        )
        assert [one["hit"] for one in (stored, local, warm, zeroed, unruled, wrong, forked)] == [
            0,
            128,
            512,
            512,
            0,
            512,
            384,
        ]
        assert local["local"] == 384
        told(
            result="equal tokens and drafts",
            hits=warm["hit"],
            local=local["local"],
            tail=f"{forked['hit']} of 512",
        )
        for one in (stored, local, warm, zeroed, unruled):
            assert one["tokens"] == cold["tokens"]
        assert wrong["tokens"] == forked["tokens"] == cold_fork["tokens"]
        assert [differing(one, cold) for one in (stored, local, warm)] == [0, 0, 0]
        assert differing(forked, cold_fork) == 0
        assert differing(wrong, cold_fork) > 0, (
            "the control: keys without the next token give wrong draft KV, "
            "else equal drafts are no proof"
        )
        assert differing(zeroed, cold) > 0, "the control: zeroed draft KV changes drafts"
        told(zeroed="equal tokens, other drafts")

        _, again, second, third = walk.run(
            [named(), asked(whole), *walk.settled(), asked(fork), *walk.settled(), asked(other)]
        )
        assert [one["hit"] for one in (again, second, third)] == [512, 512, 384]
        assert [
            differing(again, cold),
            differing(second, cold_fork),
            differing(third, cold_other),
        ] == [0, 0, 0]


def over_own_hits(walk, every):
    """The first runs of four prompts, and requests that hit vLLM's own cache in front of a fork."""
    whole, control, fork, other = every
    tail = texts(LONG - SHORT)[0]

    def hits_the_block_of_whole(text):
        """The request without Larder leaves the fifth block in vLLM's own cache."""
        long = [*text, *tail]
        return [asked(whole), asked(long, off=True), asked(long), *walk.settled()]

    first = [asked(whole), {"settle": walk.larderd.admin_socket}, asked(fork), asked(whole)]
    ruled = [*hits_the_block_of_whole(other), asked(other), *walk.settled()]
    unruled = [{"rule": "keys"}, *hits_the_block_of_whole(control), {"rule": "on"}]
    zeroed = [*walk.settled(), {"drafts": "zero"}, asked(fork)]
    return [*alone(*every), *first, *walk.settled(), *ruled, *unruled, asked(control), *zeroed]


@slow
@pytest.mark.parametrize("kind", HEADS)
# covers F-262
def test_forks_that_hit_vllms_own_cache(kind, larderd, models, tmp_path):
    """vLLM hits the block before a fork by a hash that does not cover the next token. Larder stores
    the block's chunk only if the draft KV of the block is that of the fork's next token."""
    what = f"{HEADS[kind].split(',')[0]}: forks that hit vLLM's own cache"
    with record.named(f"{kind}_own_cache", what, SHORT) as told:
        walk, every = headed(kind, larderd, tmp_path, models), texts(SHORT, forks=3)
        results = walk.run(over_own_hits(walk, every))
        colds, (stored, forked, local, _, _, foreign, again, _, _, unruled, wrong, zeroed) = (
            results[:4],
            results[4:],
        )
        assert [(one["hit"], one["local"]) for one in (stored, forked, local)] == [
            (0, 0),
            (0, 384),
            (128, 384),
        ]
        assert foreign["local"] == unruled["local"] == 512
        assert [one["hit"] for one in (again, wrong, zeroed)] == [384, 512, 512]
        stored_prompts = (every[0], *every[2:])
        each = [step for text in stored_prompts for step in (asked(text), *walk.settled())]
        second = walk.run([named(), *each])[1:]
        assert [one["hit"] for one in second] == [512] * 3
        cold, cold_control, *cold_forks = colds
        right = [stored, forked, again, local, *second]
        for one, cold in zip(right, [cold, *cold_forks, cold, cold, *cold_forks]):
            assert one["tokens"] == cold["tokens"] and differing(one, cold) == 0
        for one, cold in ((wrong, cold_control), (zeroed, cold_forks[0])):
            assert one["tokens"] == cold["tokens"] and differing(one, cold) > 0, (
                "the control: draft KV of another next token, and zeroed draft KV, change drafts"
            )
        told(
            result="equal tokens and drafts",
            hits=second[1]["hit"],
            local=forked["local"],
            zeroed="equal tokens, other drafts",
        )


DRAFT_MODELS = {
    "draft_same": ("a draft model: the target itself, 3 drafts a step (float32)", "llama", 0),
    "draft_small": ("a draft model of two layers (float32)", "llama_small", 3),
    "draft_narrow": (
        "a draft model with fewer KV heads: pages of two sizes in one KV group (float32)",
        "llama_narrow",
        3,
    ),
}


@slow
@pytest.mark.parametrize("kind", DRAFT_MODELS)
def test_a_draft_model(kind, larderd, models, tmp_path):
    what, shape, seed = DRAFT_MODELS[kind]
    with record.named(kind, what, 600) as told:
        draft = models(shape, seed)
        walk, (whole, fork, _) = (
            Drafted(
                larderd, tmp_path, models("llama"), {"method": "draft_model", "model": str(draft)}
            ),
            texts(),
        )
        steps = [
            *alone(whole, fork),
            asked(whole),
            {"settle": larderd.admin_socket},
            asked(whole),
            *walk.settled(),
            asked(whole),
            *walk.settled(),
        ]
        steps += [
            asked(fork),
            *walk.settled(),
            asked(whole[:512]),
            *walk.settled(),
            {"drafts": "zero"},
            asked(whole),
        ]
        cold, cold_fork, stored, local, warm, forked, first, zeroed = walk.run(steps)
        assert [one["hit"] for one in (stored, local, warm, forked, first, zeroed)] == [
            0,
            0,
            512,
            512,
            512,
            512,
        ]
        assert local["local"] == 512
        told(
            result="equal tokens and drafts",
            hits=warm["hit"],
            local=local["local"],
            tail=f"{forked['hit']} of 512",
        )
        assert (
            stored["tokens"]
            == local["tokens"]
            == warm["tokens"]
            == zeroed["tokens"]
            == cold["tokens"]
            and forked["tokens"] == cold_fork["tokens"]
        )
        assert [differing(one, cold) for one in (stored, local, warm)] == [0, 0, 0] and differing(
            forked, cold_fork
        ) == 0
        assert differing(zeroed, cold) > 0, "the control: zeroed draft KV changes drafts"
        told(zeroed="equal tokens, other drafts")
        _, again, second = walk.run([named(), asked(whole), *walk.settled(), asked(fork)])
        assert (again["hit"], second["hit"]) == (512, 512)
        assert differing(again, cold) == differing(second, cold_fork) == 0
        if kind == "draft_same":
            for one in (cold, warm, forked, again, second):
                assert one["accepted"] == one["drafts"] > 0, (
                    "the target accepts its own next tokens"
                )


@slow
def test_steps_without_the_drafter_store_nothing(larderd, models, tmp_path):
    """vLLM leaves the drafter out of a step with a request that is longer than the draft model
    serves."""
    with record.named(
        "draft_short",
        "a draft model that serves 300 tokens: chunks of steps with the drafter alone",
        600,
    ) as told:
        speculative = {"method": "draft_model", "model": str(models("llama")), "max_model_len": 300}
        # Steps of 128 tokens. With max_num_batched_tokens=128 a step has 127, since vLLM keeps a
        # place for a draft, and the second chunk ends in a step without the drafter.
        how = dict(max_num_batched_tokens=1024, max_num_scheduled_tokens=128, max_num_seqs=4)
        walk, (whole, _, _) = (
            Drafted(larderd, tmp_path, models("llama"), speculative, **how),
            texts(),
        )
        short = whole[:280]
        steps = [
            *alone(short, whole),
            asked(whole),
            *walk.settled(),
            asked(short),
            *walk.settled(),
            asked(whole),
        ]
        cold_short, cold, stored, hit, again = walk.run(steps)
        assert [one["hit"] for one in (stored, hit, again)] == [0, 256, 256]
        assert (
            hit["tokens"] == cold_short["tokens"]
            and stored["tokens"] == again["tokens"] == cold["tokens"]
        )
        # Cold, the prompt has two more steps, and vLLM tells the drafts of each.
        assert hit["proposed"] and hit["proposed"] == cold_short["proposed"][2:]
        told(result="equal tokens and drafts", hits=again["hit"])
