"""The files of troupe.reward_model: tokenizers, and the folder that the model is written into."""

import json
import os
import shutil
import struct
import tempfile
from pathlib import Path

PAD_TOKEN, END_TOKEN = "<pad>", "<eos>"
EXAMPLE_ALPHABET = "0123456789>"  # of the task `reverse`


class RewardModelError(ValueError):
    """What is wrong with the pairs, the tokenizer or the folder, in one line."""


def shown(value):
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."


def _read_json(path, source):
    """The object in a file. Raises RewardModelError that begins with `source`."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RewardModelError(f"{source}: has no {path.name} that can be read: {error}") from None
    if not isinstance(value, dict):
        raise RewardModelError(f"{source}: {path.name} is not a JSON object")
    return value


class CharTokens:
    """One token per character: 0 = <pad>, 1 = <eos>, then the alphabet, as in tokenizer.kind char."""

    pad, end = 0, 1

    def __init__(self, alphabet):
        if not alphabet or len(set(alphabet)) != len(alphabet):
            raise RewardModelError(f"--alphabet: {shown(alphabet)}, expected each character once")
        if not is_text(alphabet):
            raise RewardModelError(f"--alphabet: {shown(alphabet)}, expected UTF-8")
        self.alphabet = alphabet
        self.ids = {character: 2 + i for i, character in enumerate(alphabet)}
        self.size = 2 + len(alphabet)

    def _encode(self, text):
        try:
            return [self.ids[character] for character in text]
        except KeyError as missing:
            where = f"which is not in the alphabet {shown(self.alphabet)}"
            raise RewardModelError(f"{shown(text)} has the character {missing}, {where}") from None

    prompt = answer = _encode

    def write(self, folder):
        def added(token, content):
            flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
            return {"id": token, "content": content, **flags}

        split = {"type": "Split", "pattern": {"Regex": "[\\s\\S]"}, "behavior": "Isolated", "invert": False}
        vocabulary = {PAD_TOKEN: self.pad, END_TOKEN: self.end, **self.ids}
        file = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [added(self.pad, PAD_TOKEN), added(self.end, END_TOKEN)],
            "normalizer": None,
            "pre_tokenizer": split,
            "post_processor": None,
            "decoder": {"type": "Fuse"},
            "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
        }
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
        settings |= {"eos_token": END_TOKEN, "pad_token": PAD_TOKEN}
        for name, value in (("tokenizer.json", file), ("tokenizer_config.json", settings)):
            (folder / name).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


class FolderTokens:
    """The tokens of a tokenizer.json, by Hugging Face's `tokenizers`."""

    def __init__(self, folder, chat_template):
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise RewardModelError(f"--tokenizer: {folder} needs the Python package tokenizers") from None
        self.folder, self.chat = folder, chat_template == "chatml"
        try:
            self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the package raises no other class
            raise RewardModelError(f"--tokenizer: {folder}: the package tokenizers cannot read tokenizer.json: {error}") from None
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        config = folder / "tokenizer_config.json"
        settings = _read_json(config, f"--tokenizer: {folder}") if config.exists() else {}
        self.end = self._id("<|im_end|>" if self.chat else _token_text(settings.get("eos_token")), "eos_token")
        pad = _token_text(settings.get("pad_token"))
        self.pad = self.end if pad is None else self._id(pad, "pad_token")
        self.size = self.tokenizer.get_vocab_size(with_added_tokens=True)

    def _id(self, token, name):
        found = self.tokenizer.token_to_id(token) if isinstance(token, str) else None
        if found is None:
            raise RewardModelError(f"--tokenizer: {self.folder}: {name} is {shown(token)}, expected a token of the vocabulary")
        return found

    def prompt(self, text):
        if self.chat:
            text = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
        return self.tokenizer.encode(text).ids

    def answer(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def write(self, folder):
        for name in ("tokenizer.json", "tokenizer_config.json"):
            if (self.folder / name).exists():
                shutil.copyfile(self.folder / name, folder / name)


def _token_text(token):
    return token.get("content") if isinstance(token, dict) else token


def tokens_of(folder, chat_template="none"):
    """The tokenizer in a folder. Raises RewardModelError."""
    folder = Path(folder).expanduser()
    source = f"--tokenizer: {folder}"
    model = _read_json(folder / "tokenizer.json", source).get("model")
    if not isinstance(model, dict):
        raise RewardModelError(f"{source}: tokenizer.json: model is {shown(model)}, expected an object")
    if model.get("type") != "WordLevel":
        return FolderTokens(folder, chat_template)
    tokens = _tokens_by_id(model.get("vocab"))
    if tokens[:2] != [PAD_TOKEN, END_TOKEN] or any(len(token) != 1 for token in tokens[2:]):
        raise RewardModelError(f"{source}: is of the type WordLevel and not one that troupe has written")
    return CharTokens("".join(tokens[2:]))


def _tokens_by_id(vocabulary):
    """The tokens in the order of their ids, which are 0, 1, ...; none if the vocabulary is not like that."""
    if not isinstance(vocabulary, dict) or any(type(token) is not int for token in vocabulary.values()):
        return []
    tokens = sorted(vocabulary, key=vocabulary.get)
    return tokens if [vocabulary[token] for token in tokens] == list(range(len(tokens))) else []


def is_text(value):
    """Whether a value is a text that UTF-8 can hold."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def write_safetensors(path, tensors):
    """float32 tensors in the format of https://github.com/huggingface/safetensors."""
    header, begin = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        end = begin + 4 * tensor.numel()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            numbers = tensor.detach().contiguous().view(-1).tolist()
            file.write(struct.pack(f"<{len(numbers)}f", *numbers))


def folder_beside(out):
    """(folder to write, empty folder of another name beside it). Raises RewardModelError if `out` holds anything."""
    folder = Path(out).expanduser().resolve()
    if folder.exists() and not folder.is_dir():
        raise RewardModelError(f"--out: {out}: is not a folder, expected a new or an empty one")
    if folder.exists() and any(folder.iterdir()):
        raise RewardModelError(f"--out: {out}: is not empty, expected a new or an empty folder")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        parts = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    except OSError as error:
        raise RewardModelError(f"--out: {out}: cannot be made: {error.strerror}") from None
    mask = os.umask(0)
    os.umask(mask)
    parts.chmod(0o777 & ~mask)
    return folder, parts
