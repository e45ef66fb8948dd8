#!/usr/bin/env python3
"""Tests tools/find_torch.py on fake installations."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "tools/find_torch.py")


class FindTorch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = os.path.realpath(folder.name)
        for path in ("lib/libtorch.so", "lib/libtorch_cpu.so", "lib/libc10.so", "include/ATen/core/Tensor.h"):
            self.write(path, "")
        self.write("share/cmake/Torch/TorchConfig.cmake", "")
        self.write_version(2, 7)

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def write_version(self, major, minor):
        text = f"#define TORCH_VERSION_MAJOR {major}\n#define TORCH_VERSION_MINOR {minor}\n"
        self.write("include/torch/csrc/api/include/torch/version.h", text)

    def find(self, path=""):
        done = subprocess.run(
            [sys.executable, SCRIPT, os.path.join(self.root, path)], capture_output=True, text=True, check=False
        )
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.stdout.count("\n"), 1, done.stdout)
        return done.returncode, done.stdout.strip()

    def test_a_cpu_installation_is_named_with_its_version(self):
        self.assertEqual(self.find(), (0, f"{self.root}\t2.7\tcpu"))

    def test_a_cmake_prefix_and_a_torch_dir_lead_to_the_root(self):
        for path in ("share/cmake", "share/cmake/Torch"):
            self.assertEqual(self.find(path), (0, f"{self.root}\t2.7\tcpu"))

    def test_a_cuda_library_makes_it_a_cuda_installation(self):
        self.write("lib/libtorch_cuda.so", "")
        self.assertEqual(self.find(), (0, f"{self.root}\t2.7\tcuda"))

    def test_an_old_version_is_refused_with_both_versions(self):
        self.write_version(2, 3)
        code, text = self.find()
        self.assertEqual(code, 1)
        self.assertIn("is 2.3; troupe needs 2.4 or newer", text)

    def test_the_old_abi_is_refused(self):
        self.write("share/cmake/Torch/TorchConfig.cmake", 'set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=0")')
        code, text = self.find()
        self.assertEqual(code, 1)
        self.assertIn("old C++ ABI", text)

    def test_an_incomplete_installation_is_refused_naming_what_is_missing(self):
        os.remove(os.path.join(self.root, "lib/libtorch_cpu.so"))
        code, text = self.find()
        self.assertEqual(code, 1)
        self.assertIn("lacks lib/libtorch_cpu.so", text)

    def test_a_folder_without_libtorch_is_refused(self):
        os.remove(os.path.join(self.root, "lib/libtorch.so"))
        self.assertEqual(self.find(), (1, f"no LibTorch at {self.root}/"))

    def test_an_existing_build_folder_follows_another_request_and_keeps_what_it_has_without_one(self):
        project, build = os.path.join(self.root, "a project"), os.path.join(self.root, "build")
        self.write("a project/CMakeLists.txt", f"""cmake_minimum_required(VERSION 3.25)
project(test LANGUAGES NONE)
set(CMAKE_SOURCE_DIR {ROOT})
include({ROOT}/cmake/torch.cmake)
""")
        other = os.path.join(self.root, "another torch")
        for name in ("lib", "include", "share"):
            shutil.copytree(os.path.join(self.root, name), os.path.join(other, name))

        def configured(*words):
            environment = {name: value for name, value in os.environ.items() if name not in ("Torch_DIR", "CMAKE_PREFIX_PATH")}
            command = ["cmake", "-S", project, "-B", build, *words]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            return re.search(r"LibTorch 2.7 \(cpu\) in (.*)", done.stdout)[1]

        self.assertEqual(configured(f"-DTorch_DIR={self.root}/share/cmake/Torch"), self.root)
        self.assertEqual(configured(f"-DTorch_DIR={other}/share/cmake/Torch"), other)
        self.assertEqual(configured("-UTorch_DIR"), other)
        self.assertEqual(configured(f"-DCMAKE_PREFIX_PATH={self.root}"), self.root)


if __name__ == "__main__":
    unittest.main()
