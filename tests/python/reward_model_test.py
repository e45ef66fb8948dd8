"""Reward models made from pairs: what they prefer, that transformers loads them, and runs that are trained with one."""

import json
import random
import struct
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")


import troupe  # noqa: E402
from troupe import _reward_training, reward_model  # noqa: E402

PAIRS = 1500
RUN = {
    "task": {"params": {"digits": 2}},
    "model": {
        "kind": "decoder",
        "decoder": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 32},
    },
    "algorithm": {"advantage": "rloo"},
    "generation": {"answers": 4},
    "workers": {"groups": 4},
    "trainer": {"super_batch": 32, "minibatches": 1, "epochs": 1},
    "evaluation": {"every_updates": 2, "episodes": 8},
}


def quality(answer):
    return sum(map(int, answer))


def pairs_of(count, seed):
    """Answers of which the one with the larger sum is chosen, in each pair."""
    draw = random.Random(seed)
    digits = lambda: "".join(draw.choice("0123456789") for _ in range(4))
    pairs = []
    while len(pairs) < count:
        chosen, rejected = sorted((digits(), digits()), key=quality, reverse=True)
        if quality(chosen) - quality(rejected) > 1:
            pairs.append((digits() + ">", chosen, rejected))
    return pairs


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a reward model, and its accuracy on held-out pairs."""
    folder = tmp_path_factory.mktemp("reward_model")
    tokens = reward_model.CharTokens(reward_model.EXAMPLE_ALPHABET)
    lines = []
    sizes = {"hidden": 32, "layers": 1, "steps": 150, "batch": 32, "lr": 5e-3}
    accuracy = reward_model.train_reward_model(pairs_of(PAIRS, seed=1), tokens, folder, **sizes, tell=lines.append)
    assert lines[-1].startswith("step 150 of 150: loss ")
    return folder, accuracy


def test_the_chosen_answer_of_held_out_pairs_gets_the_higher_score(made):
    assert made[1] >= 0.9


def test_transformers_loads_the_model_and_its_tokenizer(made):
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(made[0]).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(made[0])
    assert model.config.num_labels == 1 and type(model).__name__ == "LlamaForSequenceClassification"
    pairs = pairs_of(100, seed=2)
    texts = [prompt + answer + tokenizer.eos_token for prompt, *answers in pairs for answer in answers]
    with torch.no_grad():
        scores = model(**tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)).logits.view(-1, 2)
    assert (scores[:, 0] > scores[:, 1]).float().mean() >= 0.9


def test_the_same_pairs_and_seed_make_the_same_model(tmp_path):
    tokens = reward_model.CharTokens(reward_model.EXAMPLE_ALPHABET)
    for name in ("a", "b"):
        reward_model.train_reward_model(pairs_of(40, seed=1), tokens, tmp_path / name, hidden=16, layers=1, steps=3, tell=lambda _: None)
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()


def test_the_command_reads_pairs_and_writes_a_folder(tmp_path, capsys):
    file = tmp_path / "pairs.jsonl"
    keys = ("prompt", "chosen", "rejected")
    file.write_text("".join(json.dumps(dict(zip(keys, pair))) + "\n" for pair in pairs_of(40, seed=1)))
    sizes = ["--hidden", "16", "--layers", "1", "--steps", "2"]
    reward_model.main([str(file), "--alphabet", reward_model.EXAMPLE_ALPHABET, "--out", str(tmp_path / "first"), *sizes])
    assert "of the held-out pairs" in capsys.readouterr().out
    reward_model.main([str(file), "--tokenizer", str(tmp_path / "first"), "--out", str(tmp_path / "second"), *sizes])
    for name in ("tokenizer.json", "config.json", "model.safetensors"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


PAIR = '{"prompt": "1>", "chosen": "1", "rejected": "2"}'
PAIRS_OF_PROMPTS = "".join(f'{{"prompt": "{i}>", "chosen": "1", "rejected": "2"}}\n' for i in range(20))
DIGITS = "0123456789>"


def refusal(arguments):
    """What the command says about arguments that it refuses."""
    with pytest.raises(SystemExit) as refused:
        reward_model.main([str(argument) for argument in arguments])
    text = str(refused.value)
    assert text.startswith("troupe.reward_model: ") and "\n" not in text
    return text.removeprefix("troupe.reward_model: ")


@pytest.mark.parametrize(
    ("line", "alphabet", "what"),
    [
        ('{"prompt": "1>", "chosen": "1"}', DIGITS, "pairs.jsonl:1: rejected is missing, expected prompt, chosen and rejected"),
        ('{"prompt": "1>", "chosen": "1", "rejected": 2}', DIGITS, "pairs.jsonl:1: rejected: 2, expected a text"),
        ('{"prompt": "1>", "chosen": "1", "rejected": "\\ud800"}', DIGITS, "pairs.jsonl:1: rejected: '\\ud800', expected a text"),
        ('{"prompt": "1>", "chosen": "1", "rejected": "1"}', DIGITS, "pairs.jsonl:1: chosen and rejected are equal, '1'"),
        ('{"prompt": "", "chosen": "1", "rejected": "2"}', DIGITS, "pairs.jsonl:1: prompt is empty"),
        (PAIR + "\n[1]", DIGITS, "pairs.jsonl:2: expected a JSON object with prompt, chosen and rejected"),
        (PAIR + "\n" + 100_000 * "[", DIGITS, "pairs.jsonl:2: is not JSON in UTF-8: "),
        (PAIR.encode() + b"\n\xff", DIGITS, "pairs.jsonl:2: is not JSON in UTF-8: "),
        (PAIR, DIGITS, "there are too few different pairs: 1, expected at least 20"),
        (PAIRS_OF_PROMPTS + '{"prompt": "a", "chosen": "1", "rejected": "2"}', DIGITS, "pairs.jsonl:21: 'a' has the character 'a'"),
        ("", "11", "--alphabet: '11', expected each character once"),
    ],
)
def test_pairs_that_cannot_be_used_are_refused_in_one_line(tmp_path, line, alphabet, what):
    file = tmp_path / "pairs.jsonl"
    file.write_bytes(line if isinstance(line, bytes) else line.encode())
    assert what in refusal([file, "--alphabet", alphabet, "--out", tmp_path / "out"])
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([""], "pairs: is empty, expected a file"),
        (["--example", "--out", ""], "--out: is empty, expected a folder"),
        (["pairs.jsonl", "--alphabet", DIGITS, "--out="], "--out: is empty, expected a folder"),
        (["pairs.jsonl", "--tokenizer", "", "--out", "out"], "--tokenizer: is empty, expected a folder"),
    ],
)
def test_an_empty_path_is_refused(capsys, arguments, what):
    with pytest.raises(SystemExit) as refused:
        reward_model.main(arguments)
    assert refused.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: {what}\n")


@pytest.mark.parametrize(
    "setting",
    ["heads 0", "heads -4", "hidden 0", "hidden -64", "hidden 20", "layers 0", "steps -5", "batch 0", "positions -5", "longest 1"]
    + ["lr nan", "lr -1", "lr 1e+30", "seed -1", "seed 99999999999999999999999", "threads 0"],
)
def test_a_size_that_cannot_be_used_is_refused_in_one_line(tmp_path, setting):
    name, value = setting.split()
    file = tmp_path / "pairs.jsonl"
    file.write_text(PAIRS_OF_PROMPTS)
    text = refusal([file, "--alphabet", DIGITS, "--out", tmp_path / "out", f"--{name}={value}"])
    assert text.startswith(f"--{name}: {value}, ")
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.jsonl"]


@pytest.mark.parametrize(
    ("tokenizer", "what"),
    [
        ("[]", "tokenizer.json is not a JSON object"),
        ("{", "has no tokenizer.json that can be read: "),
        (100_000 * "[", "has no tokenizer.json that can be read: "),
        ('{"model": null}', "tokenizer.json: model is None, expected an object"),
        ('{"model": {"type": "WordLevel"}}', "is of the type WordLevel and not one that troupe has written"),
        ('{"model": {"type": "WordLevel", "vocab": []}}', "is of the type WordLevel and not one that troupe has written"),
        ('{"model": {"type": "WordLevel", "vocab": {"<pad>": 0, "<eos>": "1"}}}', "is of the type WordLevel and not one that troupe"),
        ('{"model": {"type": "WordLevel", "vocab": {"<pad>": 0, "<eos>": 1, "0": 7}}}', "is of the type WordLevel and not one that"),
    ],
)
def test_a_tokenizer_that_cannot_be_used_is_refused_in_one_line(tmp_path, tokenizer, what):
    (tmp_path / "tokenizer.json").write_text(tokenizer)
    (tmp_path / "pairs.jsonl").write_text(PAIRS_OF_PROMPTS)
    text = refusal([tmp_path / "pairs.jsonl", "--tokenizer", tmp_path, "--out", tmp_path / "out"])
    assert text.startswith(f"--tokenizer: {tmp_path}: {what}")
    assert not (tmp_path / "out").exists()


def test_a_tokenizer_that_the_package_tokenizers_refuses_is_refused_in_one_line(tmp_path):
    pytest.importorskip("tokenizers", reason="needs tokenizers")
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "BPE", "vocab": 1}}')
    (tmp_path / "pairs.jsonl").write_text(PAIRS_OF_PROMPTS)
    text = refusal([tmp_path / "pairs.jsonl", "--tokenizer", tmp_path, "--out", tmp_path / "out"])
    assert text.startswith(f"--tokenizer: {tmp_path}: the package tokenizers cannot read tokenizer.json: ")


def test_a_folder_that_holds_files_is_refused_before_the_training_and_keeps_them(tmp_path):
    (tmp_path / "pairs.jsonl").write_text(PAIRS_OF_PROMPTS)
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy" / "config.json").write_text("of a policy")
    (tmp_path / "file").write_text("text")
    begin = [tmp_path / "pairs.jsonl", "--alphabet", DIGITS, "--steps", 10_000_000, "--out"]
    text = refusal([*begin, tmp_path / "policy"])
    assert text == f"--out: {tmp_path / 'policy'}: is not empty, expected a new or an empty folder"
    assert [path.name for path in (tmp_path / "policy").iterdir()] == ["config.json"]
    assert (tmp_path / "policy" / "config.json").read_text() == "of a policy"
    assert refusal([*begin, tmp_path / "file"]) == f"--out: {tmp_path / 'file'}: is not a folder, expected a new or an empty one"
    under = tmp_path / "file" / "out"
    assert refusal([*begin, under]) == f"--out: {under}: cannot be made: File exists"
    assert refusal([tmp_path / "none", "--alphabet", DIGITS, "--out", under]) == f"{tmp_path / 'none'}: No such file or directory"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "pairs.jsonl", "policy"]


def test_training_that_diverges_writes_nothing(tmp_path, monkeypatch):
    tokens = reward_model.CharTokens(DIGITS)
    made = _reward_training._make_decoder

    def broken(config):
        model = made(config)
        torch.nn.init.constant_(model.score.weight, float("nan"))
        return model

    monkeypatch.setattr(_reward_training, "_make_decoder", broken)
    with pytest.raises(reward_model.RewardModelError, match="^the loss is nan in step 1; use a smaller --lr than 0.002$"):
        reward_model.train_reward_model(pairs_of(40, seed=1), tokens, tmp_path / "out", hidden=16, tell=lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_the_training_tells_what_it_does_from_its_begin(tmp_path):
    lines = []
    tokens = reward_model.CharTokens(DIGITS)
    reward_model.train_reward_model(pairs_of(40, seed=1), tokens, tmp_path / "out", hidden=16, layers=1, steps=2, tell=lines.append)
    assert lines[0] == "trained on 36 pairs of 36 prompts; held out: 4 pairs of 4 prompts"
    assert lines[1].startswith("step 1 of 2: loss ") and lines[2].startswith("step 2 of 2: loss ")


def points_of(folder):
    return [json.loads(line) for line in Path(folder, "metrics.jsonl").read_text().splitlines()]


def test_a_run_is_trained_with_both_scores_and_reports_them(made, in_a_folder):
    settings = {"reward_model__path": str(made[0]), "reward_model__weight": 0.25, "task__weight": 2}
    run = troupe.train(RUN, run_dir="run", stop__updates=4, stats__window=10, quiet=True, **settings)
    assert run.exit_code == 0
    episodes = points_of(run.folder)[-1]["episodes"]
    parts = episodes["return_parts"]
    assert set(parts) == {"task", "reward_model"} and parts["reward_model"] != 0
    assert episodes["return_mean"] == pytest.approx(2 * parts["task"] + 0.25 * parts["reward_model"], abs=1e-3)
    assert run.summary["ledger"]["verifier_failed"] == 0
    run = troupe.train(run.folder, stop__updates=6, quiet=True)
    assert run.exit_code == 0 and run.summary["updates"] == 6


def test_another_reward_model_is_refused_at_a_resume(made, in_a_folder, tmp_path):
    folder = tmp_path / "rewards"
    folder.mkdir()
    for file in made[0].iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    run = troupe.train(RUN, run_dir="run", stop__updates=1, reward_model__path=str(folder), quiet=True)
    assert run.exit_code == 0
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:-4] + struct.pack("<f", 0.5))
    with pytest.raises(troupe.RunError, match="made of something else .*reward_model .the hash .*. was [0-9a-f]{16} and is now"):
        troupe.train(run.folder, stop__updates=2, quiet=True)


def test_a_reward_model_that_does_not_fit_is_refused_before_the_run(made, in_a_folder, tmp_path):
    with pytest.raises(troupe.RunError, match="^reward_model.path: nowhere: there is no such folder"):
        troupe.train(RUN, run_dir="run", reward_model__path="nowhere", quiet=True)
    with pytest.raises(troupe.RunError, match="^reward_model.path: .* has 13 tokens .* the tokenizer of the policy 14 tokens"):
        troupe.train(RUN, run_dir="run", reward_model__path=str(made[0]), tokenizer__alphabet="0123456789>x", quiet=True)
    assert not Path("run").exists()
