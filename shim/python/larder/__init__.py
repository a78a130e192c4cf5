"""Larder: a KV cache outside the inference engine. Client is the thin interface to liblarder.so;
larder.vllm is vLLM's connector."""

from larder.client import Client, LarderError, namespace_id, version
from larder.hashing import hash_tokens

__all__ = ["Client", "LarderError", "hash_tokens", "namespace_id", "version"]
