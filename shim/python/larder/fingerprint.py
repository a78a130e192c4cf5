"""The namespace fingerprint: a canonical text of everything besides tokens that decides the bytes
of a KV page.

The text has lines of the form "name: value". The facts come first: scheduler and workers each find
the facts themselves, and a worker compares the start of the scheduler's text with its own. Then
come a digest of the whole configuration, and lines for people with the names of the set fields.

The digest identifies, and the text has a bound. Long values share the remaining room. A value
without room shows the begins of its parts, with a digest of the rest of each part. The first
difference of two such values is in a begin, or is a digest with its place. Thousands of fields of
one part are one line. Pure."""

import hashlib
import json

LAYOUT = 3  # raised whenever the shim's own serialisation of a chunk changes
# Of facts and configuration. The protocol has room for 49,152, and a namespace adds a few lines.
MAX_BYTES = 40_000
_MAX_NAME = 200  # characters
_MAX_VALUE = 400  # a longer value ends with its length and its digest
# Room of a value, in characters. Powers of two: values of about one length are cut at one place.
_MOST_ROOM, _LEAST_ROOM = 65_536, 512
_BEGIN, _PART = 96, 128  # characters of a part's begin; of the begin with the digest
_MOST_LOG = 500  # characters of a line of the engine's log
_FOLDED = "folded_fields: true"


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
    room = MAX_BYTES - len(facts.encode()) - 200
    lines = _lines({path: fields[path] for path in sorted(shown) if path in fields}, room)
    return facts + "\n".join([f"configuration: {digest(fields)}", *lines]) + "\n"


def for_log(text):
    """The text with long lines cut. larderd's status has the whole text."""
    return "\n".join(
        line if len(line) <= _MOST_LOG else f"{line[:_MOST_LOG]}..." for line in text.splitlines()
    )


def differing_fields(one, other):
    """The names of the lines in which two texts differ, in the order of the lines."""
    left, right = (dict(line.split(": ", 1) for line in t.splitlines()) for t in (one, other))
    return [name for name in {**left, **right} if left.get(name) != right.get(name)]


def digest(value):
    return hashlib.sha256(one_line(value).encode()).hexdigest()[:32]


def _lines(values, room):
    """Lines of {path: value} that have `room` bytes at most: whole values, else begins, else fields
    of one part in one line."""
    found = _within(values, room)
    depth = max((path.count(".") for path in values), default=0)
    while found is None and depth > 0:
        values = _folded(values, depth)
        found = _within(values, room, _FOLDED)
        depth -= 1
    if found is not None:
        return found
    return [f"further_fields: {len(values)} {digest(list(values.items()))}"]


def _within(values, room, *more):
    flat = [(_name(_flat(path)), _flat(value)) for path, value in values.items()]
    level = _MOST_ROOM
    while level >= _LEAST_ROOM:
        lines, left = list(more), room - sum(len(line) + 1 for line in more)
        for name, value in flat:
            lines.append(f"{name}: {_cut(value, level)}")
            left -= len(lines[-1].encode()) + 1
            if left < 0:
                break
        else:
            return lines
        level //= 2
    return None


def _folded(values, depth):
    """{path: value}. Paths of more than `depth` names are one path of `depth` names."""
    parts = {}
    for path, value in values.items():
        names = path.split(".", depth)
        parts.setdefault(".".join(names[:depth]), {})[".".join(names[depth:])] = value
    return {path: part[""] if [*part] == [""] else part for path, part in parts.items()}


def _cut(value, level):
    if len(value) <= _MAX_VALUE:
        return value
    end = f" ({len(value)} characters, {digest(value)})"
    if len(value) <= level:
        return value + end
    size = 1
    while size * level < len(value) * _PART:
        size *= 2
    return "".join(_part(value, start, start + size) for start in range(0, len(value), size)) + end


def _part(value, start, end):
    rest = value[start + _BEGIN : end]
    mark = f"[{start + _BEGIN}-{min(end, len(value))} {digest(rest)[:8]}]"
    return value[start : start + _BEGIN] + (mark if len(rest) > len(mark) else rest)


def _name(path):
    return (
        path
        if len(path) <= _MAX_NAME
        else f"{path[:_MAX_NAME]}... ({len(path)} characters, {digest(path)})"
    )


def one_line(value):
    """The value as JSON, equal values as equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _flat(value):
    shown = value if isinstance(value, str) else one_line(value)
    return " ".join(shown.split()).encode(errors="backslashreplace").decode()
