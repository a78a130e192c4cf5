"""gpu_vllm.py LOCK ARCHIVE [CAPABILITY]: a released vLLM for one kind of GPU as a small archive,
for a machine with PyTorch and without a network.

Unpack ARCHIVE (.tar.xz) into a folder of PYTHONPATH on that machine. In vLLM's libraries, the
machine code of other GPUs is overwritten with zeros, which compress well. Code for CAPABILITY (90)
is kept. A kernel without such code keeps code that also runs on CAPABILITY. FlashAttention 3 keeps
bfloat16 with heads of up to 128. Left out: FlashAttention 2, kernels of untested models, and files
for servers. fatbinary_section.h of CUDA's toolkit has the form of a fat binary."""

from __future__ import annotations

import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

LEFT_OUT = (
    "vllm/vllm-rs",
    "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so",
    "vllm/_qutlass_C.abi3.so",
    "vllm/_flashmla_C.abi3.so",
    "vllm/third_party/deep_gemm",
    "vllm/third_party/fmha_sm100",
    "vllm/third_party/flashmla",
    "vllm/benchmarks",
    "vllm/entrypoints/serve/instrumentator/static",
    "vllm/model_executor/layers/fused_moe/configs",
    "vllm/model_executor/layers/quantization/utils/configs",
    "xgrammar/lib",
    "bin",
)
PLATFORMS = (
    "manylinux_2_31",
    "manylinux_2_28",
    "manylinux_2_27",
    "manylinux_2_26",
    "manylinux_2_24",
    "manylinux_2_17",
    "manylinux2014",
    "manylinux1",
)
MAGIC, PTX, MACHINE_CODE = 0xBA55ED50, 1, 2
FLASH_3 = "_vllm_fa3_C.abi3.so"
ANY_LOOP = re.compile(rb"CollectiveMainloopFwdSm90")
OUR_LOOP = re.compile(
    rb"CollectiveMainloopFwdSm90.{0,120}(ELi64ENS_10bfloat16|NS7_ILi128E[^N]*(?:NS7_ILi\d+E[^N]*)"
    rb"?SA_EEELi128ENS_10bfloat16|SA_SA_EEELi128ENS_10bfloat16)",
    re.S,
)


def section(library: bytearray, wanted: str) -> tuple[int, int] | None:
    """(offset, size) in an ELF file of 64 bits."""
    (table,), (count, names) = (
        struct.unpack_from("<Q", library, 0x28),
        struct.unpack_from("<HH", library, 0x3C),
    )
    headers = [
        struct.unpack_from("<IIQQQQ", library, table + 64 * number) for number in range(count)
    ]
    strings = headers[names][4]
    for header in headers:
        begin = strings + header[0]
        if library[begin : library.index(0, begin)].decode() == wanted:
            return header[4], header[5]
    return None


def images(library: bytearray, at: int) -> list[tuple[int, int, int, int]]:
    """Of the fat binary at this offset: (kind, capability, offset of the code, size of the
    code)."""
    _, _, header, size = struct.unpack_from("<IHHQ", library, at)
    found, one, end = [], at + header, at + header + size
    while one < end:
        kind, _, head, bytes_ = struct.unpack_from("<HHIQ", library, one)
        (capability,) = struct.unpack_from("<I", library, one + 28)
        found.append((kind, capability, one + head, bytes_))
        one += head + bytes_
    return found


def trim(path: pathlib.Path, capability: int) -> None:
    library = bytearray(path.read_bytes())
    fat = section(library, ".nv_fatbin")
    if fat is None:
        return
    at, end = fat[0], sum(fat)
    while at < end:
        if struct.unpack_from("<I", library, at)[0] != MAGIC:
            at += 8
            continue
        found = images(library, at)
        kept = kept_of(library, found, capability, path.name == FLASH_3)
        for _, _, begin, size in (one for one in found if one not in kept):
            library[begin : begin + size] = bytes(size)
        at = found[-1][2] + found[-1][3] if found else at + 8
    path.write_bytes(library)


def kept_of(library: bytearray, found: list, capability: int, flash: bool) -> list:
    runs = [
        (MACHINE_CODE, capability),
        (PTX, capability),
        (MACHINE_CODE, 10 * (capability // 10)),
        (MACHINE_CODE, 80),
        (PTX, 80),
    ]
    kept = next(
        (those for wish in runs if (those := [one for one in found if one[:2] == wish])), []
    )
    if not flash:
        return kept
    return [
        one
        for one in kept
        if not ANY_LOOP.search(library, one[2], one[2] + one[3])
        or OUR_LOOP.search(library, one[2], one[2] + one[3])
    ]


def main(lock: pathlib.Path, archive: pathlib.Path, capability: int = 90) -> None:
    with tempfile.TemporaryDirectory() as folder:
        site = pathlib.Path(folder, "site")
        form = [
            "--only-binary=:all:",
            "--implementation=cp",
            "--python-version=3.12",
            *(f"--platform={name}_x86_64" for name in PLATFORMS),
        ]
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "-q",
                "install",
                "--no-deps",
                "--no-compile",
                *form,
                "--target",
                site,
                "-r",
                lock,
            ],
            check=True,
        )
        for name in LEFT_OUT:
            left = site / name
            shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)
        for library in site.rglob("*.so"):
            trim(library, capability)
            subprocess.run(["strip", "--strip-unneeded", library], check=True)
        archive.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["tar", "--sort=name", "-c", "-I", "xz -9e", "-f", archive.resolve(), "-C", site, "."],
            check=True,
        )
    print(
        f"{archive}, {archive.stat().st_size >> 20} MiB: "
        f"a vLLM for compute capability {capability / 10}"
    )


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:3]), *map(int, sys.argv[3:]))
