"""The command lines in the injector's golden cases, tests/golden/inject; tests/golden/README.md says how the cases are written."""

import yaml


def pod_in(text):
    (pod,) = [one for one in yaml.safe_load_all(text) if one and one["kind"] == "Pod"]
    return pod


def row_containers(row, usual):
    """The containers of a table's row, before the injection."""
    (engine,) = usual["spec"]["containers"]
    if "container" in row:
        engine = {"name": engine["name"], "image": engine["image"]} | row["container"]
    return row.get("pod", {}).get("spec", {}).get("containers", [engine])


def changed(containers, result, usual):
    """The containers after the injection; none where the pod stays as it is. `usual`: the fields that the usual injection changes."""
    if not isinstance(result, dict) or "not injected" in result:
        return []
    listed = result.get("spec", {}).get("containers")
    if listed is None:
        (engine,) = containers
        fields = usual | result.get("container", {})
        return [engine | {name: value for name, value in fields.items() if value is not None}]
    before = {one["name"]: one for one in containers}
    return [before[one.removeprefix("same ")] if isinstance(one, str) else before.get(one.get("same"), {}) | one for one in listed]


def injected(root):
    """(name of the case, container) of every pod that the injector gives a cache. Lists of named elements stay as the cases have them."""
    folder = root / "tests" / "golden" / "inject"
    before, after = (pod_in((folder / f"usual.{kind}.yaml").read_text()) for kind in ("in", "out"))
    usual = {"command": after["spec"]["containers"][0]["command"]}
    for file in sorted(folder.glob("*.yaml")):
        name, *kind = file.stem.rsplit(".", 1)
        content = list(yaml.safe_load_all(file.read_text()))[0]
        if kind == ["out"] and "larder.dev/injected" in content["metadata"].get("annotations", {}):
            yield from ((name, one) for one in content["spec"]["containers"])
        elif kind == ["change"]:
            containers = pod_in((folder / f"{name}.in.yaml").read_text())["spec"]["containers"]
            yield from ((name, one) for one in changed(containers, content, usual))
        elif not kind:
            for row_name, row in content.items():
                yield from ((row_name, one) for one in changed(row_containers(row, before), row["result"], usual))


def commands(root):
    """(name of the case, words of the command and its arguments)."""
    for name, container in injected(root):
        yield name, [*(container.get("command") or []), *(container.get("args") or [])]
