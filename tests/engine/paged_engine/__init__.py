"""A small paged-attention engine in PyTorch that drives the shim as vLLM's connector does, without
vLLM (../README.md)."""
