#!/usr/bin/env python3
"""Changes every setting of short deterministic runs: it must be refused, or change the weights, or be named below with the reason why
weights do not show it: setting_effects_test.py BUILD_DIR."""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TROUPE = os.path.join(os.path.abspath(sys.argv.pop(1)), "troupe")
ALL = [
    "deterministic=true",
    "stop.env_steps=0",
    "stop.updates=3",
    "trainer.threads=1",
    "trainer.lr_warmup=0",
    "evaluation.every_updates=0",
    "evaluation.episodes=4",
]
STEPS = [
    "trainer.super_batch=128",
    "trainer.minibatches=2",
    "trainer.epochs=2",
    "trainer.max_grad_norm=0.5",
    "env.rows=4",
    "rollout.length=16",
    "workers.count=1",
    "inference.max_batch=64",
    "inference.batch_size=4",
    "evaluation.rows=4",
]
ANSWERS = [
    "trainer.super_batch=16",
    "trainer.minibatches=1",
    "trainer.epochs=2",
    "warmup.steps=2",
    "warmup.pass_at_1=0",
    "task.params.digits=3",
    "model.decoder.hidden_size=16",
    "model.decoder.num_hidden_layers=1",
    "model.decoder.num_attention_heads=2",
    "model.decoder.num_key_value_heads=1",
    "model.decoder.intermediate_size=32",
    "workers.groups=2",
    "generation.answers=4",
    # So that the rewards of the first policy differ.
    "algorithm.overlong_penalty=1",
    "algorithm.overlong_buffer=4",
]
RUNS = {
    "ppo": ("pendulum", [*STEPS, "algorithm.kl_coef=0.1", "algorithm.kl_controller=adaptive"]),
    "reuse": ("cartpole_vtrace", [*STEPS, "replay.mode=reuse", "replay.max_policy_lag=3", "algorithm.value_loss=huber"]),
    "recurrent": ("cartpole_no_velocity", STEPS),
    "grpo": ("tokens/reverse", [*ANSWERS, "reference.model=start", "reference.in=loss", "reference.kl_coef=0.1"]),
    "token_ppo": ("tokens/reverse_ppo", [*ANSWERS, "model.critic=shared"]),
}
# Runs for settings that those above do not read: (config, settings, what is changed).
MORE_RUNS = {
    "weighted": (
        "cartpole_vtrace",
        [*STEPS, "algorithm.surrogate=reinforce", "algorithm.vtrace_adv=pg_rho", "replay.max_policy_lag=3", "trainer.policy_lr=0.01"],
        ["algorithm.vtrace_adv", "algorithm.pg_rho_bar"],
    ),
    "scheduled": ("pendulum", [*STEPS, "model.log_std=scheduled", "algorithm.entropy_coef=0"], ["model.log_std_end"]),
    "shards": ("cartpole", [*STEPS, "workers.count=2"], ["trainer.shards"]),
    "stable": ("cartpole", [*STEPS, "trainer.lr_schedule=wsd"], ["trainer.lr_stable_ratio"]),
    "length": ("cartpole", [*STEPS, "algorithm.aggregation=seq-mean-token-sum-norm"], ["algorithm.aggregation_length"]),
    "components": (
        "token_reach",
        [*STEPS, "algorithm.advantage=grpo", "trainer.minibatches=4", "trainer.policy_lr=0.01"],
        ["algorithm.ratio", "algorithm.group_by"],
    ),
    "filtration": (
        "tokens/reverse_ppo",
        [*ANSWERS, "model.critic=shared", "algorithm.policy_filtration=pow"],
        ["algorithm.policy_filtration_power"],
    ),
    "correction": (
        "tokens/reverse",
        [*ANSWERS, "algorithm.rollout_correction.is=token", "replay.max_policy_lag=3", "trainer.policy_lr=0.01"],
        ["algorithm.proximal"],
    ),
}

# Not tried: other values are other runs, need files or devices, or end the run elsewhere.
OTHER_RUNS = {
    "deterministic", "env.id", "env.params", "model.kind", "model.decoder", "model.net", "model.path", "model.lora", "model.critic",
    "model.critic_path", "task.name", "task.params", "task.verifier", "task.reply", "task.python", "task.turns", "task.sampling",
    "tokenizer.kind", "tokenizer.path", "tokenizer.alphabet", "tokenizer.bos", "tokenizer.eos", "tokenizer.pad",
    "tokenizer.chat_template", "reward_model.path", "trainer.device", "inference.device", "evaluation.device", "env.python",
    "evaluation.env_params", "trainer.threads", "inference.threads", "reward_model.threads", "scorers.threads", "stop.env_steps",
    "stop.seconds", "stop.eval_return", "stop.after_warmup", "algorithm.advantage_params", "algorithm.clip_config",
}  # fmt: skip
# Where another value is seen, as weights after three updates do not show it.
ELSEWHERE = {
    "name": "in reports",
    "network.*": "between processes",
    "stats.*": "in reports",
    "checkpoint.*": "in the run folder",
    "evaluation.*": "in evaluations",
    "stop.on_collapse": "when training collapses",
    "workers.*_timeout_ms": "when workers are silent or fail",
    "workers.groups": "in token runs: in the prompts in progress",
    "workers.quarantine_after": "when environments fail",
    "workers.restart_backoff_ms": "when environments fail",
    "env.processes": "in processes of Python",
    "env.isolate": "with environments in C",
    "env.*_timeout_ms": "when environments hang",
    "inference.count": "in the work of each actor",
    "inference.batch_size": "in sizes of batches",
    "inference.max_batch": "when more rows ask at once",
    "inference.timeout_us": "in time",
    "replay.draw": "when replay holds more than an update",
    "replay.capacity": "when the buffer is full",
    "replay.max_policy_lag": "when updates are slow",
    "replay.late": "when samples are late",
    "replay.max_reuse": "in longer runs",
    "replay.filter_groups": "in groups with equal rewards",
    "trainer.max_skipped": "when updates fail",
    "trainer.micro_batch": "in memory",
    "trainer.micro_batch_tokens": "in memory",
    "trainer.recompute": "in memory: the bits are the same",
    "trainer.ranks": "in processor time: the bits are the same",
    "trainer.zero": "in memory: the bits are the same",
    "trainer.redundancy": "when a rank is lost",
    "trainer.bucket_bytes": "in time: the bits are the same",
    "algorithm.bootstrap_on_truncation": "when episodes are truncated",
    "algorithm.bootstrap_cut_answers": "when answers are cut",
    "algorithm.dual_clip": "at large ratios",
    "algorithm.reward_clip": "in larger scores",
    "algorithm.normalize_advantages": "with gae and vtrace; elsewhere it is accepted",
    "algorithm.incomplete": "in estimators for whole sequences",
    "algorithm.mask_cut_answers": "when answers are cut",
    "algorithm.target_kl": "in runs of several epochs with a large KL",
    "generation.stop": "in answers with the text",
    "generation.prompt_slots": "when more prompts are asked for",
    "generation.answer_slots": "when more answers are asked for",
    "generation.prefill_tokens": "with longer prompts",
    "generation.on_new_weights": "when weights change within answers",
    "reference.kl_*": "in longer runs",
    "reference.computed_by": "in messages: the bits are the same",
    "warmup.pass_at_1": "when prompts are answered right",
    "task.message_tokens": "in runs of several turns",
    "task.verifier_*": "in processes of verifiers",
    "task.weight": "with a reward model",
    "reward_model.*": "with a reward model",
    "scorers.*": "in the work of each scorer",
}
# Values that are legal and other than those of the runs above; the rest is found by the schema.
VALUES = {
    "seed": 5,
    "env.rows": 8,
    "env.chunk": 2,
    "env.max_abs_reward": 0.5,
    "rollout.length": 8,
    "workers.count": 2,
    "model.hidden": [8],
    "model.sequence": 4,
    "model.burn_in": 2,
    "model.observation_clip": 0.1,
    "algorithm.advantage": "opo",
    "algorithm.surrogate": "sapo",
    "algorithm.surrogate_params": {"clip": 0.0001},
    "algorithm.clip_low": 0.0001,
    "algorithm.clip_high": 0.0001,
    "algorithm.dual_clip": 1.5,
    "algorithm.gamma": 0.5,
    "algorithm.lambda": 0.5,
    "algorithm.rho_bar": 1.1,
    "algorithm.pg_rho_bar": 0.5,
    "algorithm.c_bar": 0.5,
    "algorithm.whitening": "verl",
    "algorithm.aggregation": "seq-mean-token-sum",
    "algorithm.aggregation_length": 50,
    "algorithm.rollout_correction": {"is": "token"},
    "algorithm.value_clip": 0.0001,
    "algorithm.entropy_coef": 0.05,
    "algorithm.entropy_coef_end": 0.1,
    "algorithm.kl": "k1",
    "algorithm.kl_coef": 0.3,
    "algorithm.kl_target": 1e-9,
    "algorithm.kl_horizon": 10000,
    "algorithm.target_kl": 1e-9,
    "algorithm.overlong_penalty": 0.5,
    "algorithm.overlong_buffer": 3,
    "trainer.super_batch": 256,
    "trainer.shards": 2,
    "trainer.minibatches": 4,
    "trainer.epochs": 3,
    "trainer.value_epochs": 3,
    "trainer.policy_lr": 0.01,
    "trainer.value_lr": 0.01,
    "trainer.lr_warmup": 3,
    "trainer.lr_stable_ratio": 0.1,
    "trainer.value_only_updates": 1,
    "trainer.adam_epsilon": 0.001,
    "trainer.weight_decay": 0.1,
    "trainer.max_grad_norm": 0.01,
    "stop.updates": 2,
    "generation.max_tokens": 6,
    "warmup.steps": 3,
    "reference.kl": "k2",
    "model.log_std_start": -1,
}


def listed(path, names):
    """The name that stands for the setting, or None: "network.*", "env.*_timeout_ms"."""
    return next((name for name in names if pathlib.PurePath(path).match(name)), None)


def settings_of(schema, path=""):
    """(path, schema) of every setting."""
    for key, value in schema["properties"].items():
        section = not path and value.get("type") == "object" and "default" not in value
        if key != "format":
            yield from settings_of(value, key + ".") if section else [(path + key, value)]


def value_in(config, path, schema):
    for key in path.split("."):
        config = config.get(key, schema["default"]) if isinstance(config, dict) else schema["default"]
    return config


def other_value(path, schema, value):
    if path in VALUES:
        return VALUES[path]
    if isinstance(value, bool):
        return not value
    if "enum" in schema:
        return schema["enum"][(schema["enum"].index(value) + 1) % len(schema["enum"])]
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, float):
        return value * 0.5 if value else 0.1
    return value * 2 if value and value * 2 <= schema.get("maximum", value * 2) else value + 1 if not value else value - 1


class SettingEffects(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.runs = 0

    def train(self, config, settings):
        """(error, hash of the weights, config of the run)."""
        self.runs += 1
        folder = pathlib.Path(self.temporary.name) / str(self.runs)
        words = [TROUPE, "train", config, "--run", str(folder)]
        for setting in settings:
            words += ["--set", setting]
        result = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
        if result.returncode:
            return result.stderr.strip().splitlines()[-1], None, None
        newest = max((folder / "checkpoints").iterdir())
        weights = hashlib.sha256((newest / "model.safetensors").read_bytes()).hexdigest()
        return None, weights, json.loads((folder / "config.json").read_text())

    def silent_settings(self, run, schema, seen):
        """The settings that are accepted and do not change the weights; adds those that do to `seen`."""
        config, settings, only = (*run, None)[:3]
        error, first, of_run = self.train(config, [*ALL, *settings])
        self.assertIsNone(error)
        self.assertEqual(first, self.train(config, [*ALL, *settings])[1], "two runs with the same settings")
        silent = []
        for path, described in settings_of(schema):
            if path in OTHER_RUNS or listed(path, ELSEWHERE) or (only and path not in only):
                continue
            value = json.dumps(other_value(path, described, value_in(of_run, path, described)))
            error, weights, _ = self.train(config, [*ALL, *settings, f"{path}={value}"])
            if error is None and weights == first:
                silent.append(f"{path}={value}")
            elif error is None:
                seen.add(path)
        return silent

    def test_every_setting_is_refused_or_changes_the_weights(self):
        schema = json.loads(subprocess.run([TROUPE, "config", "--schema"], capture_output=True, text=True, check=True).stdout)
        seen = set()
        silent = {name: self.silent_settings(run, schema, seen) for name, run in {**RUNS, **MORE_RUNS}.items()}
        never = [path for path, _ in settings_of(schema) if not (path in seen or path in OTHER_RUNS or listed(path, ELSEWHERE))]
        self.assertEqual({name: paths for name, paths in silent.items() if paths}, {}, "accepted, with the same weights")
        self.assertEqual(never, [], "refused in every run here, so their effect is not seen")


if __name__ == "__main__":
    unittest.main()
