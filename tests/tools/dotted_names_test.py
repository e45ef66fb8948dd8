#!/usr/bin/env python3
"""Every dotted name in a text of the programs, like env.reward_scale or lag.p95, is a setting or a figure that exists."""

import ast
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = "actors algorithms envs models page python/troupe runtime tasks text tools".split()
# The two tables are written by the program; reference_test fails if they are not current.
TABLES = ["docs/config.md", "docs/metrics.md"]
# What begins like a setting and is none: names of files, and code of environments in Python that a message quotes.
FILES = re.compile(r"\.(json|jsonl|safetensors|py|cpp|h|md|js|so|yaml|txt|tmp|gz|html)$")
CODE = {"reward_model.ground_truth", "env.step", "env.reset", "env.close", "env.render", "env.unwrapped", "trainer.local"}
CODE |= {"model.embed_tokens.weight"}  # a tensor
# Their dotted names are those of other libraries, of tensors, of another file's keys, or of what a checkpoint or made_of.json holds.
OTHER_NAMES = {
    "actors/config/foreign_names.cpp",
    "actors/resume.cpp",
    "actors/resume.h",
    "actors/spec_fields.cpp",
    "actors/spec_fields.h",
    "models/decoder/decoder_tensors.cpp",
    "models/lm/hf_folder.cpp",
    "models/decoder/lm_shape.cpp",
    "text/tokenizer_json.cpp",
}
# Their keys are described elsewhere.
OBJECTS = (
    "env.params.",
    "model.net.",
    "task.params.",
    "algorithm.advantage_params.",
    "algorithm.surrogate_params.",
    "algorithm.rollout_correction.",
)


def known_names() -> set[str]:
    """The settings with their sections, and the figures."""
    names = set()
    for table in TABLES:
        for row in (ROOT / table).read_text().splitlines():
            found = re.match(r"\| `([a-z0-9_.]+)`", row)
            if found:
                names.add(found.group(1))
    figures = set(re.findall(r"^\| `([a-z0-9_]+)` \|", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE))
    return names | {f"learner.{name}" for name in figures}


def texts_of(path: pathlib.Path) -> list[str]:
    """The string literals of a source."""
    source = path.read_text(errors="replace")
    if path.suffix == ".py":
        return [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    code = re.sub(r"//[^\n]*|#include[^\n]*|/\*.*?\*/", "", source, flags=re.DOTALL) if path.suffix != ".js" else source
    code = re.sub(r'"\s*\n\s*"', "", code)  # literals that follow each other are one
    return re.findall(r'"((?:[^"\\\n]|\\.)*)"', code) + re.findall(r"`([^`]*)`", code)


def unknown_names(names: set[str]) -> list[str]:
    """FILE: NAME for each dotted name that does not exist."""
    sections = {name.split(".")[0] for name in names if "." in name}
    dotted = re.compile(r"(?<![\w./\-])(" + "|".join(sorted(sections)) + r")((?:\.[a-z][a-z0-9_]*)+)(?![\w(/])")
    wrong = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".cpp", ".h", ".js", ".py") or "vendor" in path.parts or str(path.relative_to(ROOT)) in OTHER_NAMES:
                continue
            for text in texts_of(path):
                for found in dotted.finditer(text):
                    name = found.group(0)
                    if name not in names | CODE and not name.startswith(OBJECTS) and not FILES.search(name):
                        wrong.append(f"{path.relative_to(ROOT)}: {name}")
    return wrong


def main() -> None:
    names = known_names()
    assert {"env.reward_scale", "lag.p95", "learner.kl", "replay.max_policy_lag"} <= names
    wrong = unknown_names(names)
    assert not wrong, "no such setting or figure:\n" + "\n".join(wrong)


if __name__ == "__main__":
    main()
