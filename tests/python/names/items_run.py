"""offline_run.py for models with sound and with video. An ask with "refused" gives the error of
vLLM.

vLLM's own models for video need torchvision, which a vLLM for CPUs lacks. BLIP-2 therefore reads
videos here, frame by frame. All else is vLLM's own: the processing, its caches, tower and text
model."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "engine"))

import offline_run  # noqa: E402
import torch  # noqa: E402
from transformers import BatchFeature  # noqa: E402
from vllm import ModelRegistry  # noqa: E402
from vllm.model_executor.models import blip2  # noqa: E402
from vllm.multimodal import MULTIMODAL_REGISTRY  # noqa: E402
from vllm.multimodal.inputs import MultiModalFieldConfig  # noqa: E402
from vllm.multimodal.processing import PromptIndexTargets, PromptInsertion  # noqa: E402

FRAMES = 4


def of_frames(videos=(), return_tensors="pt"):
    """The pixels as they are, from -1 to 1."""
    frames = [torch.as_tensor(video).permute(0, 3, 1, 2) for video in videos]
    return BatchFeature({"films": torch.stack(frames).float() / 127.5 - 1})


class Info(blip2.Blip2ProcessingInfo):
    def get_supported_mm_limits(self):
        return {"video": 1}

    def get_hf_processor(self, **kwargs):
        return of_frames


class DummyInputs(blip2.Blip2DummyInputsBuilder):
    def get_dummy_mm_data(self, seq_len, mm_counts, mm_options):
        return {"video": [offline_run.video(0)] * mm_counts.get("video", 0)}


class Processor(blip2.Blip2MultiModalProcessor):
    def _get_mm_fields_config(self, hf_inputs, hf_processor_mm_kwargs):
        return {"films": MultiModalFieldConfig.batched("video")}

    def _get_prompt_updates(self, **inputs):
        token = self.info.get_tokenizer().get_vocab()["<image>"]
        tokens = [token] * (FRAMES * self.info.get_num_image_tokens())
        return [PromptInsertion("video", PromptIndexTargets.start(), tokens)]


@MULTIMODAL_REGISTRY.register_processor(Processor, info=Info, dummy_inputs=DummyInputs)
class Films(blip2.Blip2ForConditionalGeneration):
    def embed_multimodal(self, films=None, **kwargs):
        if films is None:
            return []
        return [
            super(Films, self).embed_multimodal(pixel_values=one).flatten(0, 1) for one in films
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

if __name__ == "__main__":
    offline_run.main()
