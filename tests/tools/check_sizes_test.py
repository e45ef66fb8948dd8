#!/usr/bin/env python3
"""Tests tools/check_sizes.py on small pieces of C++."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tools"))
import check_sizes

# (code, {class: private functions})
CLASSES = [
    ("class A { void f(); int g() const; public: void h(); };", {"A": 2}),
    ("struct A { void f(); private: void g(); protected: void h(); private: void i(); };", {"A": 2}),
    ("class A { A(); ~A(); A(const A&) = delete; bool operator()(int) const; bool operator<(A) const; };", {"A": 5}),
    ("class A { static void f(); virtual void g() = 0; [[nodiscard]] int h() { return {1, 2}; } };", {"A": 3}),
    ("class A { template <class T> void f(T x) { if (x) { g(); } } void g(); };", {"A": 2}),
    ("class A { A(int x) : a_{x}, b_(x) { f(x); } int a_{0}, b_ = 3; };", {"A": 1}),
    ("class A { A(B b, C c = {}) : a_(b, {}, c) {} void f(int x = {}); };", {"A": 2}),
    ("class A { auto f() -> std::vector<int> { return {}; } };", {"A": 1}),
    # Not functions.
    ("class A { int a; std::function<void(int)> b; void (*c)(int); std::vector<int> d{f()}; int e = f(); };", {"A": 0}),
    ("class A { friend void f(A); friend class B; using T = int(int); typedef int F(int); enum E { x = f(1) }; };", {"A": 0}),
    ("class A { template <class I> friend int inspect(I& f, A& x) { return f(x); } int a_ TROUPE_GUARDED_BY(mutex_); };", {"A": 0}),
    ("class A { static_assert(sizeof(int) == 4); alignas(64) float lanes[4]; struct B; };", {"A": 0}),
    ('class A { const char* a = "void f();"; char b = \'{\'; /* void g(); */ int c = 1\'000; };  // void h();', {"A": 0}),
    ('class A { const char* a = R"(} void f(); {)"; void g(); };', {"A": 1}),
    # Nested classes are counted separately, and the access level of the outer class continues after them.
    ("class A { struct B { void f(); private: void g(); }; void h(); };", {"B": 1, "A": 1}),
    ("class A : public B<int>, private C { void f(); };", {"A": 1}),
    ("class A::B final : public C { void f(); };", {"A::B": 1}),
    ("template <class T, class U = V<T>> class A { void f(); };", {"A": 1}),
    ("namespace a { namespace { class A { void f(); }; } }  class B { void f(); };", {"A": 1, "B": 1}),
    ("void f() { for (int i = 0; i < 3; ++i) { g(); } class A { void h(); }; }", {"A": 1}),
    ("enum class A { f, g };", {}),
    ("#define X class A { void f(); \\\n void g();\nclass B { void f(); };", {"B": 1}),
]


class CheckSizes(unittest.TestCase):
    def test_private_functions_are_counted(self):
        for code, counts in CLASSES:
            with self.subTest(code=code):
                self.assertEqual({name: count for name, _, count in check_sizes.classes_in(code)}, counts)

    def test_a_large_class_is_named_with_its_line(self):
        functions = "".join(f"  void f{i}();\n" for i in range(16))
        code = f"// A comment.\nnamespace a {{\n\nclass Large {{\n public:\n  void f();\n private:\n{functions}}};\n}}\n"
        self.assertEqual(
            list(check_sizes.problems_in_size("actors/large.h", code)),
            ["actors/large.h:4: Large has 16 private functions, at most 15 are allowed"],
        )
        self.assertEqual(list(check_sizes.problems_in_size("actors/large.h", code.replace("  void f3();\n", ""))), [])

    def test_lines_are_limited_by_kind_of_file(self):
        for path, limit in [
            ("actors/stats.cpp", 400), ("algorithms/cuda/look_back.h", 250), ("actors/stats.h", 250),
            ("tests/actors/stats_test.cpp", 800), ("tests/actors/rollouts.h", 800), ("sim/a.cu", 400),
        ]:
            with self.subTest(path=path):
                self.assertEqual(list(check_sizes.problems_in_size(path, "\n" * limit)), [])
                self.assertEqual(
                    list(check_sizes.problems_in_size(path, "\n" * (limit + 1))),
                    [f"{path}: {limit + 1} lines, at most {limit} are allowed"],
                )
        for path in ["algorithms/scan/scan_line.h", "algorithms/scan_x.h", "algorithms/cuda/scan_rows.h", "envs/batched.h"]:
            self.assertEqual(list(check_sizes.problems_in_size(path, "\n" * 2000)), [])

    def test_include_cycles_are_found_once(self):
        self.assertEqual(check_sizes.cycles_in({"a": ["b", "c"], "b": ["c"], "c": ["d"], "d": []}), [])
        self.assertEqual(check_sizes.cycles_in({"a": ["b"], "b": ["c"], "c": ["b"]}), [["b", "c", "b"]])
        self.assertEqual(check_sizes.cycles_in({"a": ["a"]}), [["a", "a"]])

    def test_the_tree_is_clean(self):
        self.assertEqual(check_sizes.main(), 0)


if __name__ == "__main__":
    unittest.main()
