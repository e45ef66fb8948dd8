"""The training of troupe.reward_model: a decoder with a head, which gets to know which answer of a pair is better."""

import functools
import json
import math
import random
import shutil

from ._reward_files import RewardModelError, folder_beside, write_safetensors
from ._reward_pairs import Pair, counted, different_pairs, split_by_prompt
from ._reward_progress import Progress

SECONDS_PER_LINE = 5  # at most so long without a line about the training

# Settings of the training: default, smallest, largest, meaning.
SIZES = {
    "hidden": (64, 2, 8192, "width of the model, a multiple of 2 * HEADS"),
    "layers": (2, 1, 200, "layers of the model"),
    "heads": (4, 1, 512, "attention heads of each layer"),
    "longest": (2048, 2, 1 << 20, "most tokens of a prompt and an answer together; a pair with more is refused"),
    "positions": (0, 0, 1 << 20, "longest prompt and answer that the model can score, in tokens; 0 = twice that of the pairs"),
    "steps": (300, 1, 10_000_000, "updates"),
    "batch": (64, 1, 100_000, "pairs of each step"),
    "lr": (2e-3, 1e-9, 1.0, "highest learning rate"),
    "seed": (1, 0, 2**63 - 1, "of the first weights and the order of the pairs"),
    "threads": (1, 1, 1024, "CPU threads; more make only large models faster"),
}


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

    class RewardModel(nn.Module):
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

    return RewardModel()


def _padded(texts, pad):
    import torch

    lengths = torch.tensor([len(text) for text in texts])
    ids = torch.full((len(texts), int(lengths.max())), pad)
    for row, text in zip(ids, texts):
        row[: len(text)] = torch.tensor(text)
    return ids, lengths


def _check_sizes(sizes):
    for name, value in sizes.items():
        _, least, most, _ = SIZES[name]
        if not least <= value <= most:
            shown, first, last = (f"{x:g}" if isinstance(x, float) else x for x in (value, least, most))
            raise RewardModelError(f"--{name}: {shown}, expected a number in [{first}, {last}]")
    hidden, heads = sizes["hidden"], sizes["heads"]
    if hidden % (2 * heads) != 0:
        raise RewardModelError(f"--hidden: {hidden}, expected a multiple of 2 * --heads, {2 * heads}")


def _tokens_of_pairs(pairs, tokens, sizes, progress):
    """(chosen, rejected) of each pair as tokens. Raises RewardModelError for a text that the tokenizer or the model cannot take."""
    texts = []
    for number, pair in enumerate(pairs, 1):
        place = pair.place or f"pair {number}"
        progress.begin(f"tokenizing pair {number} of {len(pairs)}", f"{number - 1} of {len(pairs)} pairs are tokenized")
        try:
            texts.append(tuple(tokens.prompt(pair.prompt) + tokens.answer(a) + [tokens.end] for a in (pair.chosen, pair.rejected)))
        except RewardModelError as error:
            raise RewardModelError(f"{place}: {error}") from None
        longest = max(map(len, texts[-1]))
        for name in ("longest", "positions"):
            if 0 < sizes[name] < longest:
                raise RewardModelError(f"{place}: prompt and answer have {longest} tokens, more than --{name} {sizes[name]}")
    return texts


def train_reward_model(pairs, tokens, out, *, tell=None, **sizes):
    """Trains a reward model on pairs (prompt, chosen, rejected), writes it into the folder `out`, a new or an empty one, and returns
    the share of held-out pairs, about one of ten, whose chosen answer gets the higher score. They have other prompts than those that are
    trained on. `sizes` are of SIZES. `tell` gets lines about the training, some of them from another thread. Raises RewardModelError."""
    import torch

    sizes = {name: default for name, (default, *_) in SIZES.items()} | sizes
    _check_sizes(sizes)
    tell = tell or functools.partial(print, flush=True)
    pairs = [Pair(*pair) for pair in pairs]
    different = different_pairs(pairs)
    folder = parts = None
    threads = torch.get_num_threads()
    try:
        with Progress(tell, SECONDS_PER_LINE) as progress:
            if len(different) < len(pairs):
                progress.tell(f"{counted(len(pairs) - len(different), 'pair')} left out, because an equal one came before")
            texts = dict(zip(different, _tokens_of_pairs(different, tokens, sizes, progress)))
            longest = max(len(text) for pair in texts.values() for text in pair)
            config = _config(sizes, tokens, sizes["positions"] or 2 * longest)
            folder, parts = folder_beside(out)
            torch.set_num_threads(sizes["threads"])
            model, accuracy = _train(texts, config, sizes, progress)
            progress.begin("writing the model")
            tokens.write(parts)
            write_safetensors(parts / "model.safetensors", model.state_dict())
            (parts / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
            parts.replace(folder)  # fails if something was put there
            return accuracy
    except BaseException:
        if parts:
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


def _accuracy(margins, texts, progress):
    """The share of these pairs whose chosen answer has the higher score."""
    import torch

    right, at_a_time = 0, 256
    with torch.no_grad():
        for first in range(0, len(texts), at_a_time):
            progress.begin(f"scoring the held-out pairs from number {first + 1} of {len(texts)} on")
            right += (margins(texts[first : first + at_a_time]) > 0).sum().item()
    return right / len(texts)


def _train(texts, config, sizes, progress):
    """(the model, its accuracy on held-out pairs). `texts` has the tokens of each pair."""
    import torch

    trained, held_out = split_by_prompt(texts, sizes["seed"])
    on, out = (f"{counted(len(part), 'pair')} of {counted(len({p.prompt for p in part}), 'prompt')}" for part in (trained, held_out))
    progress.tell(f"trained on {on}; held out: {out}")
    trained, held_out = ([texts[pair] for pair in part] for part in (trained, held_out))
    steps, lr = sizes["steps"], sizes["lr"]
    torch.manual_seed(sizes["seed"])
    model = _make_decoder(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)

    def margins(chunk):
        scores = model(*_padded([chosen for chosen, _ in chunk] + [rejected for _, rejected in chunk], config["pad_token_id"]))
        return scores[: len(chunk)] - scores[len(chunk) :]

    draw, done = random.Random(sizes["seed"]), None
    for step in range(1, steps + 1):
        progress.begin(f"step {step} of {steps}", done)
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1, step / 20, (steps - step + 1) / (steps / 2))
        loss = -torch.nn.functional.logsigmoid(margins(draw.sample(trained, min(sizes["batch"], len(trained))))).mean()
        if not math.isfinite(loss.item()):
            raise RewardModelError(f"the loss is {loss.item()} in step {step}; use a smaller --lr than {lr}")
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        done = f"step {step} of {steps}: loss {loss.item():.3f}"
        if step in (1, steps):
            progress.tell(done)
            done = None
    if not all(parameter.isfinite().all() for parameter in model.parameters()):
        raise RewardModelError(f"the weights are not finite after step {steps}; use a smaller --lr than {lr}")
    return model, _accuracy(margins, held_out, progress)
