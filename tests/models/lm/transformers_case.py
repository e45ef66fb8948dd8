#!/usr/bin/env python3
"""Writes random tiny models of transformers and what they compute, for transformers_test.cpp.

transformers_case.py FOLDER: one folder in it per model, with config.json and model.safetensors as save_pretrained() writes them,
and expected.safetensors with token ids [T] and logits [T, V].
"""

import os
import sys

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

SIZES = {
    "vocab_size": 93,
    "hidden_size": 48,
    "intermediate_size": 100,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
CASES = {
    "llama": (LlamaForCausalLM, LlamaConfig, {"tie_word_embeddings": True}),
    "llama_heads": (LlamaForCausalLM, LlamaConfig, {"num_key_value_heads": 6, "head_dim": 10, "rms_norm_eps": 1e-5}),
    "llama3": (LlamaForCausalLM, LlamaConfig, {"rope_scaling": LLAMA3, "rope_theta": 500000.0}),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config, {"rope_theta": 1000000.0}),
    "qwen2_tied": (Qwen2ForCausalLM, Qwen2Config, {"tie_word_embeddings": True}),
    "llama_bf16": (LlamaForCausalLM, LlamaConfig, {}),
    "qwen2_sharded_f16": (Qwen2ForCausalLM, Qwen2Config, {}),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, {"head_dim": 20}),
    "qwen3_default": (Qwen3ForCausalLM, Qwen3Config, {}),
}


DTYPES = {"llama_bf16": torch.bfloat16, "qwen2_sharded_f16": torch.float16}


def write_case(folder, make_model, make_config, settings, dtype, seed):
    torch.manual_seed(seed)
    model = make_model(make_config(**{**SIZES, **settings})).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases too, which are 1 and 0 in a new model
            parameter.add_(0.1 * torch.randn_like(parameter))
            parameter.copy_(parameter.to(dtype))
        ids = torch.randint(SIZES["vocab_size"], (1, 100))
        logits = model(input_ids=ids).logits[0]
    model.to(dtype).save_pretrained(folder, max_shard_size="20KB" if "sharded" in folder else "1GB")
    save_file({"ids": ids[0].int(), "logits": logits.float().contiguous()}, os.path.join(folder, "expected.safetensors"))


def main():
    for seed, (name, (make_model, make_config, settings)) in enumerate(CASES.items()):
        write_case(os.path.join(sys.argv[1], name), make_model, make_config, settings, DTYPES.get(name, torch.float32), seed)


if __name__ == "__main__":
    main()
