"""Puts liblarder.so into the wheel and names the platform it was built for. The library: $LARDER_LIBRARY, else
larder/liblarder.so."""

import os
import shutil

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        beside = os.path.join("larder", "liblarder.so")
        library = os.environ.get("LARDER_LIBRARY", beside)
        if not os.path.exists(library):
            raise SystemExit(f"{library} is missing: build liblarder.so and name it in LARDER_LIBRARY")
        shutil.copyfile(library, os.path.join(self.build_lib, beside))


class PlatformWheel(bdist_wheel):
    """Any Python 3, this platform only: the library is reached through ctypes."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class WithLibrary(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel}, distclass=WithLibrary)
