"""offline_run.py for the models of item_models.py. An ask with "refused" gives the error of vLLM.

LLaVA-NeXT-Video has a processor of its own here: the processor of transformers needs torchvision.
vLLM's part of the processing, its caches and its model are vLLM's own."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "engine"))

import offline_run  # noqa: E402
import torch  # noqa: E402
from vllm.model_executor.models.llava_next_video import LlavaNextVideoProcessingInfo  # noqa: E402


class FramesAsTheyAre:
    """The pixels of the frames, from -1 to 1."""

    video_token = "<video>"

    def __call__(self, videos=(), return_tensors="pt"):
        from transformers import BatchFeature

        frames = [torch.as_tensor(video).permute(0, 3, 1, 2) for video in videos]
        return BatchFeature({"pixel_values_videos": [one.float() / 127.5 - 1 for one in frames]})


def run(llm, step):
    if not step.get("refused"):
        return of_offline_run(llm, step)
    try:
        return of_offline_run(llm, step)
    except ValueError as error:
        return {"refused": str(error)}


LlavaNextVideoProcessingInfo.get_hf_processor = lambda self, **kwargs: FramesAsTheyAre()
of_offline_run, offline_run.run = offline_run.run, run

if __name__ == "__main__":
    offline_run.main()
