#!/usr/bin/env python3
"""Plants a fault of each kind in a small tree and looks whether the step of tools/check that has to find it does."""

import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from source_tree import CHECKS, ROOT, VENV, SourceTree

GOOD = {
    "runtime/first.h": "#pragma once\n\nint first();\n",
    "runtime/first.cpp": '#include "runtime/first.h"\n\n#include <vector>\n\nint first() { return std::vector<int>{1}.front(); }\n',
    "runtime/second.h": "#pragma once\n\nint second();\n",
    "runtime/second.cpp": '#include "runtime/second.h"\n\nint second() { return 2; }\n',
}
WITHOUT_VECTOR = '#include "runtime/second.h"\n\nint second() { return std::vector<int>{2}.front(); }\n'
WITHOUT_STRING = "#pragma once\n\nstd::string third();\n"


class Check(unittest.TestCase):
    def setUp(self):
        self.tree = SourceTree()
        self.addCleanup(self.tree.remove)
        self.tree.copy(*(f"tools/{name}" for name in CHECKS), ".clang-format", ".clang-tidy")
        self.tree.write("tools/setup", "#!/bin/sh\n", executable=True)
        # The configuration is in compile_commands.json already.
        self.tree.write("stubs/cmake", '#!/bin/sh\necho "cmake $*"\n', executable=True)
        self.tree.write(".gitignore", "/build/\n/.venv/\n__pycache__/\n")
        for path, text in GOOD.items():
            self.tree.write(path, text)
        self.tree.write_database("runtime/first.cpp", "runtime/second.cpp")
        self.tree.commit("the tree")
        self.tree.git("checkout", "-q", "-b", "change")

    def use(self, program):
        """The program of our .venv in that of the tree."""
        if not (VENV / program).exists():
            self.skipTest(f"{program} is not installed (tools/setup --check)")
        (self.tree.root / ".venv/bin").mkdir(parents=True, exist_ok=True)
        (self.tree.root / ".venv/bin" / program).symlink_to(VENV / program)

    def use_recorder(self):
        """Instead of clang-tidy, a program that accepts every source, and whose log has the sources."""
        self.tree.write(".venv/bin/clang-tidy", f'#!/bin/sh\necho "$4" >>"{self.tree.root}/build/linted"\n', executable=True)

    def linted(self):
        path = self.tree.root / "build/linted"
        return path.read_text().splitlines() if path.exists() else []

    def check(self, *words):
        path = f"{self.tree.root}/stubs:{os.environ['PATH']}"
        return self.tree.run("tools/check", *words, PATH=path, TROUPE_JOBS="1")

    def assert_clean(self, *words):
        done = self.check(*words)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def assert_finds(self, text, *words):
        done = self.check(*words)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(text, done.stdout)
        return done.stdout

    def test_the_tree_without_a_fault_is_clean(self):
        self.use("clang-format")
        self.use_recorder()
        self.assert_clean("format", "includes", "sizes", "compile", "headers", "lint")
        self.assert_clean("compile", "headers", "lint", "--commits", "5")
        self.assertEqual(sorted(self.linted()), ["runtime/first.cpp", "runtime/second.cpp"])

    def test_compile_finds_a_missing_include_that_a_batch_hides(self):
        self.tree.write("runtime/second.cpp", WITHOUT_VECTOR)
        self.tree.write("build/batch.cpp", '#include "runtime/first.cpp"\n#include "runtime/second.cpp"\n')
        batch = self.tree.run("c++", "-std=c++20", "-fsyntax-only", "-I.", "build/batch.cpp")
        self.assertEqual(batch.returncode, 0, batch.stdout)
        self.assert_finds("runtime/second.cpp does not compile by itself", "compile")
        self.tree.commit()
        self.assert_finds("runtime/second.cpp does not compile by itself", "compile")
        self.assert_finds("runtime/second.cpp does not compile by itself", "compile", "--commits", "1")
        self.tree.commit("another, empty")
        self.assertIn("no C++ file has changed in the last 1 commits", self.assert_clean("compile", "--commits", "1"))

    def test_compile_makes_warnings_errors(self):
        self.tree.write("runtime/second.cpp", '#include "runtime/second.h"\n\nint second() {\n  int unused = 2;\n  return 2;\n}\n')
        self.assert_finds("unused", "compile")

    def test_compile_and_headers_find_a_header_that_does_not_stand_alone(self):
        # The source that includes it first compiles, as with a precompiled header.
        self.tree.write("runtime/third.h", WITHOUT_STRING)
        self.tree.write("runtime/first.cpp", "#include <string>\n" + GOOD["runtime/first.cpp"])
        self.assert_finds("runtime/third.h does not compile by itself", "compile")
        self.tree.commit()
        self.assert_finds("runtime/third.h does not compile by itself", "headers")
        self.assert_finds("runtime/third.h does not compile by itself", "headers", "--commits", "1")
        self.tree.commit("another, empty")
        self.assertIn("compiling 0 headers", self.assert_clean("headers", "--commits", "1"))

    def test_headers_look_at_one_that_a_source_includes_first(self):
        self.tree.write("runtime/second.h", WITHOUT_STRING + "int second();\n")
        self.tree.write_database("runtime/first.cpp", "runtime/second.cpp")
        self.assert_finds("runtime/second.h does not compile by itself", "headers")

    def test_format_finds_and_fix_mends_a_badly_formatted_source(self):
        self.use("clang-format")
        self.tree.write("runtime/first.cpp", GOOD["runtime/first.cpp"].replace("int first() {", "int   first( ) {"))
        self.assert_finds("runtime/first.cpp", "format")
        self.assertEqual(self.assert_clean("--fix"), "formatted runtime/first.cpp\n")
        self.assertEqual(self.tree.read("runtime/first.cpp"), GOOD["runtime/first.cpp"])
        self.assert_clean("format")

    def test_fix_of_another_step_is_refused(self):
        done = self.check("--fix", "python")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("--fix only formats", done.stdout)

    def test_python_looks_at_scripts_of_any_name(self):
        self.use("ruff")
        self.tree.copy("ruff.toml")
        self.tree.write("tools/script", "#!/usr/bin/env python3\nprint(1)\n", executable=True)
        self.tree.commit()
        self.assert_clean("python")
        self.tree.write("tools/script", "#!/usr/bin/env python3\nimport os\n", executable=True)
        self.assert_finds("tools/script:2", "python")

    def test_a_worktree_uses_the_tools_of_the_main_checkout(self):
        for program in ("clang-format", "ruff"):
            self.use(program)
        self.tree.write("tools/setup", "#!/bin/sh\nexit 1\n", executable=True)
        self.tree.commit()
        worktree = self.tree.root.parent / "work tree"
        self.tree.git("worktree", "add", "-q", "-b", "other", worktree)
        (worktree / "runtime/first.cpp").write_text(GOOD["runtime/first.cpp"].replace("int first() {", "int   first( ) {"))
        done = self.tree.run("tools/check", "format", "includes", "sizes", cwd=worktree)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("runtime/first.cpp", done.stdout)
        self.assertIn("failed: format\n", done.stdout)

    def test_fix_with_commits_leaves_older_files(self):
        self.use("clang-format")
        bad = GOOD["runtime/second.cpp"].replace("{ return", "{return")
        self.tree.write("runtime/second.cpp", bad)
        self.tree.commit()
        self.tree.write("runtime/first.cpp", GOOD["runtime/first.cpp"].replace("int first() {", "int   first( ) {"))
        self.tree.commit()
        self.assertEqual(self.assert_clean("--fix", "--commits", "1"), "formatted runtime/first.cpp\n")
        self.assertEqual(self.tree.read("runtime/second.cpp"), bad)

    def test_includes_find_a_forbidden_include(self):
        self.tree.write("runtime/first.h", '#pragma once\n\n#include "actors/messages.h"\n')
        self.assert_finds("runtime/first.h:3: includes actors/messages.h", "includes")

    def test_sizes_find_a_file_that_is_too_long(self):
        self.tree.write("runtime/first.cpp", GOOD["runtime/first.cpp"] + "//\n" * 400)
        self.assert_finds("runtime/first.cpp: 405 lines, at most 400 are allowed", "sizes")

    def test_lint_finds_what_clang_tidy_refuses(self):
        self.use("clang-tidy")
        self.tree.write("runtime/second.cpp",
                        '#include "runtime/second.h"\n\nint second() {\n  int* two = nullptr;\n  return *two;\n}\n')
        self.assert_finds("clang-analyzer-core.NullDereference", "lint")

    def test_lint_looks_at_changed_sources_and_at_those_of_changed_headers(self):
        self.use_recorder()
        self.tree.write("runtime/second.h", GOOD["runtime/second.h"] + "\nint more();\n")
        self.tree.write("runtime/third.h", "#pragma once\n")
        self.assertIn("no source has their name: runtime/third.h", self.assert_clean("lint"))
        self.assertEqual(self.linted(), ["runtime/second.cpp"])

    def test_a_source_of_several_targets_is_linted_once(self):
        self.use("clang-tidy")
        self.tree.write_database("runtime/first.cpp", "runtime/second.cpp", "runtime/second.cpp", "runtime/second.cpp")
        self.tree.write("runtime/second.cpp",
                        '#include "runtime/second.h"\n\nint second() {\n  int* two = nullptr;\n  return *two;\n}\n')
        self.assertEqual(self.assert_finds("NullDereference", "lint").count("NullDereference"), 1)

    def test_the_newest_sources_come_first_and_the_others_are_counted(self):
        self.use_recorder()
        self.tree.write("runtime/second.cpp", GOOD["runtime/second.cpp"] + "// 1\n")
        self.tree.commit()
        self.tree.write("runtime/first.cpp", GOOD["runtime/first.cpp"] + "// 2\n")
        self.tree.commit()
        self.assertIn("1 of 2 sources", self.assert_clean("lint", "--commits", "2", "--files", "1"))
        self.assertEqual(self.linted(), ["runtime/first.cpp"])
        self.assertIn("compiling 1 of 2 sources", self.assert_clean("compile", "--files", "1"))
        self.tree.write("runtime/second.cpp", WITHOUT_VECTOR)  # not committed is newest
        self.assert_finds("runtime/second.cpp", "compile", "--files", "1")

    def test_a_configuration_of_batches_is_an_error(self):
        self.use_recorder()
        self.tree.write("build/check/batches/runtime_1.cpp", '#include "runtime/first.cpp"\n')
        self.tree.write_database("build/check/batches/runtime_1.cpp")
        self.tree.write("runtime/second.cpp", GOOD["runtime/second.cpp"] + "// changed\n")
        self.assert_finds("has no source of this repository", "compile")
        self.assert_finds("has no source of this repository", "headers")
        self.assert_finds("has no source of this repository", "lint")
        self.assertEqual(self.linted(), [])

    def test_a_source_that_no_target_has_is_an_error(self):
        self.use_recorder()
        self.tree.write("runtime/third.cpp", "int third() { return 3; }\n")  # git does not track it yet
        for step in ("compile", "lint"):
            self.assert_finds("runtime/third.cpp is in no target of the configuration", step)
        self.tree.commit()
        for step in ("compile", "lint"):
            self.assert_finds("runtime/third.cpp is in no target of the configuration", step, "--commits", "1")

    def test_a_source_of_gpu_builds_is_named_and_no_error(self):
        self.use_recorder()
        self.tree.write("runtime/weights/process_group_nccl.cpp", "#include <nccl.h>\n")
        self.tree.write("algorithms/cuda/scan.cu", "__global__ void scan();\n")
        for step in ("compile", "lint"):
            text = self.assert_clean(step)
            for source in ("algorithms/cuda/scan.cu", "runtime/weights/process_group_nccl.cpp"):
                self.assertIn(f"not checked: {source}, which only a GPU build compiles", text)

    def test_deleted_and_renamed_files_are_no_trouble(self):
        self.use("clang-format")
        self.use_recorder()
        self.tree.write_database("runtime/renamed.cpp")
        self.tree.git("mv", "runtime/first.cpp", "runtime/renamed.cpp")
        (self.tree.root / "runtime/second.cpp").unlink()
        self.assert_clean("compile", "lint", "format")
        self.tree.commit()
        self.assertIn("compiling 1 of 1 sources and 0 headers", self.assert_clean("compile", "lint", "--commits", "1"))
        self.assertEqual(self.linted(), ["runtime/renamed.cpp"] * 2)

    def test_a_failure_of_git_is_an_error(self):
        self.use_recorder()
        shutil.rmtree(self.tree.root / ".git")
        for step in ("format", "compile", "headers", "lint"):
            self.assert_finds("not a git repository", step)

    def test_the_preset_check_has_no_batches_and_no_precompiled_headers(self):
        text = (ROOT / "CMakePresets.json").read_text()
        preset = text[text.index('"name": "check"'):]
        preset = preset[:preset.index("}")]
        self.assertIn('"TROUPE_BATCH_SECONDS": "0"', preset)
        self.assertIn('"CMAKE_DISABLE_PRECOMPILE_HEADERS": "ON"', preset)


if __name__ == "__main__":
    unittest.main()
