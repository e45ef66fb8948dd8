#!/usr/bin/env python3
"""Writes what transformers computes with a pre-trained model, for transformers_test.cpp.

smollm2_case.py MODEL FILE: token ids [T] of two texts with 24 greedy tokens each behind their prompts, the lengths of the prompts, and
the logits [T, V] computed in float64, as the tensors ids_N, prompt_N and logits_N of FILE.
"""

import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXTS = ("The capital of France is", "<|im_start|>user\nWhat is 12 + 7?<|im_end|>\n<|im_start|>assistant\n")


def main():
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
    tensors = {}
    for number, text in enumerate(TEXTS):
        prompt = tokenizer(text, return_tensors="pt")
        ids = model.generate(**prompt, max_new_tokens=24, do_sample=False)
        tensors[f"ids_{number}"] = ids[0].int()
        tensors[f"prompt_{number}"] = torch.tensor([prompt.input_ids.shape[1]], dtype=torch.int32)
    model.double()
    for number in range(len(TEXTS)):
        with torch.no_grad():
            logits = model(tensors[f"ids_{number}"][None].long()).logits[0]
        tensors[f"logits_{number}"] = logits.float().contiguous()
    save_file(tensors, sys.argv[2])


if __name__ == "__main__":
    main()
