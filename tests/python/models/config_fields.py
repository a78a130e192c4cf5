"""The fields of a released vLLM's configuration, read from vLLM's source without running the
source. Paths are as in larder.vllm.engine_config, and the environment variables that
compile_factors() counts.

`python tests/python/models/config_fields.py vllm==0.24.0` records a release in
tests/python/unit/config_fields/."""

import ast
import json
import sys
from pathlib import Path

RECORDS = Path(__file__).parents[1] / "unit" / "config_fields"


def is_source(name):
    return name == "vllm/envs.py" or name.startswith("vllm/config/") and name.endswith(".py")


def fields_of(sources):
    """Paths of all fields. sources: {name: text} of the files is_source() takes."""
    classes = {}
    for name, text in sources.items():
        if name.startswith("vllm/config/"):
            classes.update(
                {
                    node.name: node
                    for node in ast.walk(ast.parse(text))
                    if isinstance(node, ast.ClassDef)
                }
            )
    parts = {
        name: _own_fields(node, classes) for name, node in classes.items() if _is_dataclass(node)
    }
    return sorted(_leaves("VllmConfig", parts))


def variables_of(sources):
    """Names of vLLM's variables, less those that compile_factors() leaves out."""
    tree = ast.parse(sources["vllm/envs.py"])
    known = next(node.value for node in ast.walk(tree) if _assigns(node, "environment_variables"))
    ignored = next(
        (node.value for node in ast.walk(tree) if _assigns(node, "ignored_factors")), None
    )
    left_out = (
        {one.value for one in ast.walk(ignored) if isinstance(one, ast.Constant)}
        if ignored
        else set()
    )
    return sorted({key.value for key in known.keys} - left_out)


def _assigns(node, name):
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _is_dataclass(node):
    names = {
        getattr(one, "id", getattr(one, "attr", None))
        for decorator in node.decorator_list
        for one in ast.walk(decorator)
    }
    return bool(names & {"config", "dataclass"})


def _own_fields(node, classes):
    """{field: the names in the field's type}, with the fields of the bases."""
    found = {}
    for base in node.bases:
        if getattr(base, "id", None) in classes:
            found.update(_own_fields(classes[base.id], classes))
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            names = _names_in(line.annotation)
            if not names & {"ClassVar", "InitVar"}:
                found[line.target.id] = names
    return found


def _names_in(annotation):
    names = set()
    for node in ast.walk(annotation):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.isidentifier()
        ):
            names.add(node.value)
        names.add(getattr(node, "id", getattr(node, "attr", None)))
    return names


def _leaves(kind, parts, path="", seen=()):
    for field, names in parts[kind].items():
        at = f"{path}.{field}" if path else field
        inner = [name for name in names if name in parts and name not in seen]
        for name in inner:
            yield from _leaves(name, parts, at, (*seen, kind))
        if not inner:
            yield at


def records():
    """{release: record}"""
    return {file.stem: json.loads(file.read_text()) for file in sorted(RECORDS.glob("*.json"))}


def record_of(requirement):
    import released

    version, url = released.wheel_url(requirement)
    sources = released.read_matching(url, is_source)
    return {"vllm": version, "fields": fields_of(sources), "variables": variables_of(sources)}


def main():
    record = record_of(sys.argv[1])
    (RECORDS / f"{record['vllm']}.json").write_text(json.dumps(record, indent=0) + "\n")


if __name__ == "__main__":
    main()
