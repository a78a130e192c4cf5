"""The namespace fingerprint: a canonical text of everything besides tokens that decides the bytes
of a KV page.

The text has lines of the form "name: value". The facts come first: scheduler and workers each find
the facts themselves, and a worker compares the start of the scheduler's text with its own. Then
come a digest of the whole configuration, and lines for people, which name the fields that were set.
The digest identifies. The lines may be shortened, so that the text has a bound. Pure."""

import hashlib
import json

LAYOUT = 3  # raised whenever the shim's own serialisation of a chunk changes
# Of facts and configuration. The protocol has room for 49,152, and a namespace adds a few lines.
MAX_BYTES = 40_000
_MAX_VALUE = 400  # characters of a line for people


def facts_text(facts):
    """The first part of the text, of {name: value}. A list has a line for each entry."""
    lines = []
    for name, value in facts.items():
        if isinstance(value, (list, tuple)):
            lines += [f"{name}.{index}: {_flat(item)}" for index, item in enumerate(value)]
        else:
            lines.append(f"{name}: {_flat(value)}")
    return "\n".join(lines) + "\n"


def text(facts, fields, shown):
    """The whole text. facts: of facts_text(). fields: {path: value}, the whole configuration.
    shown: the paths that have a line."""
    lines = [f"configuration: {digest(fields)}"]
    room = MAX_BYTES - len(facts.encode()) - 100
    paths = sorted(path for path in shown if path in fields)
    for number, path in enumerate(paths):
        line = f"{_short(_flat(path))}: {_short(_flat(fields[path]))}"
        room -= len(line.encode()) + 1
        if room < 0:
            lines.append(f"further_fields: {len(paths) - number} {digest([[one, fields[one]] for one in paths[number:]])}")
            break
        lines.append(line)
    return facts + "\n".join(lines) + "\n"


def differing_fields(one, other):
    """The names of the lines in which two texts differ, in the order of the lines."""
    left, right = (dict(line.split(": ", 1) for line in t.splitlines()) for t in (one, other))
    return [name for name in {**left, **right} if left.get(name) != right.get(name)]


def digest(value):
    return hashlib.sha256(_json(value).encode()).hexdigest()[:32]


def _short(value):
    return value if len(value) <= _MAX_VALUE else f"{value[:_MAX_VALUE]}... ({len(value)} characters, {digest(value)})"


def _json(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _flat(value):
    shown = value if isinstance(value, str) else _json(value)
    return " ".join(shown.split())
