"""Files out of a released vLLM wheel, without a download of hundreds of megabytes. pip's index has
the address, and HTTP ranges read the archive's directory and the wanted files."""

import io
import json
import subprocess
import sys
import urllib.request
import zipfile


def wheel_url(requirement):
    """(version, address) of the wheel that pip would install."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--ignore-installed",
        "--no-deps",
        "--only-binary",
        ":all:",
        "-q",
    ]
    command += [
        "--platform",
        "manylinux_2_28_x86_64",
        "--target",
        "/nonexistent",
        "--no-cache-dir",
        "--report",
        "-",
        requirement,
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    (found,) = json.loads(done.stdout)["install"]
    return found["metadata"]["version"], found["download_info"]["url"]


class _Remote(io.RawIOBase):
    """A file behind an HTTP server that knows ranges."""

    def __init__(self, url):
        self.url, self.at = url, 0
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(request, timeout=60) as answer:
            self.size = int(answer.headers["Content-Length"])

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=io.SEEK_SET):
        self.at = offset + (0, self.at, self.size)[whence]
        return self.at

    def readinto(self, buffer):
        count = min(len(buffer), self.size - self.at)
        if count <= 0:
            return 0
        headers = {"Range": f"bytes={self.at}-{self.at + count - 1}"}
        with urllib.request.urlopen(
            urllib.request.Request(self.url, headers=headers), timeout=60
        ) as answer:
            if answer.status != 206:
                raise OSError(f"{self.url} is served whole only")
            data = answer.read(count)
        buffer[: len(data)] = data
        self.at += len(data)
        return len(data)


def read_files(url, *names):
    """The contents of these members of a wheel."""
    found = read_matching(url, names.__contains__)
    return [found[name] for name in names]


def read_matching(url, wanted):
    """{name: content} of the wanted members of a wheel."""
    with zipfile.ZipFile(io.BufferedReader(_Remote(url), 1 << 20)) as wheel:
        return {name: wheel.read(name).decode() for name in wheel.namelist() if wanted(name)}
