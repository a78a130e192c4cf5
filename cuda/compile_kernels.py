#!/usr/bin/env python3
"""compile_kernels.py NVRTC SOURCE INCLUDE TARGET OUT: compiles a .cu file for one TARGET, to
machine code for sm_N or to PTX for compute_N.

The compiler is a library of CUDA 12 (libnvrtc.so.12). No package index has the compiler program of
that version, and drivers before 580 refuse machine code of CUDA 13. A warning counts as an error.
NVRTC knows no system header, so STDINT stands in for the one header that the kernels include."""

import ctypes
import pathlib
import sys

STDINT = b"""
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
"""


def texts(*items: bytes):
    return (ctypes.c_char_p * len(items))(*items)


def output(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    out = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, out)
    return out.raw


def main(compiler: str, source: str, include: str, target: str, out: str) -> None:
    library, program = ctypes.CDLL(compiler), ctypes.c_void_p()
    name = pathlib.Path(source)
    # -default-device: functions without annotation, such as HostWarp's, count as device code.
    # Without a caller such a function is not compiled.
    options = texts(
        b"-std=c++20", b"-default-device", b"-I" + include.encode(), b"-arch=" + target.encode()
    )
    if library.nvrtcCreateProgram(
        ctypes.byref(program),
        name.read_bytes(),
        name.name.encode(),
        1,
        texts(STDINT),
        texts(b"stdint.h"),
    ):
        sys.exit(f"{compiler}: nvrtcCreateProgram failed")
    failed = library.nvrtcCompileProgram(program, len(options), options)
    log = output(library, program, "ProgramLog").rstrip(b"\0").decode().strip()
    if failed or log:
        sys.exit(f"{source}, {target}: {log or failed}")
    pathlib.Path(out).write_bytes(
        output(library, program, "CUBIN" if target.startswith("sm_") else "PTX")
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
