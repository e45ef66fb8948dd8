"""Pairs from which a reward model is made: which are held out, equal ones, long ones, and what is told while a step takes long."""

import json
import threading

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

from troupe import _reward_training, reward_model  # noqa: E402
from troupe._reward_pairs import Pair, different_pairs, split_by_prompt  # noqa: E402
from troupe._reward_progress import Progress  # noqa: E402

DIGITS = "0123456789>"
SMALL = {"hidden": 16, "layers": 1, "steps": 2}


def pair(prompt, number):
    """One of the pairs of a prompt."""
    return (f"{prompt}>", f"{number}9", f"{number}1")


def told(pairs, folder, **sizes):
    lines = []
    reward_model.train_reward_model(pairs, reward_model.CharTokens(DIGITS), folder, **{**SMALL, **sizes}, tell=lines.append)
    return lines


def refusal(pairs, folder, **sizes):
    with pytest.raises(reward_model.RewardModelError) as refused:
        told(pairs, folder, **sizes)
    assert not folder.exists() and "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("seed", range(5))
def test_all_pairs_of_a_prompt_are_on_one_side(seed):
    pairs = [Pair(*pair(prompt, number)) for prompt in range(30) for number in range(1 + prompt % 4)]
    trained, held_out = split_by_prompt(pairs, seed)
    assert sorted(trained + held_out) == sorted(pairs)
    assert not {p.prompt for p in trained} & {p.prompt for p in held_out}
    assert 1 <= len(held_out) <= len(pairs) // 10


def test_one_pair_of_ten_is_held_out_where_each_has_its_own_prompt():
    trained, held_out = split_by_prompt([Pair(*pair(prompt, 1)) for prompt in range(57)], 1)
    assert (len(trained), len(held_out)) == (52, 5)


def test_the_smallest_prompt_is_held_out_where_each_has_more_than_a_tenth_of_the_pairs():
    pairs = [Pair(*pair(prompt, number)) for prompt, count in ((1, 12), (2, 8), (3, 10)) for number in range(count)]
    trained, held_out = split_by_prompt(pairs, 1)
    assert {p.prompt for p in held_out} == {"2>"} and {p.prompt for p in trained} == {"1>", "3>"}


def test_equal_pairs_count_once():
    pairs = [Pair(*pair(prompt % 25, 1), place=f"line {prompt}") for prompt in range(100)]
    assert [p.place for p in different_pairs(pairs)] == [f"line {number}" for number in range(25)]
    turned = [Pair(prompt, rejected, chosen) for prompt, chosen, rejected, _ in pairs[:25]]
    assert len(different_pairs(pairs + turned)) == 50


def test_it_tells_how_many_pairs_were_left_out_and_how_many_prompts_are_held_out(tmp_path):
    pairs = [pair(prompt, number) for prompt in range(10) for number in range(4)]
    lines = told(pairs + pairs[:7], tmp_path / "out")
    assert lines[:2] == [
        "7 pairs left out, because an equal one came before",
        "trained on 36 pairs of 9 prompts; held out: 4 pairs of 1 prompt",
    ]


def test_pairs_of_which_all_are_equal_or_have_one_prompt_are_refused(tmp_path):
    assert refusal(50 * [pair(1, 1)], tmp_path / "out") == "there are too few different pairs: 1, expected at least 20"
    one = refusal([pair(1, number) for number in range(30)], tmp_path / "out")
    assert one == "all pairs have the prompt '1>', expected at least 2 prompts, because the held-out pairs have prompts of their own"


def test_a_pair_with_too_many_tokens_is_refused_with_its_line_and_the_limit(tmp_path):
    file = tmp_path / "pairs.jsonl"
    keys = ("prompt", "chosen", "rejected")
    pairs = [pair(prompt, 1) for prompt in range(30)]
    pairs[11] = ("11>", "1" * 300_000, "2")
    file.write_text("".join(json.dumps(dict(zip(keys, p))) + "\n" for p in pairs))
    with pytest.raises(SystemExit) as refused:
        reward_model.main([str(file), "--alphabet", DIGITS, "--out", str(tmp_path / "out")])
    assert str(refused.value) == f"troupe.reward_model: {file}:12: prompt and answer have 300004 tokens, more than --longest 2048"
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.jsonl"]


def test_the_limits_hold_for_the_longer_answer_with_its_end(tmp_path):
    pairs = [pair(prompt, 1) for prompt in range(10, 40)]  # 3 tokens of the prompt, 2 of each answer, 1 of the end
    for name in ("longest", "positions"):
        assert refusal(pairs, tmp_path / "out", **{name: 5}) == f"pair 1: prompt and answer have 6 tokens, more than --{name} 5"
        assert told(pairs, tmp_path / name, **{name: 6})[-1].startswith("step 2 of 2")


def test_a_step_that_takes_long_tells_a_line_before_it_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr(_reward_training, "SECONDS_PER_LINE", 0.05)
    lines, twice = [], threading.Event()
    made = _reward_training._make_decoder

    def tell(line):
        lines.append(line)
        if sum(line.startswith("step 1 of 1: under way for ") for line in lines) == 2:
            twice.set()

    def slow(config):
        model = made(config)
        model.register_forward_pre_hook(lambda *_: twice.wait(60) and None)
        return model

    monkeypatch.setattr(_reward_training, "_make_decoder", slow)
    pairs = [pair(prompt, 1) for prompt in range(30)]
    reward_model.train_reward_model(pairs, reward_model.CharTokens(DIGITS), tmp_path / "out", hidden=16, steps=1, tell=tell)
    assert twice.is_set()
    assert lines[0].startswith("trained on ") and any(line.startswith("step 1 of 1: loss ") for line in lines)


def test_lines_that_cannot_be_written_end_the_training(tmp_path):
    tried = threading.Event()

    def tell(_):
        tried.set()
        raise BrokenPipeError("no reader")

    with pytest.raises(BrokenPipeError), Progress(tell, 0.01) as progress:
        progress.begin("work")
        assert tried.wait(60)
        while True:  # until the thread has noted it
            progress.begin("work")
