#!/usr/bin/env python3
"""Checks that no line of prose in a tracked Markdown file has more than 140 characters, so that changes of pages are easy to read.

Prints one line per violation and exits with 1 if there is one. `--fix` breaks these lines instead; in a page that a command writes, mend
the text in the sources of that command. Not prose, and of any length: tables, headings, HTML, blocks of code, and
lines without a blank at which they could be broken.
"""

import os
import re
import subprocess
import sys

MOST = 140
FENCE = re.compile(r"^\s*(```|~~~)")
NOT_PROSE = re.compile(r"^\s*(\||#|<|\[[^\]]+\]:)")
# What begins a block of its own, so that the end of a long line before it is not put in front of it.
BLOCK = re.compile(r"^\s*([-*+>] |\d+\. |\||#|<|```|~~~)|^\s*$")
BULLET = re.compile(r"^(\s*)([-*+] |\d+\. |> )?")


def place_to_break(line):
    """The last blank of the first MOST characters at which the line may be broken; 0 if there is none. Not in the indentation, not
    inside `code`, and not where the rest would begin a list, a table or the like."""
    begin = BULLET.match(line).end()
    best = 0
    for match in re.finditer(" ", line[: MOST + 1]):
        at = match.start()
        if at > begin and line.count("`", 0, at) % 2 == 0 and not BLOCK.match(line[at + 1 :]):
            best = at
    return best


def long_lines(text):
    """(index, line) of each line of prose that is too long and can be broken."""
    in_code = in_comment = False
    for index, line in enumerate(text.split("\n")):
        in_comment = in_comment or line.startswith("<!--")
        if in_comment:
            in_comment = "-->" not in line
        elif FENCE.match(line):
            in_code = not in_code
        elif not in_code and len(line) > MOST and not NOT_PROSE.match(line) and not line.startswith("    ") and place_to_break(line):
            yield index, line


def wrapped(text):
    """The text with its long lines broken. What is cut off goes to the beginning of the next line, if that belongs to the paragraph."""
    while True:
        found = next(long_lines(text), None)
        if found is None:
            return text
        index, line = found
        lines = text.split("\n")
        at = place_to_break(line)
        rest = line[at + 1 :]
        spaces, bullet = BULLET.match(line).groups()
        indent = bullet if bullet == "> " else " " * len(spaces + (bullet or ""))
        lines[index] = line[:at]
        follower = lines[index + 1] if index + 1 < len(lines) else ""
        if BLOCK.match(follower) and not (bullet == "> " and follower.startswith("> ")):
            lines.insert(index + 1, indent + rest)
        else:
            lines[index + 1] = indent + rest + " " + follower.removeprefix(indent).lstrip()
        text = "\n".join(lines)


def pages():
    return subprocess.run(["git", "ls-files", "-z", "*.md"], check=True, capture_output=True, text=True).stdout.split("\0")[:-1]


def main(words):
    if words not in ([], ["--fix"]):
        print(f"check_pages: unknown argument {words[0]}; there is only --fix", file=sys.stderr)
        return 2
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    problems = []
    for path in pages():
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if words == ["--fix"]:
            fixed = wrapped(text)
            if fixed != text:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(fixed)
        else:
            problems += [f"{path}:{i + 1}: {len(line)} characters, at most {MOST} are allowed" for i, line in long_lines(text)]
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
