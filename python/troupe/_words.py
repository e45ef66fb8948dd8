"""Lines of the program in the words of a caller from Python, who gives arguments and not flags."""

import re
import shlex

_FLAGS = [
    (  # a keyword without a dot
        re.compile(r"(^|: )--set: (\w+): unknown key, did you mean ([\w.]+)\?"),
        lambda match: f"{match[1]}{match[2]}: unknown key, did you mean {match[3].replace('.', '__')}?",
    ),
    (re.compile(r"--run DIR\b"), "run_dir"),
    (re.compile(r"--run: "), "run_dir: "),
    (re.compile(r"(^|: )--set: "), r"\1"),
    (re.compile(r" with --set: "), " with the arguments: "),
    (re.compile(r"--set '([\w.]+)=([^']*)'"), lambda match: f"{match[1].replace('.', '__')}={match[2]}"),
    (re.compile(r"--set ([\w.]+)="), lambda match: f"{match[1].replace('.', '__')}="),
    (re.compile(r"\(and (--init-from \S+)"), r"(and `troupe train CONFIG \1`"),
    (re.compile(r"a config file and (--init-from \S+)"), r"run `troupe train CONFIG \1`"),
]


def in_python(line):
    """The line with the names of arguments and keywords in place of the flags of a shell. A line without flags is unchanged."""
    for flag, words in _FLAGS:
        line = flag.sub(words, line)
    return line


def resume_line(folder, python_path):
    """How to resume a run: the command needs the folders of PYTHONPATH that troupe.train gave to the program."""
    path = f"PYTHONPATH={shlex.quote(':'.join(python_path))} " if python_path else ""
    return f"To resume: call troupe.train with the same arguments, or `{path}troupe train {shlex.quote(str(folder))}`"
