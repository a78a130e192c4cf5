"""offline_run.py for models with sound and with video. A failing ask with "refused" gives the error
of vLLM.

vLLM's own models for video need torchvision, which a vLLM for CPUs lacks. BLIP-2 therefore reads
videos here, frame by frame, and pictures beside videos. All else is vLLM's own: the processing, its
caches, tower and text model."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "engine"))

import numpy  # noqa: E402
import offline_run  # noqa: E402
import torch  # noqa: E402
from transformers import BatchFeature  # noqa: E402
from vllm import ModelRegistry  # noqa: E402
from vllm.model_executor.models import blip2  # noqa: E402
from vllm.multimodal import MULTIMODAL_REGISTRY  # noqa: E402
from vllm.multimodal.inputs import MultiModalFieldConfig  # noqa: E402
from vllm.multimodal.processing import PromptIndexTargets, PromptInsertion  # noqa: E402

FRAMES = 4
SOUND_TOKENS, HIDDEN = 25, 256  # of a second of sound, and of a token, in audio_model.py


def sound(number):
    """A second of tones, one after the other; without a sampling rate vLLM takes the processor's.
    {"embeds": number}: embeddings of a client in place of a sound. {"tokens": count}: the size of
    embeddings alone."""
    if not isinstance(number, dict):
        pitches = numpy.random.default_rng(number).uniform(100, 7000, 10).repeat(1600)
        wave = numpy.sin(numpy.cumsum(pitches) * 2 * numpy.pi / 16000)
        return wave.astype(numpy.float32)
    if "tokens" in number:
        return {"audio_num_tokens": torch.tensor([number["tokens"]])}
    generator = torch.Generator().manual_seed(number["embeds"])
    return torch.randn(SOUND_TOKENS, HIDDEN, generator=generator).bfloat16()


def video(number):
    """Frames of 56 times 56 pixels."""
    shape = (FRAMES, 56, 56, 3)
    return numpy.random.default_rng(number).integers(0, 255, shape, dtype=numpy.uint8)


def read(images=(), videos=(), fps=1.0, return_tensors="pt"):
    """Pixels from -1 to 1, in place of the model's own processor. fps: as Qwen2.5-VL's, which gives
    the times of frames to the model beside the pixels."""
    made = {}
    if images:
        pictures = [torch.tensor(numpy.asarray(image)).permute(2, 0, 1) for image in images]
        made["pixel_values"] = torch.stack(pictures).float() / 127.5 - 1
    if videos:
        frames = [torch.as_tensor(one).permute(0, 3, 1, 2) for one in videos]
        made["films"] = torch.stack(frames).float() / 127.5 - 1
        made["seconds"] = torch.full((len(videos),), 1 / fps)
    return BatchFeature(made)


class Info(blip2.Blip2ProcessingInfo):
    def get_supported_mm_limits(self):
        return {"image": 1, "video": 2}

    def get_hf_processor(self, **kwargs):
        return read


class DummyInputs(blip2.Blip2DummyInputsBuilder):
    def get_dummy_mm_data(self, seq_len, mm_counts, mm_options):
        return {
            "image": [offline_run.image(0)] * mm_counts.get("image", 0),
            "video": [video(0)] * mm_counts.get("video", 0),
        }


class Processor(blip2.Blip2MultiModalProcessor):
    def _get_mm_fields_config(self, hf_inputs, hf_processor_mm_kwargs):
        return {
            "pixel_values": MultiModalFieldConfig.batched("image"),
            "films": MultiModalFieldConfig.batched("video"),
            "seconds": MultiModalFieldConfig.batched("video"),
        }

    def _get_prompt_updates(self, **inputs):
        token = self.info.get_tokenizer().get_vocab()["<image>"]
        picture = [token] * self.info.get_num_image_tokens()
        start = PromptIndexTargets.start()
        return [
            PromptInsertion("image", start, picture),
            PromptInsertion("video", start, picture * FRAMES),
        ]


@MULTIMODAL_REGISTRY.register_processor(Processor, info=Info, dummy_inputs=DummyInputs)
class Films(blip2.Blip2ForConditionalGeneration):
    def embed_multimodal(self, films=None, seconds=None, **pictures):
        if films is None:
            return super().embed_multimodal(**pictures)
        embed = super().embed_multimodal
        return [
            embed(pixel_values=one).flatten(0, 1) * time.to(torch.bfloat16)
            for one, time in zip(films, seconds)
        ]


def run(llm, step):
    if not step.get("refused"):
        return of_offline_run(llm, step)
    try:
        return of_offline_run(llm, step)
    except ValueError as error:
        return {"refused": str(error)}


ModelRegistry.register_model("Blip2ForConditionalGeneration", Films)
of_offline_run, offline_run.run = offline_run.run, run
offline_run.ITEMS.update(audio=sound, video=video)

if __name__ == "__main__":
    offline_run.main()
