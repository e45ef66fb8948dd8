"""Which files of this repository have changed, for checks of changed files only. Imported by tools/check_*.py.

Paths are relative to the top of the repository, which is the working folder. Files that are gone are left out.
"""

import subprocess


class CheckFailed(Exception):
    """It cannot be found out what to check."""


def git(*words):
    """The parts of what git prints, which its option -z separates by zero bytes."""
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CheckFailed(f"git {' '.join(words)}: {done.stderr.strip()}")
    return [part for part in done.stdout.split("\0") if part]


def revision(*words):
    """The object that `git WORDS` prints, or "" if it fails."""
    try:
        return "".join(git(*words)).strip()
    except CheckFailed:
        return ""


def base_commit(commits):
    """(base, since when, in words): the commit before the last `commits`, or for 0 the one where this branch left main."""
    if commits:
        before = revision("rev-parse", "--verify", "--quiet", f"HEAD~{commits}^{{commit}}")
        if before:
            return before, f"in the last {commits} commits"
        # A short history or a shallow clone: every file counts as changed.
        return "".join(git("hash-object", "-t", "tree", "/dev/null")).strip(), f"in a history of less than {commits + 1} commits"
    for branch in ("origin/main", "main"):
        common = revision("merge-base", "HEAD", branch)
        if common:
            return common, f"since {common[:10]}, where this branch left {branch}"
    return "".join(git("rev-parse", "--verify", "HEAD")).strip(), "since the last commit (there is no branch main)"


def changed_files(commits, patterns):
    """(files, since when, in words): those that differ from the base, the newest changes first.

    What is not committed counts as newest; files that git does not track only count with `commits` 0.
    """
    base, since = base_commit(commits)
    options = ("--name-only", "--no-renames", "--diff-filter=d", "-z")
    found = git("diff", *options, base, "--", *patterns)
    order = git("diff", *options, "HEAD", "--", *patterns)
    if not commits:
        untracked = git("ls-files", "--others", "--exclude-standard", "-z", "--", *patterns)
        found += untracked
        order += untracked
    is_commit = revision("rev-parse", "--verify", "--quiet", f"{base}^{{commit}}")
    order += git("log", "--format=", *options, f"{base}..HEAD" if is_commit else "HEAD", "--", *patterns)
    place = {}
    for path in order:
        place.setdefault(path, len(place))
    return sorted(dict.fromkeys(found), key=lambda path: place.get(path, len(place))), since
