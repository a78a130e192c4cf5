"""The ctypes mirror against the header itself: the C compiler says sizes, offsets and numbers."""

import ctypes
import re
import subprocess

import pytest

from larder import _native as native

STRUCTS = {
    "larder_options": native.Options,
    "larder_group": native.Group,
    "larder_namespace": native.Namespace,
    "larder_pages": native.Pages,
    "larder_state": native.State,
    "larder_hashes": native.Hashes,
    "larder_transfer": native.Transfer,
    "larder_completion": native.Completion,
    "larder_store_result": native.StoreResult,
    "larder_store_completion": native.StoreCompletion,
    "larder_act_result": native.ActResult,
    "larder_lower_tiers": native.LowerTiers,
    "larder_fetch_result": native.FetchResult,
    "larder_probe_result": native.ProbeResult,
    "larder_file_hash": native.FileHash,
}
STATUSES = (
    "OK INVALID_ARGUMENT NOT_FOUND ALREADY_EXISTS OUT_OF_RANGE RESOURCE_EXHAUSTED UNAVAILABLE "
    "DEADLINE_EXCEEDED FAILED_PRECONDITION DATA_LOSS UNSUPPORTED PERMISSION_DENIED INTERNAL"
).split()

REASONS = "DONE ABSENT LATE NO_ROOM FAILED BOUND".split()
PROBE_REASONS = "DONE LATE FAILED BOUND".split()


@pytest.fixture(scope="module")
def compiled(root, tmp_path_factory):
    """The output of a C program that includes larder.h, as {name: number}."""
    lines = [f'printf("{c} %zu\\n", sizeof({c}));' for c in STRUCTS]
    for c, python in STRUCTS.items():
        lines += [f'printf("{c}.{f[0]} %zu\\n", offsetof({c}, {f[0]}));' for f in python._fields_]
    lines += [f'printf("{s} %zu\\n", (size_t)LARDER_{s});' for s in STATUSES]
    lines += [f'printf("FETCH_{r} %zu\\n", (size_t)LARDER_FETCH_{r});' for r in REASONS]
    lines += [f'printf("PROBE_{r} %zu\\n", (size_t)LARDER_PROBE_{r});' for r in PROBE_REASONS]
    lines.append('printf("NO_PAGE %zu\\n", (size_t)LARDER_NO_PAGE);')
    folder = tmp_path_factory.mktemp("header")
    source = folder / "sizes.c"
    source.write_text(
        '#include <stdio.h>\n#include "shim/capi/larder.h"\nint main(void) {'
        + "\n".join(lines)
        + "return 0;}\n"
    )
    subprocess.run(["cc", "-I", root, "-o", folder / "sizes", source], check=True)
    output = subprocess.run([folder / "sizes"], check=True, capture_output=True, text=True).stdout
    return {name: int(number) for name, number in (line.split() for line in output.splitlines())}


@pytest.mark.parametrize("name", STRUCTS)
def test_struct_is_laid_out_as_in_the_header(compiled, name):
    python = STRUCTS[name]
    assert ctypes.sizeof(python) == compiled[name]
    for field, *_ in python._fields_:
        assert getattr(python, field).offset == compiled[f"{name}.{field}"], field


def test_numbers_are_the_headers(compiled):
    for status in STATUSES:
        assert getattr(native, status) == compiled[status], status
    assert native.NO_PAGE == compiled["NO_PAGE"]
    assert [compiled[f"FETCH_{reason}"] for reason in REASONS] == list(
        range(len(native.FETCH_REASONS) - 1)
    )
    assert [compiled[f"PROBE_{reason}"] for reason in PROBE_REASONS] == list(
        range(len(native.PROBE_REASONS) - 1)
    )
    assert native.PROBE_LATE == compiled["PROBE_LATE"]
    assert (native.FETCH_LATE, native.FETCH_FAILED) == (
        compiled["FETCH_LATE"],
        compiled["FETCH_FAILED"],
    )


def test_every_function_of_the_header_has_a_prototype(root):
    header = (root / "shim/capi/larder.h").read_text()
    declared = {}
    for name, arguments in re.findall(r"LARDER_API [^;]*?(larder_\w+)\(([^)]*)\);", header):
        declared[name] = 0 if arguments.strip() == "void" else arguments.count(",") + 1
    assert declared == {name: len(arguments) for name, (_, arguments) in native.PROTOTYPES.items()}


def test_sized_structs_tell_their_size():
    for python in STRUCTS.values():
        if python.__base__ is not native._Sized:
            continue
        assert python().struct_bytes == ctypes.sizeof(python)
