#!/usr/bin/env python3
"""Tests run_doc_commands.py with small pages."""

import os
import re
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import run_doc_commands as docs

FENCE = "```"


def page(*blocks):
    """A page of (marker, text) blocks."""
    return "".join(f"Text.\n{marker}\n{FENCE}sh\n{text}\n{FENCE}\n" for marker, text in blocks)


class RunDocCommands(unittest.TestCase):
    def run_page(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "page.md")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            done = subprocess.run([sys.executable, docs.__file__, folder, path], capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_commands_run_in_order_and_share_one_folder(self):
        code, text = self.run_page(page(("", "echo one > file"), ("", "grep one file")))
        self.assertEqual(code, 0, text)

    def test_a_failing_command_fails_the_page_and_is_named(self):
        code, text = self.run_page(page(("", "false\ntrue")))
        self.assertEqual(code, 1)
        self.assertIn("page.md:4: FAILED: exit code 1", text)
        self.assertIn("failed: false", text)

    def test_a_marked_block_is_skipped_with_its_reason(self):
        code, text = self.run_page(page(("<!-- not run: takes an hour -->", "false")))
        self.assertEqual(code, docs.SKIPPED, text)
        self.assertIn("not run: takes an hour", text)

    def test_a_marker_counts_for_one_block_only(self):
        code, _ = self.run_page(page(("<!-- not run: no -->", "true"), ("", "false")))
        self.assertEqual(code, 1)

    def test_a_block_can_be_made_short_by_arguments(self):
        code, text = self.run_page(page(("<!-- run with: 1 -->", "true\ntest 1 -eq")))
        self.assertEqual(code, 0, text)

    def test_a_block_can_be_a_file_of_those_after_it(self):
        block = f"<!-- file: some.json -->\n{FENCE}text\n[1]\n{FENCE}\n"
        code, text = self.run_page(block + page(("", "grep 1 some.json")))
        self.assertEqual(code, 0, text)
        self.assertEqual(self.run_page(block)[0], docs.SKIPPED)

    def test_a_background_block_runs_beside_the_next_and_is_interrupted(self):
        # A builtin makes the file, because a shell that waits for a command ignores an interrupt that comes in the meantime.
        waiting = "until test -e ready; do :; done"
        code, text = self.run_page(page(("<!-- background -->", ": >ready; exec sleep 100"), ("", waiting)))
        self.assertEqual(code, 0, text)

    def test_a_background_block_that_failed_before_the_end_is_reported(self):
        block = docs.Block(1, None)
        block.text = "exit 3"
        process = docs.start(block, ".")
        process.wait()
        self.assertEqual(docs.end_background(block, process), "exit code 3")

    def test_each_address_of_a_page_gets_a_free_port_and_the_same_in_all_blocks(self):
        blocks = docs.blocks_of(
            page(("", "listen 127.0.0.1:5555 127.0.0.1:6"), ("", "connect 127.0.0.1:5555 127.0.0.1:0")).splitlines(True)
        )
        docs.use_free_ports(blocks)
        listen, other = re.fullmatch(r"listen 127.0.0.1:(\d+) 127.0.0.1:(\d+)\n", blocks[0].text).groups()
        self.assertEqual(blocks[1].text, f"connect 127.0.0.1:{listen} 127.0.0.1:0\n")
        self.assertEqual(len({listen, other, "5555", "6"}), 4)

    def test_a_page_runs_although_its_port_is_taken(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            listen = f"python3 -c \"import socket; socket.create_server(('127.0.0.1', int('{address}'.split(':')[1])))\""
            code, text = self.run_page(page(("", listen)))
        self.assertEqual(code, 0, text)

    def test_other_fences_are_text(self):
        self.assertEqual(docs.blocks_of([f"{FENCE}json\n", "{}\n", f"{FENCE}\n"]), [])

    def test_a_block_without_end_is_an_error(self):
        with self.assertRaises(ValueError):
            docs.blocks_of([f"{FENCE}sh\n", "true\n"])


if __name__ == "__main__":
    unittest.main()
