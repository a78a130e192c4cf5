"""The namespace fingerprint: canonical text of everything besides tokens that decides the bytes of a KV page.

"name: value" lines. First the facts: what scheduler and workers each find for themselves, so that a worker checks the scheduler's text by
its own (starts_with_facts). Then the configuration: a digest of all of it, and lines for people, which name what was set. The digest
identifies; the lines may be shortened, so that the text has a bound. Pure."""

import hashlib
import json

LAYOUT = 3  # raised whenever the shim's own serialisation of a chunk changes
MAX_BYTES = 40_000  # of facts and configuration; the protocol has room for 49,152, and a namespace adds a few lines
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
    """The whole text. facts: as facts_text() gives it; fields: {path: value}, all of the configuration; shown: the paths that have a line."""
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
    """Names of the lines in which two texts differ, in their order."""
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
