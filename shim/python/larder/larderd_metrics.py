"""Counters from larderd's /metrics: tokens hit, and Larder's own share of a request's time.

Engines report over rings that larderd drains several times a second, so an event may be counted a
moment later."""

import http.client
import re
import time
import urllib.parse

DEFAULT_URL = "http://127.0.0.1:9464"

# Look-up, wait for the copy, copy and verification.
PARTS = ("lookup", "load_wait", "load_copy")


class NotLarderd(Exception):
    """The metrics cannot be read, or are not larderd's; the text has the reason."""


def samples(text):
    """Values by "name{labels}"."""
    return {
        name: float(value)
        for name, value in re.findall(r"^(larder_[^\s{]+(?:\{.*\})?) (\S+)$", text, re.M)
    }


def read(url, timeout_s=5):
    """The samples of the larderd that listens at url."""
    parts = urllib.parse.urlsplit(url if "//" in url else f"http://{url}")
    try:
        connection = http.client.HTTPConnection(parts.netloc, timeout=timeout_s)
        try:
            connection.request("GET", "/metrics")
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        raise NotLarderd(f"{url}/metrics cannot be read: {str(error).strip()}") from None
    found = samples(text)
    if response.status != 200 or not all(_seconds(part) in found for part in PARTS):
        raise NotLarderd(f"{url}/metrics is not larderd's (status {response.status})")
    return found


def tokens_hit(found):
    """Tokens found in larderd since the start of larderd, over all models."""
    return int(
        sum(value for name, value in found.items() if name.startswith("larder_tokens_hit_total"))
    )


def _seconds(part):
    return f'larder_operation_seconds_sum{{operation="{part}"}}'


class Share:
    """Two readings and the difference between them. read_samples() returns samples; the constructor
    makes the first reading."""

    _LOADS = 'larder_operation_seconds_count{operation="load_copy"}'

    def __init__(self, read_samples):
        self._read_samples = read_samples
        self.before = self.after = read_samples()

    def wait(self, loads=1, hit=0, timeout_s=3):
        """Reads until `loads` more loads and `hit` more tokens are counted. False: the time was up
        before; `after` has the last reading."""
        deadline = time.monotonic() + timeout_s
        while True:
            self.after = self._read_samples()
            if self.loads() >= loads and self.tokens_hit() >= hit:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)

    def loads(self):
        """Successful loads."""
        return int(self.after[self._LOADS] - self.before[self._LOADS])

    def tokens_hit(self):
        return tokens_hit(self.after) - tokens_hit(self.before)

    def milliseconds(self):
        """{part: milliseconds}."""
        return {
            part: 1e3 * (self.after[_seconds(part)] - self.before[_seconds(part)]) for part in PARTS
        }
