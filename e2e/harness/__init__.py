"""Real processes for demo, benchmarks and tests: larderd and vLLM's OpenAI server, started, watched
and ended with all their children."""
