"""Reading larderd's metrics, and the difference of two readings."""

import pytest
from http_fakes import FakeLarderd, serving

from larder import larderd_metrics
from larder.larderd_metrics import NotLarderd, Share


def test_samples_keep_labels_and_leave_comments_out():
    found = larderd_metrics.samples(
        '# HELP larder_a b\nlarder_a 1\nlarder_b{m="x y",n="z"} 2.5\nother 3\n'
    )
    assert found == {"larder_a": 1.0, 'larder_b{m="x y",n="z"}': 2.5}


def test_a_share_is_the_difference_of_two_readings():
    larderd = FakeLarderd()
    larderd.load(1000)
    share = Share(lambda: larderd_metrics.samples(larderd.metrics()))
    larderd.load(256)
    assert share.wait(loads=1, hit=256)
    assert share.tokens_hit() == 256
    assert share.milliseconds() == pytest.approx({"lookup": 2, "load_wait": 2, "load_copy": 2})


@pytest.mark.parametrize("wanted", [{"loads": 2}, {"loads": 1, "hit": 257}])
def test_uncounted_hits_are_reported(wanted):
    larderd = FakeLarderd()
    share = Share(lambda: larderd_metrics.samples(larderd.metrics()))
    larderd.load(256)
    assert not share.wait(**wanted, timeout_s=0.2)
    assert share.tokens_hit() == 256


def test_metrics_are_read_over_http():
    larderd = FakeLarderd()
    larderd.hit = 5
    with serving({"GET /metrics": larderd.metrics}) as url:
        assert larderd_metrics.tokens_hit(larderd_metrics.read(url)) == 5


def test_another_server_is_reported():
    with (
        serving({"GET /metrics": lambda: "vllm:x 1\n"}) as url,
        pytest.raises(NotLarderd, match="is not larderd's"),
    ):
        larderd_metrics.read(url)
    with pytest.raises(NotLarderd, match="http://127.0.0.1:1/metrics cannot be read"):
        larderd_metrics.read("http://127.0.0.1:1")
