"""The canonical form of a value of a configuration: a JSON value for names.

Unlike values have unlike forms, and one value has one form in every process. No form has a memory
address, or the order of a set. A form with a mark ("<tuple>", "<bytes>") is a dictionary with that
one key. A real dictionary with such a key has the form "<dict>". Python's == takes 1, 1.0 and True
for one value: compare text() instead.

Objects count by class and state, as pickle takes the state. Functions and classes count by their
names and the content of their package (package_files). Unnameable for all others. Pure, but for the
files of packages."""

import copyreg
import enum
import functools
import hashlib
import inspect
import math
import struct
import sys
import types

from larder import fingerprint, package_files

MAX_DEPTH = 24
_MOST_HEX = 64  # bytes; longer ones are a digest
# Releases of these decide results by name and version; vLLM's own version has a line of its own.
_BY_VERSION = ("numpy", "torch", "transformers")
_OWN = ("larder", "vllm")
_NO_VALUE = (None, None, None)


class Unnameable(Exception):
    """The value has no form; the text gives the reason."""


def text(value):
    """The form as one line of JSON."""
    return fingerprint.one_line(form(value))


def form(value):
    """The form of the value. Unnameable."""
    return _form(value, ())


def class_of(part):
    """The name of the class of a part of a configuration, with a digest of the code outside of
    vLLM. Never raises: the members of a part are named one by one."""
    kind = type(part)
    module, digest = kind.__module__, ""
    if module.startswith("transformers_modules."):
        # Remote code of the model, under a module named like the folder. The line `weights` has
        # the code.
        module = module.rpartition(".")[2]
    elif module.partition(".")[0] not in _BY_VERSION:
        try:
            digest = _of_package(module)
        except Unnameable:
            pass
    return f"{_module_name(module)}.{kind.__qualname__}{_said(digest)}"


def _form(value, above):
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        known = math.isfinite(value) and (value or not math.copysign(1, value) < 0)
        return value if known else {"<float>": struct.pack(">d", value).hex()}
    if kind is bytes:
        short = len(value) <= _MOST_HEX
        return {"<bytes>": value.hex() if short else [len(value), _sha256(value)]}
    if len(above) > MAX_DEPTH:
        raise Unnameable("the value is nested too deep")
    if id(value) in above:
        raise Unnameable("the value contains itself")
    above = (*above, id(value))
    if kind is list:
        return [_form(one, above) for one in value]
    if kind is tuple:
        return {"<tuple>": [_form(one, above) for one in value]}
    if kind is dict:
        return _dictionary(value, above)
    if isinstance(value, (set, frozenset)):
        return _set(value, above)
    if isinstance(value, enum.Enum):
        return _member(value, above)
    if isinstance(value, (type, types.FunctionType)) or _is_builtin(value):
        return _code(value, above)
    if isinstance(value, types.ModuleType):
        return {"<module>": value.__name__ + _said(_of_package(value.__name__))}
    return _of_torch(value) or _object(value, above)


def _dictionary(value, above):
    if all(type(key) is str and not key.startswith("<") for key in value):
        return {key: _form(value[key], above) for key in sorted(value)}
    pairs = [[_form(key, above), _form(one, above)] for key, one in value.items()]
    return {"<dict>": sorted(pairs, key=fingerprint.one_line)}


def _set(value, above):
    found = sorted((_form(one, above) for one in value), key=fingerprint.one_line)
    kind = type(value)
    if kind in (set, frozenset):
        return {f"<{kind.__name__}>": found}
    return {"<object>": [_code(kind, above), found, _form(getattr(value, "__dict__", {}), above)]}


def _member(value, above):
    """A member of an enumeration. Its value counts where the name does not tell the value: several
    flags, and classes that were made inside a function."""
    kind = type(value)
    named = f"{_name(kind)}.{value.name}"
    if isinstance(value, enum.Flag) or _found(kind.__module__, kind.__qualname__) is not kind:
        return {"<enum>": [named, _form(value.value, above)]}
    return {"<enum>": named}


def _object(value, above):
    """By class and state."""
    try:
        reduced = (copyreg.dispatch_table.get(type(value)) or _reduce)(value)
    except Exception as error:  # of the value's class, or pickle's TypeError
        raise Unnameable(f"{_shown(type(value))} does not tell its state ({error})") from None
    if isinstance(reduced, str):  # a constant of its module
        module = getattr(value, "__module__", None) or type(value).__module__
        if _found(module, reduced) is not value:
            raise Unnameable(f"{_shown(type(value))} is no constant of {module}")
        return {"<constant>": f"{module}.{reduced}{_said(_of_package(module))}"}
    make, arguments, state, items, pairs = (*reduced, *_NO_VALUE)[:5]
    if type(state) is dict:
        # The other members decide a cached property. Only a process that has asked has its memory.
        state = {name: one for name, one in state.items() if not is_memory(type(value), name)}
    if make is copyreg.__newobj__:
        make, arguments = arguments[0], arguments[1:]
    parts = [_form(make, above), _form(list(arguments), above), _form(state, above)]
    parts.append(_form(list(items or ()), above))
    pairs = list(pairs or ())
    if type(value).__name__ != "OrderedDict":  # whose order counts
        parts.append(
            sorted(([_form(a, above), _form(b, above)] for a, b in pairs), key=fingerprint.one_line)
        )
    else:
        parts.append(_form([list(pair) for pair in pairs], above))
    return {"<object>": parts}


def is_memory(kind, name):
    """Whether the attribute of an object of that class is the memory of a cached property."""
    found = inspect.getattr_static(kind, name, None) if type(name) is str else None
    return isinstance(found, functools.cached_property)


def _reduce(value):
    return value.__reduce_ex__(4)


def _of_torch(value):
    """Values whose pickle has no plain state; None for all others."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return {f"<torch.{type(value).__name__}>": str(value)}
    if not isinstance(value, torch.Tensor):
        return None
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided:
        raise Unnameable(f"{_shown(type(value))} is not a plain tensor")
    try:
        plain = value.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        content = _sha256(plain.view(torch.uint8).numpy())
    except (RuntimeError, TypeError, NotImplementedError) as error:
        raise Unnameable(f"a tensor of {value.dtype} has no plain bytes ({error})") from None
    about = [type(value).__name__, str(value.dtype), list(value.shape), value.device.type]
    return {"<tensor>": [*about, value.requires_grad, content]}


def _code(value, above):
    """A class or a function. One that its module does not have under its name is a lambda, or was
    made inside a function."""
    if _found(value.__module__, value.__qualname__) is value:
        return {"<code>": _name(value)}
    if not isinstance(value, types.FunctionType):
        raise Unnameable(f"{_shown(value)} is not found under its name in its module")
    cells = [_cell(one, above) for one in value.__closure__ or ()]
    about = [_name(value), _bytecode(value.__code__, above), cells]
    given = [value.__defaults__, value.__kwdefaults__, value.__dict__]
    return {"<function>": about + [_form(one, above) for one in given]}


def _is_builtin(value):
    """A function of a module in C. A method of an object is an object of its own."""
    return isinstance(value, types.BuiltinFunctionType) and (
        value.__self__ is None or isinstance(value.__self__, types.ModuleType)
    )


def _cell(cell, above):
    try:
        return [_form(cell.cell_contents, above)]
    except ValueError:  # nothing is in the cell yet
        return []


def _bytecode(code, above):
    """Without the names of files and the numbers of lines."""
    constants = [
        _bytecode(one, above) if isinstance(one, types.CodeType) else _form(one, above)
        for one in code.co_consts
    ]
    counts = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
    names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]
    table = getattr(code, "co_exceptiontable", b"").hex()
    return fingerprint.digest([code.co_code.hex(), table, counts, names, constants])


def _name(code):
    return (
        f"{_module_name(code.__module__)}.{code.__qualname__}{_said(_of_package(code.__module__))}"
    )


def _module_name(module):
    # A process that Python spawned has the program's module under another name.
    return "__main__" if module == "__mp_main__" else module


def _of_package(module):
    """The digest or the version of the code outside of vLLM and of Python itself; else ""."""
    top = str(module).partition(".")[0]
    if top in _OWN or top in sys.stdlib_module_names:
        return ""
    if top in _BY_VERSION:
        return str(getattr(sys.modules.get(top), "__version__", ""))
    try:
        found = package_files.digest_of(module)
    except OSError as error:
        raise Unnameable(f"the code of {module} cannot be read: {error}") from None
    if found is None:
        raise Unnameable(f"the source of the module {module} is in no file")
    return found.digest


def _said(digest):
    return digest and f" ({digest})"


def _found(module, name):
    """The object with that name in the module, or None."""
    found = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _shown(kind):
    return f"{kind.__module__}.{kind.__qualname__}"


def _sha256(content):
    return hashlib.sha256(content).hexdigest()[:32]
