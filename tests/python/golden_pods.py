"""The pods of the injector's golden cases, tests/golden/inject, before and after the injection;
tests/golden/README.md describes the form of the cases. This module reads the short forms back: the
opposite of tests/unit/operator/webhook/inject/injection_change.cc."""

from functools import partial

import yaml


def pod_in(text):
    (pod,) = [one for one in yaml.safe_load_all(text) if one and one["kind"] == "Pod"]
    return pod


def merged(base, patch):
    """JSON merge patch, RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    base = base if isinstance(base, dict) else {}
    kept = {name: value for name, value in base.items() if name not in patch}
    return kept | {
        name: merged(base.get(name), value) for name, value in patch.items() if value is not None
    }


def row_pod(row, usual):
    """The pod of a table's row."""
    (engine,) = usual["spec"]["containers"]
    if "container" in row:
        engine = merged({"name": engine["name"], "image": engine["image"]}, row["container"])
    return merged(usual | {"spec": usual["spec"] | {"containers": [engine]}}, row.get("pod", {}))


def added(before, after):
    """The fields of `after` that are others than in `before`."""
    inner = {
        name: added(before.get(name, {}), value) if isinstance(value, dict) else value
        for name, value in after.items()
    }
    return {name: value for name, value in inner.items() if before.get(name) != after[name]}


def with_usual(result, usual):
    """The changes of a result together with the changes of the usual injection that the result
    leaves out."""
    both = dict(result)
    for name, value in usual.items():
        if name not in both:
            both[name] = value
        elif both[name] is None:
            del both[name]
        elif isinstance(value, dict) and isinstance(both[name], dict):
            both[name] = with_usual(both[name], value)
    return both


def element(entry, old, name, ours):
    """An element of the list `name` of named elements: `same NAME`, `{usual: NAME, ...}`, or the
    element itself."""
    if isinstance(entry, str):
        word, _, of = entry.partition(" ")
        entry = {word: of}
    if "same" in entry:
        base, of, inner = old, entry["same"], ours
    elif "usual" in entry:
        base, of, inner = ours(name), entry["usual"], lambda _: []
    else:
        return entry
    (found,) = [one for one in base if one["name"] == of]
    return changed(
        found,
        {field: value for field, value in entry.items() if field not in ("same", "usual")},
        inner,
    )


def changed(before, changes, ours):
    """An object with the changes of a result. `ours`: name of a list -> the elements that the usual
    pod gets in that list."""
    after = dict(before)
    for name, value in changes.items():
        old = before.get(name)
        if value == "gone":
            del after[name]
        elif isinstance(value, dict):
            after[name] = changed(old or {}, value, ours)
        elif isinstance(value, list) and all(
            isinstance(one, dict) or str(one).startswith(("same ", "usual ")) for one in value
        ):
            after[name] = [element(one, old or [], name, ours) for one in value]
        else:
            after[name] = value
    return after


def usual_elements(usual, name):
    spec = usual["spec"]
    if name in ("containers", "initContainers"):
        return spec["initContainers"]
    return spec[name] if name == "volumes" else spec["containers"][0].get(name, [])


def after_result(before, result, usual):
    """The pod after the injection; None if the pod stays unchanged. `usual`: the usual pod, before
    and after."""
    if not isinstance(result, dict) or "not injected" in result:
        return None
    expected = added(*usual)
    (first,), (last,) = (one["spec"]["containers"] for one in usual)
    del expected["spec"]["containers"]
    if "containers" not in result.get("spec", {}):
        expected["container"] = added(first, last)
    changes = with_usual(result, expected)
    engine = changes.pop("container", None)
    after = changed(before, changes, partial(usual_elements, usual[1]))
    if engine is not None:
        (container,) = before["spec"]["containers"]
        after["spec"] = after["spec"] | {
            "containers": [changed(container, engine, partial(usual_elements, usual[1]))]
        }
    return after


def cases(root):
    """(name of the case, its pod, the pod after the injection or None)."""
    folder = root / "tests" / "golden" / "inject"
    usual = [pod_in((folder / f"usual.{kind}.yaml").read_text()) for kind in ("in", "out")]
    for file in sorted(folder.glob("*.yaml")):
        name, *kind = (
            file.stem.rsplit(".", 1)
            if file.stem.endswith((".in", ".out", ".change"))
            else [file.stem]
        )
        content = list(yaml.safe_load_all(file.read_text()))[0]
        if not kind:
            for row_name, row in content.items():
                before = row_pod(row, usual[0])
                yield row_name, before, after_result(before, row["result"], usual)
        elif kind != ["in"]:
            before = pod_in((folder / f"{name}.in.yaml").read_text())
            got = "larder.dev/injected" in content.get("metadata", {}).get("annotations", {})
            yield (
                name,
                before,
                after_result(before, content, usual)
                if kind == ["change"]
                else content
                if got
                else None,
            )


def injected(root):
    """(name of the case, pod before, pod after) of every pod that the injector gives a cache."""
    return [case for case in cases(root) if case[2] is not None]


def commands(root):
    """(name of the case, words of the command and its arguments) of every container of such a
    pod."""
    for name, _, pod in injected(root):
        for container in pod["spec"]["containers"]:
            yield name, [*(container.get("command") or []), *(container.get("args") or [])]
