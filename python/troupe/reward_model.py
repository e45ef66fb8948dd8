"""Makes a small reward model for token runs (setting reward_model.path) from pairs of answers, with PyTorch alone.

python -m troupe.reward_model PAIRS.jsonl --tokenizer FOLDER --out DIR
python -m troupe.reward_model --example     makes the model of configs/tokens/rlhf.json in ~/.cache/troupe/rlhf_reward

A line of PAIRS.jsonl is {"prompt": TEXT, "chosen": TEXT, "rejected": TEXT}. The model is a decoder of the family Llama with a linear
head, trained from random weights so that chosen answers get higher scores than rejected ones (Bradley-Terry). DIR, a new or an empty
folder, gets a model of sequence classification with one label, which transformers loads too, and the files of the tokenizer.
"""

import argparse
import functools
import json
import math
import os
import random
import shutil
import struct
import sys
import tempfile
import time
from pathlib import Path

PAD_TOKEN, END_TOKEN = "<pad>", "<eos>"
EXAMPLE_FOLDER = "~/.cache/troupe/rlhf_reward"
EXAMPLE_ALPHABET = "0123456789>"  # of the task `reverse`
EXAMPLE_PAIRS, EXAMPLE_DIGITS = 6000, 5
HELD_OUT = 10  # one pair of so many is not trained on
SECONDS_PER_LINE = 5  # at most so long without a line about the training

# Settings of the training: default, smallest, largest, meaning.
SIZES = {
    "hidden": (64, 2, 8192, "width of the model, a multiple of 2 * HEADS"),
    "layers": (2, 1, 200, "layers of the model"),
    "heads": (4, 1, 512, "attention heads of each layer"),
    "positions": (0, 0, 1 << 20, "longest prompt and answer in tokens; 0 = twice that of the pairs"),
    "steps": (300, 1, 10_000_000, "updates"),
    "batch": (64, 1, 100_000, "pairs of each step"),
    "lr": (2e-3, 1e-9, 1.0, "highest learning rate"),
    "seed": (1, 0, 2**63 - 1, "of the first weights and the order of the pairs"),
    "threads": (1, 1, 1024, "CPU threads; more make only large models faster"),
}


class RewardModelError(ValueError):
    """What is wrong with the pairs, the tokenizer or the folder, in one line."""


def _shown(value):
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
            raise RewardModelError(f"--alphabet: {_shown(alphabet)}, expected each character once")
        if not _is_text(alphabet):
            raise RewardModelError(f"--alphabet: {_shown(alphabet)}, expected UTF-8")
        self.alphabet = alphabet
        self.ids = {character: 2 + i for i, character in enumerate(alphabet)}
        self.size = 2 + len(alphabet)

    def _encode(self, text):
        try:
            return [self.ids[character] for character in text]
        except KeyError as missing:
            where = f"which is not in the alphabet {_shown(self.alphabet)}"
            raise RewardModelError(f"{_shown(text)} has the character {missing}, {where}") from None

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
            raise RewardModelError(f"--tokenizer: {self.folder}: {name} is {_shown(token)}, expected a token of the vocabulary")
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
        raise RewardModelError(f"{source}: tokenizer.json: model is {_shown(model)}, expected an object")
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


def _is_text(value):
    """Whether a value is a text that UTF-8 can hold."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def _pair_of(line):
    """(prompt, chosen, rejected) of a line. Raises RewardModelError without its place."""
    try:
        pair = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise RewardModelError(f"is not JSON in UTF-8: {error}") from None
    if not isinstance(pair, dict):
        raise RewardModelError("expected a JSON object with prompt, chosen and rejected")
    for key in ("prompt", "chosen", "rejected"):
        if key not in pair:
            raise RewardModelError(f"{key} is missing, expected prompt, chosen and rejected")
        if not _is_text(pair[key]):
            raise RewardModelError(f"{key}: {_shown(pair[key])}, expected a text")
    if not pair["prompt"]:
        raise RewardModelError("prompt is empty")
    if pair["chosen"] == pair["rejected"]:
        raise RewardModelError(f"chosen and rejected are equal, {_shown(pair['chosen'])}")
    return pair["prompt"], pair["chosen"], pair["rejected"]


def read_pairs(path):
    """The lines of a file of pairs, as (prompt, chosen, rejected). Raises RewardModelError."""
    pairs = []
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                pairs.append(_pair_of(line))
            except RewardModelError as error:
                raise RewardModelError(f"{path}:{number}: {error}") from None
    return pairs


def example_pairs(count, seed=1):
    """Pairs of answers to prompts of the task `reverse`. A program stands for the people who choose: it prefers large digits and answers
    as long as the prompt, and errs like people, the more often the closer two answers are."""
    draw = random.Random(seed)

    def digits(length):
        return "".join(draw.choice("0123456789") for _ in range(length))

    def quality(answer):
        return (sum(map(int, answer)) - 6 * abs(len(answer) - EXAMPLE_DIGITS)) / 4

    pairs = []
    while len(pairs) < count:
        answers = [digits(EXAMPLE_DIGITS if draw.random() < 0.8 else draw.randint(2, EXAMPLE_DIGITS)) for _ in range(2)]
        if draw.random() >= 1 / (1 + math.exp(quality(answers[1]) - quality(answers[0]))):
            answers.reverse()
        pairs.append((digits(EXAMPLE_DIGITS) + ">", *answers))
    return pairs


def _make_decoder(config):
    """A decoder of the family Llama with a head, whose parameters have the names of transformers."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    width, heads = config["hidden_size"], config["num_attention_heads"]
    head_width = width // heads

    def linear(inputs, outputs):
        return nn.Linear(inputs, outputs, bias=False)

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x):
            return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"])

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q_proj, self.k_proj, self.v_proj, self.o_proj = (linear(width, width) for _ in range(4))

        def forward(self, x, cos, sin):
            def by_head(y):
                return y.unflatten(-1, (heads, head_width)).transpose(1, 2)

            def rotated(y):
                first, second = y.chunk(2, -1)
                return y * cos + torch.cat((-second, first), -1) * sin

            query, key, value = by_head(self.q_proj(x)), by_head(self.k_proj(x)), by_head(self.v_proj(x))
            y = F.scaled_dot_product_attention(rotated(query), rotated(key), value, is_causal=True)
            return self.o_proj(y.transpose(1, 2).flatten(2))

    class Feed(nn.Module):
        def __init__(self):
            super().__init__()
            inner = config["intermediate_size"]
            self.gate_proj, self.up_proj, self.down_proj = linear(width, inner), linear(width, inner), linear(inner, width)

        def forward(self, x):
            return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.input_layernorm, self.post_attention_layernorm = Norm(), Norm()
            self.self_attn, self.mlp = Attention(), Feed()

        def forward(self, x, cos, sin):
            x = x + self.self_attn(self.input_layernorm(x), cos, sin)
            return x + self.mlp(self.post_attention_layernorm(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed_tokens = nn.Embedding(config["vocab_size"], width)
            self.layers = nn.ModuleList(Layer() for _ in range(config["num_hidden_layers"]))
            self.norm = Norm()

        def forward(self, ids):
            frequencies = config["rope_theta"] ** (-torch.arange(0, head_width, 2, dtype=torch.float32) / head_width)
            angles = torch.outer(torch.arange(ids.shape[1], dtype=torch.float32), frequencies).repeat(1, 2)
            x, cos, sin = self.embed_tokens(ids), angles.cos(), angles.sin()
            for layer in self.layers:
                x = layer(x, cos, sin)
            return self.norm(x)

    class Scorer(nn.Module):
        def __init__(self):
            super().__init__()
            self.model, self.score = Model(), linear(width, 1)
            for name, parameter in self.named_parameters():
                if parameter.dim() == 2:
                    nn.init.normal_(parameter, std=0.0 if name == "score.weight" else 0.02)

        def forward(self, ids, lengths):
            """The score at the last token of each row."""
            hidden = self.model(ids)
            return self.score(hidden[torch.arange(len(ids)), lengths - 1]).squeeze(-1)

    return Scorer()


def _padded(texts, pad):
    import torch

    lengths = torch.tensor([len(text) for text in texts])
    ids = torch.full((len(texts), int(lengths.max())), pad)
    for row, text in zip(ids, texts):
        row[: len(text)] = torch.tensor(text)
    return ids, lengths


def _write_safetensors(path, tensors):
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


def _check_sizes(sizes):
    for name, value in sizes.items():
        _, least, most, _ = SIZES[name]
        if not least <= value <= most:
            shown, first, last = (f"{x:g}" if isinstance(x, float) else x for x in (value, least, most))
            raise RewardModelError(f"--{name}: {shown}, expected a number in [{first}, {last}]")
    hidden, heads = sizes["hidden"], sizes["heads"]
    if hidden % (2 * heads) != 0:
        raise RewardModelError(f"--hidden: {hidden}, expected a multiple of 2 * --heads, {2 * heads}")


def _folder_beside(out):
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


def train_reward_model(pairs, tokens, out, *, tell=None, **sizes):
    """Trains a reward model on pairs (prompt, chosen, rejected), writes it into the folder `out`, a new or an empty one, and returns
    the share of held-out pairs, one of ten, whose chosen answer gets the higher score. `sizes` are of SIZES. Raises RewardModelError."""
    import torch

    sizes = {name: default for name, (default, *_) in SIZES.items()} | sizes
    _check_sizes(sizes)
    if len(pairs) < 2 * HELD_OUT:
        raise RewardModelError(f"there are {len(pairs)} pairs, expected at least {2 * HELD_OUT}")
    texts = [tuple(tokens.prompt(p) + tokens.answer(a) + [tokens.end] for a in (chosen, rejected)) for p, chosen, rejected in pairs]
    longest = max(len(text) for pair in texts for text in pair)
    if 0 < sizes["positions"] < longest:
        raise RewardModelError(f"--positions: {sizes['positions']}, but the longest prompt and answer have {longest} tokens")
    random.Random(sizes["seed"]).shuffle(texts)
    config = _config(sizes, tokens, sizes["positions"] or 2 * longest)
    folder, parts = _folder_beside(out)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(sizes["threads"])
        model, accuracy = _train(texts, config, sizes, tell or functools.partial(print, flush=True))
        tokens.write(parts)
        _write_safetensors(parts / "model.safetensors", model.state_dict())
        (parts / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        parts.replace(folder)  # fails if something was put there
        return accuracy
    except BaseException:
        shutil.rmtree(parts, ignore_errors=True)
        raise
    finally:
        torch.set_num_threads(threads)


def _config(sizes, tokens, positions):
    return {
        "architectures": ["LlamaForSequenceClassification"],
        "model_type": "llama",
        "vocab_size": tokens.size,
        "hidden_size": sizes["hidden"],
        "num_hidden_layers": sizes["layers"],
        "num_attention_heads": sizes["heads"],
        "num_key_value_heads": sizes["heads"],
        "intermediate_size": 3 * sizes["hidden"],
        "max_position_embeddings": positions,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "id2label": {"0": "score"},
        "label2id": {"score": 0},
        "pad_token_id": tokens.pad,
        "eos_token_id": tokens.end,
        "torch_dtype": "float32",
    }


def _train(texts, config, sizes, tell):
    """(the model, its accuracy on held-out pairs)"""
    import torch

    held_out, trained = texts[: len(texts) // HELD_OUT], texts[len(texts) // HELD_OUT :]
    steps, lr = sizes["steps"], sizes["lr"]
    torch.manual_seed(sizes["seed"])
    model = _make_decoder(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)

    def margins(chunk):
        scores = model(*_padded([chosen for chosen, _ in chunk] + [rejected for _, rejected in chunk], config["pad_token_id"]))
        return scores[: len(chunk)] - scores[len(chunk) :]

    tell(f"{len(trained)} pairs are trained on, {len(held_out)} are held out")
    draw = random.Random(sizes["seed"])
    told = time.monotonic()
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1, step / 20, (steps - step + 1) / (steps / 2))
        loss = -torch.nn.functional.logsigmoid(margins(draw.sample(trained, min(sizes["batch"], len(trained))))).mean()
        if not math.isfinite(loss.item()):
            raise RewardModelError(f"the loss is {loss.item()} in step {step}; use a smaller --lr than {lr}")
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step in (1, steps) or time.monotonic() - told >= SECONDS_PER_LINE:
            told = time.monotonic()
            tell(f"step {step} of {steps}: loss {loss.item():.3f}")
    if not all(parameter.isfinite().all() for parameter in model.parameters()):
        raise RewardModelError(f"the weights are not finite after step {steps}; use a smaller --lr than {lr}")
    with torch.no_grad():
        right = sum((margins(held_out[i : i + 256]) > 0).sum().item() for i in range(0, len(held_out), 256))
    return model, right / len(held_out)


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m troupe.reward_model", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", nargs="?", help='a file with lines {"prompt": TEXT, "chosen": TEXT, "rejected": TEXT}')
    parser.add_argument("--example", action="store_true", help="make pairs for configs/tokens/rlhf.json instead")
    parser.add_argument("--tokenizer", metavar="FOLDER", help="folder of the tokenizer.json of the policy")
    parser.add_argument("--alphabet", metavar="TEXT", help="instead: the characters of a tokenizer of the kind char, in their order")
    parser.add_argument("--chat-template", choices=("none", "chatml"), default="none", help="as tokenizer.chat_template of the run")
    parser.add_argument("--out", metavar="DIR", help=f"folder of the model; default with --example: {EXAMPLE_FOLDER}")
    for name, (default, least, most, meaning) in SIZES.items():
        shown = f"{meaning}; in [{least}, {most}], default: {default}"
        parser.add_argument(f"--{name}", type=type(default), default=default, metavar="N", help=shown)
    options = parser.parse_args(arguments)
    if options.example == bool(options.pairs):
        parser.error("give either a file of pairs or --example")
    if options.example and (options.tokenizer or options.alphabet):
        parser.error("--example has its own alphabet; leave --tokenizer and --alphabet out")
    if not options.example and ((options.tokenizer is None) == (options.alphabet is None) or not options.out):
        parser.error("a file of pairs needs --out, and either --tokenizer or --alphabet")
    try:
        if options.tokenizer:
            tokens = tokens_of(options.tokenizer, options.chat_template)
        else:
            tokens = CharTokens(EXAMPLE_ALPHABET if options.example else options.alphabet)
        pairs = example_pairs(EXAMPLE_PAIRS, options.seed) if options.example else read_pairs(options.pairs)
        out = options.out or EXAMPLE_FOLDER
        accuracy = train_reward_model(pairs, tokens, out, **{name: getattr(options, name) for name in SIZES})
    except OSError as error:
        sys.exit(f"troupe.reward_model: {error.filename}: {error.strerror}")
    except RewardModelError as error:
        sys.exit("troupe.reward_model: " + " ".join(str(error).split()))
    except ImportError as missing:
        sys.exit(f"troupe.reward_model: the Python package {missing.name} is missing; it needs PyTorch")
    except KeyboardInterrupt:
        sys.exit("troupe.reward_model: interrupted; nothing was written")
    print(f"{out}: the chosen answer has the higher score in {accuracy:.1%} of the held-out pairs")


if __name__ == "__main__":
    main()
