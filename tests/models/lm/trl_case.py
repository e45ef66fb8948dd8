#!/usr/bin/env python3
"""Writes what TRL's GRPOTrainer computes from some answers, for trl_test.cpp.

trl_case.py FOLDER [CASE ...]: one folder in it per model, with the folders reference and policy, as save_pretrained() writes them, and
one file CASE.safetensors per case: the answers, the loss, and the gradient of every parameter (gradient.NAME, float64). Its metadata
has the settings of the same loss in a run of troupe (config), and how far TRL in float32 is from TRL in float64 (float32_loss and
float32_gradient, relative; of a gradient: to its largest element).

The trainer gets its answers from a rollout function. It computes the old log-probabilities with other weights than those that it
differentiates, so ratios differ from 1 and clipping acts, and the reference has a third set of weights. Rewards, advantages, masks and
losses are TRL's code. In float64 the model is that of transformers without its roundings to float32.
"""

import json
import os
import sys
import tempfile
import types

os.environ.update(TRL_EXPERIMENTAL_SILENCE="1", HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="")

import torch
from datasets import Dataset
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)
from transformers_case import SIZES
from trl import GRPOConfig, GRPOTrainer

MODELS = {
    "llama": (LlamaForCausalLM, LlamaConfig, {"tie_word_embeddings": False}),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config, {"tie_word_embeddings": True}),
}
PAD, END = 0, 1
LONGEST = 12
# Of the answers to each prompt. Those of LONGEST tokens are cut: they have no end token.
LENGTHS = ((12, 1, 7, 3), (2, 12, 12, 5), (9, 4, 6, 11), (8, 12, 1, 10))
PROMPTS = (3, 14, 1, 9)
REWARDS = ((0.7, -1.2, 0.1, 2.3), (1, 0, 0, 1), (0.5, 0.5, 0.5, 0.5), (-0.3, 0.9, 0.4, -2.0))

# Arguments of GRPOConfig, and the section "algorithm" of the same run (besides GRPO), with other sections by their names.
TOKENS, ANSWERS = {"aggregation": "token-mean"}, {"aggregation": "seq-mean-token-mean"}
LENGTH = {"aggregation": "seq-mean-token-sum-norm"}
CASES = {
    "grpo": ({"loss_type": "grpo"}, ANSWERS),
    "bnpo": ({"loss_type": "bnpo"}, TOKENS),
    "dapo": ({"loss_type": "dapo", "epsilon_high": 0.28}, {**TOKENS, "clip_low": 0.2, "clip_high": 0.28}),
    "dr_grpo": ({"loss_type": "dr_grpo", "scale_rewards": "none"}, {**LENGTH, "advantage": "dr_grpo"}),
    "cispo": (
        {"loss_type": "cispo", "epsilon_high": 1.1},
        {**TOKENS, "surrogate": "cispo", "clip_high": 0.1},
    ),
    "gspo": (
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.03, "epsilon_high": 0.04},
        {**ANSWERS, "surrogate": "gspo", "clip_low": 0.03, "clip_high": 0.04},
    ),
    "sapo": ({"loss_type": "sapo"}, {**ANSWERS, "surrogate": "sapo"}),
    "delta": (
        {"loss_type": "bnpo", "delta": 1.3},
        {**TOKENS, "surrogate": "dual_clip", "dual_clip": 1.3},
    ),
    "scale_none": ({"loss_type": "grpo", "scale_rewards": "none"}, {**ANSWERS, "advantage": "dr_grpo"}),
    "temperature": ({"loss_type": "dapo", "temperature": 0.7}, TOKENS),
    "entropy": ({"loss_type": "bnpo", "entropy_coef": 0.05}, {**TOKENS, "entropy_coef": 0.05}),
    "beta": ({"loss_type": "dapo", "beta": 0.3}, TOKENS),
    "beta_grpo": ({"loss_type": "grpo", "beta": 0.3}, ANSWERS),
    "beta_gspo": (
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.03, "beta": 0.3},
        {**ANSWERS, "surrogate": "gspo", "clip_low": 0.03, "clip_high": 0.03},
    ),
}


def config_of(arguments, algorithm):
    """The config file of the same run."""
    estimator = {"advantage": "grpo", "advantage_params": {"epsilon": 1e-4}}
    if algorithm.get("advantage") == "dr_grpo":
        estimator = {}
    config = {
        "algorithm": {**estimator, **algorithm},
        "generation": {"temperature": arguments.get("temperature", 1.0), "max_tokens": LONGEST},
    }
    if "beta" in arguments:
        config["reference"] = {"model": "start", "in": "loss", "kl_coef": arguments["beta"]}
    return config


def random_answers():
    """Prompts and their answers, as lists of ids."""
    generator = torch.Generator().manual_seed(5)

    def ids(count):
        return torch.randint(END + 1, SIZES["vocab_size"], (count,), generator=generator).tolist()

    prompts = [ids(count) for count in PROMPTS]
    answers = [ids(n if n == LONGEST else n - 1) + ([] if n == LONGEST else [END]) for group in LENGTHS for n in group]
    return prompts, answers


def tokenizer():
    words = WordLevel({str(i): i for i in range(SIZES["vocab_size"])}, unk_token=str(PAD))
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(words), pad_token=str(PAD), eos_token=str(END))


class Float64Trainer(GRPOTrainer):
    """TRL's fused output layer computes in float32, whatever the model does."""

    def _get_per_token_logps_and_entropies(self, model, input_ids, attention_mask, logits_to_keep, *_, **__):
        logits = model(input_ids=input_ids, attention_mask=attention_mask).logits[:, -logits_to_keep - 1 : -1]
        assert logits.dtype == torch.float64
        every = torch.log_softmax(logits / self.temperature, -1)
        log_probs = every.gather(-1, input_ids[:, -logits_to_keep:, None])[..., 0]
        return log_probs, -(every.exp() * every).sum(-1), None


def norm_rows(self, x):
    return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.variance_epsilon)


def rotations(self, x, position_ids):
    angles = position_ids[..., None].double() * self.inv_freq.double()
    angles = torch.cat((angles, angles), -1)
    return angles.cos(), angles.sin()


def without_roundings(model):
    """In place: what transformers computes in float32 in every model."""
    for module in model.modules():
        name = type(module).__name__
        if name.endswith("RMSNorm"):
            module.forward = types.MethodType(norm_rows, module)
        elif name.endswith("RotaryEmbedding"):
            module.forward = types.MethodType(rotations, module)


def make_trainer(folder, arguments, dtype, scratch):
    prompts, answers = random_answers()
    each = len(LENGTHS[0])

    def rollouts(texts, trainer):
        return {"prompt_ids": [ids for ids in prompts for _ in range(each)], "completion_ids": answers, "logprobs": None}

    def reward(completion_ids, **_):
        return [x for group in REWARDS for x in group]

    # With two iterations the trainer computes the old log-probabilities.
    args = GRPOConfig(
        output_dir=scratch,
        use_cpu=True,
        bf16=False,
        report_to="none",
        gradient_checkpointing=False,
        per_device_train_batch_size=len(answers),
        gradient_accumulation_steps=1,
        num_iterations=2,
        num_generations=each,
        max_completion_length=LONGEST,
        use_bias_correction_kl=False,  # a run has no such correction
        **{"beta": 0.0, "temperature": 1.0, **arguments},
    )
    trainer = (Float64Trainer if dtype == torch.float64 else GRPOTrainer)(
        model=AutoModelForCausalLM.from_pretrained(os.path.join(folder, "reference"), dtype=dtype),
        reward_funcs=reward,
        args=args,
        train_dataset=Dataset.from_list([{"prompt": "2"}]),
        processing_class=tokenizer(),
        rollout_func=rollouts,
    )
    trainer.current_gradient_accumulation_steps = 1
    if dtype == torch.float64:
        for model in (trainer.model, trainer.ref_model):
            if model is not None:
                without_roundings(model)
    return trainer


def loss_and_gradients(folder, arguments, dtype, weights, old_log_probs, scratch):
    """(old log-probabilities, loss, {name: gradient}). The loss is without its KL term, which a run of troupe does not report with it;
    the gradients are those of all of it."""
    torch.set_default_dtype(dtype)
    trainer = make_trainer(folder, arguments, dtype, scratch)
    model = trainer.model.train()
    model.load_state_dict(weights["old"])
    inputs = trainer._generate_and_score_completions([{"prompt": "2"} for group in LENGTHS for _ in group])
    # They are float32 in a run.
    old = inputs["old_per_token_logps"].float() if old_log_probs is None else old_log_probs
    inputs["old_per_token_logps"] = old.to(dtype)
    model.load_state_dict(weights["policy"])
    trainer._compute_loss(model, inputs).backward()
    gradients = {name: parameter.grad.double() for name, parameter in model.named_parameters()}
    trainer.beta = 0.0
    with torch.no_grad():
        loss = trainer._compute_loss(model, inputs)
    torch.set_default_dtype(torch.float32)
    return old, loss.double(), gradients


def relative(got, want):
    return ((got - want).abs().max() / want.abs().max()).item()


def answers_as_tensors(old_log_probs):
    prompts, answers = random_answers()

    def offsets(lists):
        return torch.tensor([0] + [len(x) for x in lists]).cumsum(0)

    def flat(lists):
        return torch.tensor([x for one in lists for x in one])

    return {
        "prompts": flat(prompts).int(),
        "prompt_offsets": offsets(prompts),
        "tokens": flat(answers).int(),
        "offsets": offsets(answers),
        "group": torch.arange(len(PROMPTS)).repeat_interleave(len(LENGTHS[0])).int(),
        "rewards": flat(REWARDS).float(),
        "cut": torch.tensor([ids[-1] != END for ids in answers]).byte(),
        "log_probs": torch.cat([row[: len(ids)] for row, ids in zip(old_log_probs, answers)]),
    }


def write_model(folder, make_model, make_config, settings, seed):
    """{name: weights} of three models near each other."""
    torch.manual_seed(seed)
    model = make_model(make_config(**{**SIZES, **settings}, pad_token_id=PAD, eos_token_id=END)).float()
    weights = {}
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases too, which are 1 and 0 in a new model
            parameter.add_(0.1 * torch.randn_like(parameter))
        for name in ("reference", "old", "policy"):
            for parameter in model.parameters():
                parameter.add_(0.01 * torch.randn_like(parameter))
            weights[name] = {key: tensor.clone() for key, tensor in model.state_dict().items()}
            model.save_pretrained(os.path.join(folder, name))
    return weights


def write_case(folder, name, weights):
    arguments, algorithm = CASES[name]
    with tempfile.TemporaryDirectory() as scratch:
        old, loss, gradients = loss_and_gradients(folder, arguments, torch.float64, weights, None, scratch)
        _, loss32, gradients32 = loss_and_gradients(folder, arguments, torch.float32, weights, old, scratch)
    metadata = {
        "config": json.dumps(config_of(arguments, algorithm)),
        "float32_loss": str(relative(loss32, loss)),
        "float32_gradient": str(max(relative(gradients32[key], gradients[key]) for key in gradients)),
    }
    tensors = {**answers_as_tensors(old), "loss": loss.reshape(1)}
    tensors.update({f"gradient.{key}": gradient.contiguous() for key, gradient in gradients.items()})
    save_file(tensors, os.path.join(folder, name + ".safetensors"), metadata=metadata)


def main():
    for seed, (model, parts) in enumerate(MODELS.items()):
        folder = os.path.join(sys.argv[1], model)
        weights = write_model(folder, *parts, seed)
        for name in sys.argv[2:] or CASES:
            write_case(folder, name, weights)


if __name__ == "__main__":
    main()
