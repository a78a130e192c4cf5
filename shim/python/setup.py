"""Puts liblarder.so into the wheel and names the systems that can load the library.

The library: $LARDER_LIBRARY, else larder/liblarder.so. In the platform tag, manylinux_2_NN_MACHINE,
glibc 2.NN is the newest version that the library asks for. pip refuses the wheel on systems with an
older glibc, with musl, or with another processor.
"""

import os
import re
import shutil
import subprocess

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

MACHINES = {
    "AArch64": "aarch64",
    "Advanced Micro Devices X86-64": "x86_64",
}  # the names of readelf and of pip


def library_path():
    library = os.environ.get("LARDER_LIBRARY", os.path.join("larder", "liblarder.so"))
    if not os.path.exists(library):
        raise SystemExit(
            f"{library} is missing: build liblarder.so and set LARDER_LIBRARY to its path"
        )
    return library


def read_elf(option, library):
    """The output of readelf. Binutils come with every compiler."""
    command = ["readelf", "--wide", option, library]
    return subprocess.run(
        command, env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True, check=True
    ).stdout


def platform_tag(header, versions):
    """The tag for a library with these `readelf --file-header` and `readelf --version-info`.

    The tag follows PEP 600. The tag also promises that the library needs glibc alone;
    check_loadable.sh refuses other libraries.
    """
    machine = re.search(r"^ *Machine: *(.+?) *$", header, re.M).group(1)
    if machine not in MACHINES:
        raise SystemExit(
            f"the library is for {machine}; wheels are made for {' and '.join(MACHINES)}"
        )
    needed = re.findall(r"Name: GLIBC_2\.(\d+)", versions)
    if not needed:
        raise SystemExit(
            "the library names no version of glibc: is it linked for musl, or statically?"
        )
    return f"manylinux_2_{max(map(int, needed))}_{MACHINES[machine]}"


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        shutil.copyfile(library_path(), os.path.join(self.build_lib, "larder", "liblarder.so"))


class PlatformWheel(bdist_wheel):
    """Any Python 3: the library is reached through ctypes."""

    def get_tag(self):
        library = library_path()
        return (
            "py3",
            "none",
            platform_tag(read_elf("--file-header", library), read_elf("--version-info", library)),
        )


class WithLibrary(Distribution):
    def has_ext_modules(self):
        return True


if __name__ == "__main__":
    setup(
        cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel}, distclass=WithLibrary
    )
