"""The tables of the Python package: each attribute or module variable that begins as an empty
dictionary, set, list or deque and is filled later."""

import ast

KINDS = {
    "dict", "set", "list", "deque", "OrderedDict", "defaultdict", "Counter", "Queue",
    "SimpleQueue", "WeakKeyDictionary", "WeakValueDictionary", "WeakSet",
}  # fmt: skip


def tables_of(root):
    """{(file below larder, name)}. root: the folder of the package."""
    found = set()
    for path in sorted(root.rglob("*.py")):
        file = str(path.relative_to(root))
        found |= {(file, name) for name in names_in(ast.parse(path.read_text()), False)}
    return found


def names_in(node, in_function):
    """Names of tables in the part of a module. A variable of a function is no table."""
    for part in ast.iter_child_nodes(node):
        if isinstance(part, (ast.Assign, ast.AnnAssign)) and part.value is not None:
            for target in part.targets if isinstance(part, ast.Assign) else [part.target]:
                for one, value in pairs_of(target, part.value):
                    if is_empty_table(value) and (name := name_of(one, in_function)):
                        yield name
        is_function = isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        yield from names_in(part, in_function or is_function)


def pairs_of(target, value):
    """(target, value) of `a, b = {}, []` one by one."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return zip(target.elts, value.elts)
    return [(target, value)]


def name_of(target, in_function):
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) and not in_function else None


def is_empty_table(value):
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, (ast.List, ast.Set)):
        return not value.elts
    if not isinstance(value, ast.Call):
        return False
    called = called_name(value.func)
    if called == "field":
        return any(
            one.arg == "default_factory" and called_name(one.value) in KINDS
            for one in value.keywords
        )
    return called in KINDS and not (value.args and called != "deque")


def called_name(node):
    return getattr(node, "id", None) or getattr(node, "attr", None)
