# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The native build: CMake makes the chunk store's binding, the nbdkit plugin, what goes into
guests and the link emulator, each in the `_native` folder of the package that uses it. Metadata is
in pyproject.toml. A wheel has no benches, and of the testbed only the modules of `satchel try`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pybind11
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
TESTBED = "testbed"
TRIAL = {
    "__init__", "air", "bed", "emulator", "links", "loopback", "namespaces", "plain_door", "roles",
    "sshd", "starting", "topology", "trial",
}  # fmt: skip
"""Modules of the testbed that `satchel try` imports."""


class Modules(build_py):
    """The modules that are installed."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        found = super().find_package_modules(package, package_dir)
        return [each for each in found if package != TESTBED or each[1] in TRIAL]


class NativeBuild(build_ext):
    """One CMake run for all parts. The extension below only says that this is no pure package."""

    def run(self) -> None:
        build = ROOT / "build" / "native"
        configure = [
            "cmake", "-S", str(ROOT), "-B", str(build), "-G", "Ninja",
            "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
            # Lines for backtraces, no variables, which are a third of what it takes to compile.
            "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O2 -g1 -DNDEBUG",
            "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -g1 -DNDEBUG",
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
            f"-DSATCHEL_TESTS={os.environ.get('SATCHEL_TESTS', '0')}",
        ]  # fmt: skip
        subprocess.run(configure, check=True)
        jobs = str(os.cpu_count() or 1)
        subprocess.run(["cmake", "--build", str(build), "--parallel", jobs], check=True)
        if not self.inplace:
            self._copy_products()

    def _copy_products(self) -> None:
        """A wheel is made from `build_lib`; an editable install uses them where they are."""
        for package in set(self.distribution.packages) - {TESTBED}:
            source = ROOT / package.replace(".", "/") / "_native"
            if source.is_dir():
                target = Path(self.build_lib) / package.replace(".", "/") / "_native"
                shutil.copytree(source, target, dirs_exist_ok=True)

    def get_outputs(self) -> list[str]:
        return []

    def get_output_mapping(self) -> dict[str, str]:
        return {}


setup(
    ext_modules=[Extension("satchel-native", [])],
    cmdclass={"build_ext": NativeBuild, "build_py": Modules},
)
