#!/usr/bin/env python3
"""Tests tools/check_pages.py."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tools"))
import check_pages

WORDS = "word " * 27 + "and more words"  # 149 characters


def long_lines(text):
    return [index for index, _ in check_pages.long_lines(text)]


class CheckPages(unittest.TestCase):
    def test_only_prose_is_limited(self):
        self.assertEqual(long_lines(f"{WORDS}\n- {WORDS}\n\n> {WORDS}\n  {WORDS}"), [0, 1, 3, 4])
        for free in (f"| {WORDS} |", f"# {WORDS}", f"<p>{WORDS}</p>", f"```sh\n{WORDS}\n```", f"    {WORDS}", "x" * 200, f"[a]: {WORDS}"):
            with self.subTest(free=free):
                self.assertEqual(long_lines(free), [])
        self.assertEqual(long_lines(f"<!-- a\n{WORDS} -->"), [])
        self.assertEqual(long_lines("x" * 140), [])
        self.assertEqual(long_lines(f"```\ncode\n```\n{WORDS}"), [3])

    def test_a_long_line_is_broken_at_a_blank_outside_of_code(self):
        self.assertEqual(check_pages.wrapped(WORDS), "word " * 26 + "word and\nmore words")
        line = "x" * 100 + " `" + "word " * 12 + "`"
        self.assertEqual(check_pages.wrapped(line), "x" * 100 + "\n`" + "word " * 12 + "`")

    def test_the_rest_never_begins_a_list(self):
        self.assertEqual(check_pages.wrapped("word " * 27 + "- or + something"), "word " * 27 + "-\nor + something")

    def test_the_rest_goes_to_the_next_line_of_the_paragraph_or_item(self):
        begin = "word " * 26 + "word and"
        self.assertEqual(check_pages.wrapped(f"{WORDS}\nfollow.\n\nnext"), f"{begin}\nmore words follow.\n\nnext")
        self.assertEqual(check_pages.wrapped(f"- {WORDS}\n  follow.\n- next"), f"- {begin}\n  more words follow.\n- next")
        self.assertEqual(check_pages.wrapped(f"- {WORDS}\n- next"), f"- {begin}\n  more words\n- next")
        self.assertEqual(check_pages.wrapped(f"> {WORDS}\n> follow."), f"> {begin}\n> more words follow.")
        self.assertEqual(check_pages.wrapped(f"{WORDS}\n\n{WORDS}"), f"{begin}\nmore words\n\n{begin}\nmore words")

    def test_the_pages_of_the_tree_are_clean(self):
        self.assertEqual(check_pages.main([]), 0)


if __name__ == "__main__":
    unittest.main()
