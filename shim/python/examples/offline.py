"""offline.py MODEL PROMPT_FILE: the same prompt twice without a server. The second time, vLLM loads
the prompt's KV from larderd."""

import sys

from vllm import LLM, SamplingParams
from vllm.config import KVTransferConfig

if __name__ == "__main__":  # vLLM's processes import this file
    connector = KVTransferConfig(
        kv_connector="LarderConnector", kv_connector_module_path="larder.vllm", kv_role="kv_both"
    )
    llm = LLM(model=sys.argv[1], kv_transfer_config=connector, enforce_eager=True)
    prompt = open(sys.argv[2]).read()
    for _ in range(2):
        print(
            repr(
                llm.generate([prompt], SamplingParams(temperature=0, max_tokens=32))[0]
                .outputs[0]
                .text
            )
        )
        llm.reset_prefix_cache()
