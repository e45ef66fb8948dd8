#!/usr/bin/env python3
"""Writes random tiny models of sequence classification with one label, and their scores, for reward_scores_test.cpp.

scores_case.py FOLDER: one folder in it per model, as save_pretrained() writes it, and expected.safetensors with the ids of a prompt
[P], of answers to it [A, T] with their lengths [A], and scores [A], which transformers computes in one batch with padding.
"""

import os
import sys

import torch
from safetensors.torch import save_file
from transformers import (
    LlamaConfig,
    LlamaForSequenceClassification,
    Qwen2Config,
    Qwen2ForSequenceClassification,
    Qwen3Config,
    Qwen3ForSequenceClassification,
)
from transformers_case import SIZES

CASES = {
    "llama": (LlamaForSequenceClassification, LlamaConfig, {}),
    "qwen2": (Qwen2ForSequenceClassification, Qwen2Config, {"tie_word_embeddings": True}),
    "qwen3": (Qwen3ForSequenceClassification, Qwen3Config, {"head_dim": 20}),
}
PAD = 0


def write_case(folder, make_model, make_config, settings, seed):
    torch.manual_seed(seed)
    model = make_model(make_config(**SIZES, **settings, num_labels=1, pad_token_id=PAD)).float().eval()
    prompt = torch.randint(1, SIZES["vocab_size"], (20,))
    answers = torch.randint(1, SIZES["vocab_size"], (5, 12))
    lengths = torch.tensor([12, 1, 7, 3, 10])
    for answer, length in zip(answers, lengths):
        answer[length:] = PAD
    ids = torch.cat((prompt.expand(len(answers), -1), answers), 1)
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases too, which are 1 and 0 in a new model
            parameter.add_(0.1 * torch.randn_like(parameter))
        scores = model(input_ids=ids, attention_mask=(ids != PAD).long()).logits[:, 0]
    model.save_pretrained(folder)
    expected = {"prompt": prompt.int(), "answers": answers.int(), "lengths": lengths.int(), "scores": scores.contiguous()}
    save_file(expected, os.path.join(folder, "expected.safetensors"))


def main():
    for seed, (name, (make_model, make_config, settings)) in enumerate(CASES.items()):
        write_case(os.path.join(sys.argv[1], name), make_model, make_config, settings, seed)


if __name__ == "__main__":
    main()
