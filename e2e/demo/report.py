"""What the demo prints, as pure functions of what it measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Measured:
    prompt_tokens: int
    hit_tokens: int
    cold_s: float
    warm_s: float
    second_engine_s: float
    share_ms: dict[str, float]  # Larder's part of the warm TTFT
    identical: bool


def bars(rows: list[tuple[str, float]], width: int = 60) -> str:
    """One bar a row, linear in seconds; the smallest still shows."""
    longest = max(seconds for _, seconds in rows)
    lines = []
    for label, seconds in rows:
        eighths = max(1, round(8 * width * seconds / longest))
        lines.append(f"  {label:<13} {'█' * (eighths // 8)}{' ▏▎▍▌▋▊▉'[eighths % 8].strip()} {seconds:.3f} s")
    return "\n".join(lines)


def text(m: Measured) -> str:
    share = m.share_ms
    return "\n".join([
        "",
        f"  tokens in the prompt   {m.prompt_tokens}",
        f"  tokens hit in Larder   {m.hit_tokens}",
        f"  TTFT cold              {m.cold_s:.3f} s",
        f"  TTFT warm              {m.warm_s:.3f} s   {m.cold_s / m.warm_s:.0f} times faster",
        f"  TTFT other engine      {m.second_engine_s:.3f} s   {m.cold_s / m.second_engine_s:.0f} times faster, its first query of this prompt",
        f"  Larder's share         {sum(share.values()):.1f} ms of the warm TTFT: look-up {share['lookup']:.2f}, waiting for the copy "
        f"{share['load_wait']:.1f}, copying and verifying {share['load_copy']:.1f}",
        f"  32 tokens that follow  {'identical' if m.identical else 'DIFFERENT'} in all three",
        "",
        bars([("cold", m.cold_s), ("warm", m.warm_s), ("other engine", m.second_engine_s)]),
        "",
    ])
