"""Objects of a plug-in's service: each has bytes that derive from its key."""

import hashlib

from larderd_side import OK

SIZE = (2 << 20) + 4096


def content(name, size=SIZE):
    word = hashlib.sha256(name.encode()).digest()
    return word * (size // len(word))


def place(larderd, names):
    """The entries of a PUT, with the bytes in the region."""
    entries = []
    for at, name in enumerate(names):
        larderd.region[at * SIZE : (at + 1) * SIZE] = content(name)
        entries.append((name, at * SIZE, SIZE))
    return entries


def read(larderd, names):
    """The results of a GET of all names, after a comparison of the bytes."""
    larderd.region[: len(names) * SIZE] = bytes(len(names) * SIZE)
    answers = larderd.get(*[(name, at * SIZE, SIZE) for at, name in enumerate(names)])
    for at, (name, (size, result)) in enumerate(zip(names, answers, strict=True)):
        if result == OK:
            assert size == SIZE
            assert larderd.region[at * SIZE : (at + 1) * SIZE] == content(name)
    return [result for _, result in answers]
