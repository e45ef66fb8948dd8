#!/usr/bin/env python3
"""Checks that no file and no class is too large and that no includes form a cycle (docs/conventions.md, "Files and names").

Prints one line per violation and exits with 1 if there is one. The private functions of a class are counted in its text: every
declaration in a `private:` section (or at the top of a `class`) that has a parameter list, including overloads, constructors and
operators; not friends, types, or data whose type or initialiser has parentheses. Nested classes are counted separately.
"""

import os
import re
import sys

import check_includes

HEADERS = (".h", ".cuh")

MOST_SOURCE_LINES = 400
MOST_HEADER_LINES = 250
MOST_TEST_LINES = 800  # the cases of a test are read one by one
MOST_PRIVATE_FUNCTIONS = 15
# The scan kernels and the environment adapter are one idea each, and all their code is inlined.
ANY_LENGTH = re.compile(r"algorithms/scan|algorithms/cuda/scan|envs/batched\.h$")

# Comments, raw strings, strings, characters. A digit before a quote makes it a separator, as in 10'000.
LITERALS = re.compile(
    r'//[^\n]*(?:\\\n[^\n]*)*|/\*.*?\*/|R"([^()\\\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\'', re.DOTALL
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*", re.MULTILINE | re.DOTALL)
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')

ACCESS = re.compile(r"^(public|private|protected)\s*$")
CLASS_HEAD = re.compile(r"^(class|struct|union)\b([^=()]*)$", re.DOTALL)
BLOCK_HEAD = re.compile(r"^(namespace|extern|enum|friend|concept|requires|else|do|try)\b|^,|^$")
NO_MEMBER = re.compile(r"^(using|typedef|friend|static_assert|enum|class|struct|union)\b")


def blank(text):
    """Blanks in the same lines and columns."""
    return re.sub(r"[^\n]", " ", text)


def without_literals(code):
    """The code with comments and the contents of strings replaced by blanks; lines stay where they are."""

    def replace(match):
        text = match.group(0)
        if text.startswith("/"):
            return blank(text)
        return '"' + blank(text[1:-1]) + '"'

    return LITERALS.sub(replace, code)


def drop_brackets(text, opening, closing):
    """The text without these brackets and their contents."""
    kept, depth = [], 0
    for character in text:
        depth += character == opening
        if depth == 0:
            kept.append(character)
        depth -= depth > 0 and character == closing
    return "".join(kept)


def head_of(statement):
    """A declaration without attributes, template parameters, macros with arguments and specifiers that take parentheses."""
    text = re.sub(r"\boperator\s*(\(\s*\)|[^\s\w(]+)", "operator_", statement.strip())
    text = re.sub(r"\[\[.*?\]\]", " ", text, flags=re.DOTALL)
    text = drop_brackets(text.replace("->", "  "), "<", ">")
    specifier = r"\b(?:[A-Z][A-Z0-9_]+|alignas|decltype|explicit|noexcept|__attribute__|requires)\s*\((?:[^()]|\([^()]*\))*\)"
    text = re.sub(specifier, " ", text)
    return re.sub(r"^(?:template\b|inline\b|\s)+", "", text).strip()


def is_function(statement):
    """Whether this declaration of a member, or this head before its body, is that of a function."""
    head = head_of(statement)
    if NO_MEMBER.match(head) or head.startswith((",", ":")):
        return False
    before, bracket, after = head.partition("(")
    return bool(bracket) and "=" not in before and before.strip() != "" and not after.lstrip().startswith("*")


class Scope:
    """What a brace opens: a "class", a "block" of statements or declarations, or an "initialiser"."""

    def __init__(self, kind, name="", line=0, access=""):
        self.kind, self.name, self.line, self.access = kind, name, line, access
        self.private_functions = 0


def class_scope(statement, line):
    """The scope of a class with this head, or None."""
    head = CLASS_HEAD.match(head_of(statement))
    if head is None:
        return None
    names = re.sub(r"(?<!:):(?!:).*", "", head.group(2), flags=re.DOTALL).replace("final", " ").split()
    return Scope("class", names[-1] if names else "(no name)", line, "private" if head.group(1) == "class" else "public")


def scope_opened_by(statement, line, inside):
    """The scope of a brace after this statement. If it is the body of a private member function, counts that function."""
    if statement.count("(") > statement.count(")"):
        return Scope("initialiser", statement)
    opened = class_scope(statement, line)
    if opened is not None:
        return opened
    if is_function(statement):
        inside.private_functions += inside.access == "private"
        return Scope("block")
    return Scope("block" if BLOCK_HEAD.match(head_of(statement)) else "initialiser", statement)


def classes_in(code):
    """(name, line, number of private functions) of each class, in the order in which they end."""
    code = DIRECTIVE.sub(lambda match: blank(match.group(0)), without_literals(code))
    scopes, statement, line, begins = [Scope("block")], "", 1, 1
    for character in code:
        line += character == "\n"
        scope = scopes[-1]
        if character == "{":
            scopes.append(scope_opened_by(statement, begins, scope))
            statement = ""
        elif character == "}" and len(scopes) > 1:
            closed = scopes.pop()
            if closed.kind == "class":
                yield closed.name, closed.line, closed.private_functions
            statement = closed.name + "{}" if closed.kind == "initialiser" else ""  # the declaration continues: int x{0}, y;
        elif character == ";" and statement.count("(") <= statement.count(")"):  # not those of a for loop's head
            scope.private_functions += scope.access == "private" and is_function(statement)
            statement = ""
        elif character == ":" and scope.access and ACCESS.match(statement.strip()):
            scope.access = statement.strip()
            statement = ""
        else:
            if not statement.strip():
                statement, begins = "", line
            statement += character


def problems_in_size(path, code):
    """Lines about one file: its length and its classes."""
    lines = code.count("\n")
    is_test = path.startswith("tests/")
    most = MOST_TEST_LINES if is_test else MOST_HEADER_LINES if path.endswith(HEADERS) else MOST_SOURCE_LINES
    if lines > most and not ANY_LENGTH.match(path):
        yield f"{path}: {lines} lines, at most {most} are allowed"
    for name, line, count in classes_in(code):
        if count > MOST_PRIVATE_FUNCTIONS:
            yield f"{path}:{line}: {name} has {count} private functions, at most {MOST_PRIVATE_FUNCTIONS} are allowed"


def cycles_in(includes):
    """The include cycles, each once, from `includes`: path -> paths."""
    done, stack, found = set(), [], []

    def visit(path):
        if path in stack:
            found.append(stack[stack.index(path):] + [path])
            return
        if path in done:
            return
        stack.append(path)
        for other in includes.get(path, ()):
            visit(other)
        stack.pop()
        done.add(path)

    for path in sorted(includes):
        visit(path)
    return found


def main():
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = {}
    for path in sorted(check_includes.sources()):
        with open(path, encoding="utf-8") as file:
            code[path] = file.read()
    problems = []
    for path, text in code.items():
        problems += problems_in_size(path, text)
    included = {
        path: [match.group(1) for match in map(INCLUDE.match, text.split("\n")) if match] for path, text in code.items()
    }
    for cycle in cycles_in(included):
        problems.append("an include cycle: " + " -> ".join(cycle))
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
