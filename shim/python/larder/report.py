"""The lines of make demo and of larder.query_twice, as pure functions of the measurements."""

from dataclasses import dataclass

CONTINUATION = 32  # compared tokens

_LABEL = 22


@dataclass
class Measured:
    prompt_tokens: int
    hit_tokens: int | None  # None: unknown
    cold_s: float
    warm_s: float
    identical: bool  # the continuations of all answers
    # Larder's part of the warm TTFT, by larderd_metrics.PARTS; None: no_share has the reason
    share_ms: dict | None = None
    no_share: str = ""
    second_engine_s: float | None = None  # None: no second engine was asked
    source: str = ""  # the cache of the hit, if several are possible


def bars(rows, width=60):
    """One linear bar for each row of (label, seconds); the smallest bar is still visible."""
    longest = max(seconds for _, seconds in rows)
    lines = []
    for label, seconds in rows:
        eighths = max(1, round(8 * width * seconds / longest))
        lines.append(
            f"  {label:<13} {'█' * (eighths // 8)}{' ▏▎▍▌▋▊▉'[eighths % 8].strip()} {seconds:.3f} s"
        )
    return "\n".join(lines)


def text(m):
    rows = [("cold", m.cold_s), ("warm", m.warm_s)]
    lines = [
        _line("tokens in the prompt", m.prompt_tokens),
        _line("tokens hit in Larder", "unknown" if m.hit_tokens is None else m.hit_tokens),
    ]
    if m.source:
        lines.append(_line("hit came from", m.source))
    lines += [_line("TTFT cold", f"{m.cold_s:.3f} s"), _line("TTFT warm", _faster(m, m.warm_s))]
    if m.second_engine_s is not None:
        rows.append(("other engine", m.second_engine_s))
        lines.append(
            _line(
                "TTFT other engine", f"{_faster(m, m.second_engine_s)}, first query of this prompt"
            )
        )
    same = "identical" if m.identical else "DIFFERENT"
    lines += [
        _line("Larder's share", _share(m)),
        _line(
            f"{CONTINUATION} tokens that follow",
            f"{same} in {'both' if len(rows) == 2 else 'all three'}",
        ),
    ]
    return "\n".join(["", *lines, "", bars(rows), ""])


def _line(label, value):
    return f"  {label:<{_LABEL}} {value}"


def _faster(m, seconds):
    factor = m.cold_s / seconds
    return f"{seconds:.3f} s   {factor:.{0 if factor >= 10 else 1}f} times faster"


def _share(m):
    if m.share_ms is None:
        return f"unknown: {m.no_share}"
    s = m.share_ms
    return (
        f"{sum(s.values()):.1f} ms of the warm TTFT: look-up {s['lookup']:.2f}, waiting for the "
        f"copy {s['load_wait']:.1f}, copying and verifying {s['load_copy']:.1f}"
    )
