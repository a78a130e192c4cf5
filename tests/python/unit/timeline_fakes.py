"""A CUDA stream whose work ends late, for the worker's half: events are as strict as torch's."""


class Event:
    def __init__(self, timeline):
        self._timeline = timeline
        self.at = None  # milliseconds at which the device passes the event; None: never recorded

    def query(self):
        assert self.at is not None, "an event that was not recorded is asked"
        return self.at <= self._timeline.now

    def elapsed_time(self, later):
        if not (self.query() and later.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return later.at - self.at


class Timeline:
    """As larder.vllm.prefill_clock.Timeline. Time passes by hand, in milliseconds."""

    def __init__(self):
        self.now = self._free_at = 0.0
        self.made = 0
        self.captures = False

    def event(self):
        self.made += 1
        return Event(self)

    def record(self, event):
        assert not self.captures, "the event would belong to the graph"
        event.at = max(self.now, self._free_at)

    def is_captured(self):
        return self.captures

    def queue(self, milliseconds):
        """The engine launches work of this length, behind all queued work."""
        self._free_at = max(self.now, self._free_at) + milliseconds

    def passes(self, milliseconds):
        self.now += milliseconds


def on_gpu(half, monkeypatch, tensors):
    """Registers the tensors as if on a GPU. Returns the Timeline of the stream."""
    from larder.kv_pages import DeviceStream

    timeline = Timeline()
    stream = DeviceStream("cuda:0")
    monkeypatch.setattr(DeviceStream, "__call__", lambda self: 77)
    monkeypatch.setattr("larder.vllm.worker.stream_of", lambda _: stream)
    monkeypatch.setattr("larder.vllm.worker.Timeline", lambda device: timeline)
    half.register_kv_caches(tensors)
    assert half.off is None
    return timeline
