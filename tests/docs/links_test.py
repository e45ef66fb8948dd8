#!/usr/bin/env python3
"""Checks that every link in the documentation leads to an existing file, and its anchor to a heading of that file.

Usage: links_test.py [FILE.md...]     without files: README.md, CHANGELOG.md, python/README.md and all pages under docs/
"""

import os
import re
import sys
import tempfile
import unittest
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

FENCE = re.compile(r" {0,3}(```+|~~~+)")
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$")
HTML_ANCHOR = re.compile(r"<[a-zA-Z][^>]*?\b(?:id|name)=[\"']([^\"']+)[\"']")
# [text](target) and ![image](target), with an optional title; the text may hold brackets of code or an image.
LINK = re.compile(r"\]\(\s*(<[^>]*>|[^\s()]*(?:\([^\s()]*\)[^\s()]*)*)(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*\)")
DEFINITION = re.compile(r" {0,3}\[(?!\^)[^\]]+\]:\s+(<[^>]*>|\S+)")
HTML_LINK = re.compile(r"<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)=[\"']([^\"']+)[\"']")
SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")


def default_pages():
    pages = ["README.md", "CHANGELOG.md", "python/README.md"]
    for folder, _, names in os.walk(os.path.join(ROOT, "docs")):
        pages += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names if name.endswith(".md")]
    return [os.path.join(ROOT, page) for page in sorted(pages)]


def text_lines(page):
    """(number, line) of each line that is not inside a fenced block or a comment."""
    with open(page, encoding="utf-8") as file:
        text = re.sub(r"<!--.*?-->", lambda comment: re.sub(r"[^\n]", "", comment.group(0)), file.read(), flags=re.DOTALL)
    fence = None
    for number, line in enumerate(text.split("\n"), 1):
        found = FENCE.match(line)
        if fence is None and found:
            fence = found.group(1)
        elif fence is None:
            yield number, line
        elif found and found.group(1).startswith(fence) and not line[found.end() :].strip():
            fence = None


def anchor_of(heading):
    """The anchor of a heading as GitHub makes it: the visible text in lower case, without punctuation, with - for each space."""
    text = re.sub(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)", r"\1", heading)  # the text of links
    text = re.sub(r"<[^>]+>", "", text)
    spans = re.split(r"(`[^`]*`)", text)
    text = "".join(part if part.startswith("`") else re.sub(r"(?<!\w)[*_]+|[*_]+(?!\w)", "", part) for part in spans)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def anchors_of(page):
    anchors = set()
    for _, line in text_lines(page):
        heading = HEADING.match(line)
        if heading:
            anchor = name = anchor_of(heading.group(1))
            count = 0
            while name in anchors:  # GitHub numbers the later ones of equal headings
                count += 1
                name = f"{anchor}-{count}"
            anchors.add(name)
        anchors.update(HTML_ANCHOR.findall(line))
    return anchors


def links_of(page):
    """(line, target) of every link; code is not searched."""
    for number, line in text_lines(page):
        line = CODE.sub("", line)
        targets = LINK.findall(line) + HTML_LINK.findall(line)
        definition = DEFINITION.match(line)
        if definition:
            targets.append(definition.group(1))
        for target in targets:
            yield number, target.strip("<>")


def problem_of(page, target, anchors):
    """None, or the problem of a link. `anchors` caches the anchors of the pages that were read."""
    if SCHEME.match(target):
        return None
    path, _, anchor = target.partition("#")
    path, anchor = urllib.parse.unquote(path), urllib.parse.unquote(anchor)
    if path.startswith("/"):
        return "begins with /, expected a path relative to the page"
    file = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
    if not target or not os.path.exists(file):
        return "no such file"
    if not anchor or not file.endswith(".md"):
        return None
    if file not in anchors:
        anchors[file] = anchors_of(file)
    return None if anchor in anchors[file] else f"no heading #{anchor} in {os.path.relpath(file, ROOT)}"


def broken_links(pages):
    anchors, problems = {}, []
    for page in pages:
        for number, target in links_of(page):
            problem = problem_of(page, target, anchors)
            if problem:
                problems.append(f"{os.path.relpath(page, ROOT)}:{number}: ({target}): {problem}")
    return problems


class Links(unittest.TestCase):
    def check(self, files):
        """The problems of page.md in a folder with these files."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            return [problem.split("): ", 1)[1] for problem in broken_links([os.path.join(folder, "page.md")])]

    def test_the_documentation(self):
        pages = default_pages()
        self.assertGreater(sum(1 for page in pages for _ in links_of(page)), 100)
        problems = broken_links(pages)
        self.assertEqual(problems, [], "\n" + "\n".join(problems))

    def test_good_links(self):
        page = "# A page\n[a](b/c.md) [b](b/c.md#one-two) [c](#a-page) [d](https://x.org/y#z) ![e](b/c.md 'title') [f](b) [g](<b/c.md>)\n"
        self.assertEqual(self.check({"page.md": page, "b/c.md": "## One, two\n"}), [])

    def test_a_missing_file(self):
        self.assertEqual(self.check({"page.md": "[a](b.md)\n"}), ["no such file"])
        self.assertEqual(self.check({"page.md": "[a]: b.md\n\n<img src='c.svg'>\n"}), ["no such file"] * 2)

    def test_a_missing_heading(self):
        found = self.check({"page.md": "[a](b.md#two) [b](#three)\n", "b.md": "# One\n"})
        self.assertEqual([problem.split(" in ")[0] for problem in found], ["no heading #two", "no heading #three"])

    def test_headings_and_links_in_code_do_not_count(self):
        page = "```sh\n# one\n[a](x.md)\n```\n`[b](y.md)` `` [c](`z.md`) ``\n<!-- [d](w.md)\n-->\n[e](#one)\n"
        self.assertEqual(len(self.check({"page.md": page})), 1)

    def test_anchors_are_those_of_github(self):
        for heading, anchor in {
            "V-trace": "v-trace",
            "The fields of a `snapshot`": "the-fields-of-a-snapshot",
            "algorithm.surrogate_params": "algorithmsurrogate_params",
            "`env.params` & more": "envparams--more",
            "0.1.0 (not released)": "010-not-released",
            "See [the page](page.md#x), *now*": "see-the-page-now",
            "What *is* `__init__`, 50 %?": "what-is-__init__-50-",
            "Größe": "größe",
        }.items():
            self.assertEqual(anchor_of(heading), anchor)
        page = "# A\n# A\n# A #\n<a id='own'></a>\n[a](#a) [b](#a-1) [c](#a-2) [d](#own) [e](#a-3)\n"
        self.assertEqual(len(self.check({"page.md": page})), 1)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].endswith(".md"):
        found = broken_links([os.path.abspath(page) for page in sys.argv[1:]])
        print("\n".join(found) or "all links are valid")
        sys.exit(1 if found else 0)
    unittest.main()
