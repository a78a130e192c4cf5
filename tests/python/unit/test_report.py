"""The lines of the demo and of query_twice, each on its own."""

from larder.report import Measured, bars, text


def lines(**more):
    fields = dict(prompt_tokens=4101, hit_tokens=4096, cold_s=10.0, warm_s=0.05, identical=True)
    return text(Measured(**{**fields, **more})).splitlines()


def starting(shown, label):
    (found,) = [line for line in shown if line.startswith(f"  {label} ")]
    return found[2 + len(label) :].strip()


def test_the_demo_compares_three_answers():
    share = {"lookup": 0.004, "load_wait": 1.0, "load_copy": 7.0}
    shown = lines(share_ms=share, second_engine_s=0.1)
    assert (
        starting(shown, "tokens in the prompt") == "4101"
        and starting(shown, "tokens hit in Larder") == "4096"
    )
    assert starting(shown, "TTFT cold") == "10.000 s"
    assert starting(shown, "TTFT warm") == "0.050 s   200 times faster"
    assert (
        starting(shown, "TTFT other engine")
        == "0.100 s   100 times faster, first query of this prompt"
    )
    assert starting(shown, "Larder's share").startswith(
        "8.0 ms of the warm TTFT: look-up 0.00, waiting for the copy 1.0, "
    )
    assert starting(shown, "32 tokens that follow") == "identical in all three"
    assert not any("hit came from" in line for line in shown)
    assert sum(any(bar in line for bar in "█▏▎▍▌▋▊▉") for line in shown) == 3


def test_a_users_server_has_no_other_engine_and_may_have_no_share():
    shown = lines(
        no_share="larderd is away", source="external cache", identical=False, hit_tokens=None
    )
    assert not any("other engine" in line for line in shown)
    assert starting(shown, "hit came from") == "external cache"
    assert starting(shown, "tokens hit in Larder") == "unknown"
    assert starting(shown, "Larder's share") == "unknown: larderd is away"
    assert starting(shown, "32 tokens that follow") == "DIFFERENT in both"


def test_small_factors_show_a_digit():
    assert starting(lines(warm_s=8.0), "TTFT warm") == "8.000 s   1.2 times faster"


def test_bars_are_linear_and_the_smallest_still_shows():
    long, short, half = bars([("a", 8.0), ("b", 0.001), ("c", 4.0)], width=8).splitlines()
    assert long.count("█") == 8 and half.count("█") == 4 and "▏" in short
