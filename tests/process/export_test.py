#!/usr/bin/env python3
"""Trains small language models, also from an exported one and with adapters, and loads what `troupe export` writes with transformers
and PEFT: export_test.py BUILD_DIR. Skips what needs a package that is missing."""

import array
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TROUPE = os.path.join(os.path.abspath(sys.argv.pop(1)), "troupe")
RUN = {
    "task": {"name": "reverse", "params": {"digits": 3}},
    "warmup": {"steps": 30},
    "generation": {"answers": 4},
    "algorithm": {"advantage": "rloo"},
    "trainer": {"super_batch": 16, "minibatches": 1, "epochs": 1, "policy_lr": 3e-3},
    "evaluation": {"episodes": 4},
    "stop": {"env_steps": 64},
}
SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48}
LORA = {"rank": 4, "alpha": 8, "targets": ["q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"]}
# A byte-level tokenizer whose files say other things than the runs that use it.
CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
OTHER_CHAT = "{% for message in messages %}[{{ message['content'] }}]{% endfor %}"


def byte_level_tokenizer():
    # The spelling of bytes of GPT-2.
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spelled = {byte: chr(byte) for byte in plain}
    spelled.update({byte: chr(256 + i) for i, byte in enumerate(b for b in range(256) if b not in plain)})
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": 256 + i, "content": text, **flags} for i, text in enumerate(CHATML)],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": {spelled[byte]: byte for byte in range(256)}, "merges": []},
    }


FAMILIES = ("llama", "qwen2", "qwen3")


def missing(*packages):
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    return f"the package {absent[0]} is not installed" if absent else ""


class Export(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        for family in FAMILIES:
            cls.train(family, {"kind": "decoder", "decoder": {"model_type": family, "head_dim": 16, **SHAPE}})
            cls.troupe("export", family, "--hf", f"{family}_hf")
        cls.train("adapters", {"kind": "decoder", "path": "qwen3_hf", "lora": LORA})
        cls.troupe("export", "adapters", "--hf", "adapters_hf")
        cls.troupe("export", "adapters", "--hf", "merged_hf", "--merge")
        base = cls.folder / "base"
        base.mkdir()
        eos = {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "chat_template": OTHER_CHAT}
        other = {"eos_token_id": 256, "do_sample": True, "temperature": 0.1, "repetition_penalty": 3.0}
        for name, content in {
            "tokenizer.json": byte_level_tokenizer(),
            "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", **eos},
            "special_tokens_map.json": {"eos_token": "<|endoftext|>"},
            "generation_config.json": other,
        }.items():
            (base / name).write_text(json.dumps(content))
        (base / "chat_template.jinja").write_text(OTHER_CHAT)
        for chat in ("none", "chatml"):
            model = {"kind": "decoder", "decoder": {"head_dim": 16, "vocab_size": 300, **SHAPE}}
            tokenizer = {"kind": "bpe", "path": str(base), "chat_template": chat, "pad": "<|im_start|>"}
            cls.train(chat, model, tokenizer=tokenizer)
            cls.troupe("export", chat, "--hf", f"{chat}_hf")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def run_troupe(cls, *words):
        return subprocess.run([TROUPE, *words], cwd=cls.folder, capture_output=True, text=True, timeout=120)

    @classmethod
    def troupe(cls, *words):
        result = cls.run_troupe(*words)
        if result.returncode != 0:
            raise AssertionError(f"troupe {' '.join(words)}: {result.stderr}")
        return result.stdout

    @classmethod
    def train(cls, name, model, **more):
        (cls.folder / f"{name}.json").write_text(json.dumps({**RUN, "model": model, **more}))
        cls.troupe("train", f"{name}.json", "--run", name)

    def refused(self, *words):
        result = self.run_troupe(*words)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        return result.stderr

    def played(self, run):
        """Prompts and their most likely answers, as troupe computes them."""
        lines = self.troupe("play", run, "--episodes", "6").splitlines()
        return [line.removesuffix("  (wrong)").split(" ", 1) for line in lines]

    def check_answers(self, run, model, tokenizer):
        pairs = self.played(run)
        self.assertEqual(len(pairs), 6)
        for prompt, answer in pairs:
            ids = tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
            out = model.generate(**ids, max_new_tokens=4, do_sample=False, eos_token_id=tokenizer.eos_token_id, pad_token_id=0)
            self.assertEqual(tokenizer.decode(out[0][ids.input_ids.shape[1] :], skip_special_tokens=True), answer)

    @unittest.skipIf(missing("transformers", "torch"), missing("transformers", "torch"))
    def test_transformers_gives_the_same_answers(self):
        from transformers import AutoModelForCausalLM, AutoTokenizer

        for run, folder in [*((family, f"{family}_hf") for family in FAMILIES), ("adapters", "merged_hf")]:
            with self.subTest(run=run):
                path = self.folder / folder
                self.check_answers(run, AutoModelForCausalLM.from_pretrained(path), AutoTokenizer.from_pretrained(path))

    @unittest.skipIf(missing("transformers", "torch", "peft"), missing("transformers", "torch", "peft"))
    def test_peft_loads_the_adapters(self):
        import torch
        from peft import PeftModel
        from transformers import AutoModelForCausalLM, AutoTokenizer

        base = AutoModelForCausalLM.from_pretrained(self.folder / "qwen3_hf")
        tokenizer = AutoTokenizer.from_pretrained(self.folder / "adapters_hf")
        ids = torch.arange(2, 12)[None]
        with torch.no_grad():
            frozen = base(ids).logits
            adapted = PeftModel.from_pretrained(base, self.folder / "adapters_hf")
            logits = adapted(ids).logits
            merged = AutoModelForCausalLM.from_pretrained(self.folder / "merged_hf")(ids).logits
        self.assertGreater((logits - frozen).abs().max().item(), 1e-2)
        self.assertLess((logits - merged).abs().max().item(), 1e-4)
        self.check_answers("adapters", adapted, tokenizer)

    def test_a_folder_that_holds_something_is_left_alone(self):
        before = {path.name: path.read_bytes() for path in (self.folder / "llama_hf").iterdir()}
        error = self.refused("export", "llama", "--hf", "llama_hf")
        self.assertIn("--hf: llama_hf: is not empty, expected a new or an empty folder", error)
        self.assertEqual({path.name: path.read_bytes() for path in (self.folder / "llama_hf").iterdir()}, before)

    def exported(self, chat, file):
        return json.loads((self.folder / f"{chat}_hf" / file).read_text())

    def test_the_files_say_what_the_run_trained_with(self):
        for chat, ends, eos in (("none", 256, "<|endoftext|>"), ("chatml", [258, 256], "<|im_end|>")):
            for file in ("config.json", "generation_config.json"):
                self.assertEqual(self.exported(chat, file)["eos_token_id"], ends)
                self.assertEqual(self.exported(chat, file)["pad_token_id"], 257)
            generation = self.exported(chat, "generation_config.json")
            self.assertEqual(generation["suppress_tokens"], list(range(259, 300)))
            self.assertEqual(generation["max_new_tokens"], 4)
            self.assertFalse({"temperature", "repetition_penalty"} & set(generation))
            tokenizer = self.exported(chat, "tokenizer_config.json")
            self.assertEqual((tokenizer["eos_token"], tokenizer["pad_token"]), (eos, "<|im_start|>"))
            self.assertNotEqual(tokenizer["chat_template"], OTHER_CHAT)
            names = sorted(path.name for path in (self.folder / f"{chat}_hf").iterdir())
            expected = ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
            self.assertEqual(names, expected)

    @unittest.skipIf(missing("transformers", "torch"), missing("transformers", "torch"))
    def test_transformers_writes_the_prompts_and_ends_the_answers_of_the_run(self):
        from transformers import AutoModelForCausalLM, AutoTokenizer

        for run in ("none", "chatml", *FAMILIES):
            with self.subTest(run=run):
                path = self.folder / f"{run}_hf"
                model, tokenizer = AutoModelForCausalLM.from_pretrained(path), AutoTokenizer.from_pretrained(path)
                for prompt, answer in self.played(run):
                    message = [{"role": "user", "content": prompt}]
                    text = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
                    chatml = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
                    self.assertEqual(text, chatml if run == "chatml" else prompt)
                    ids = tokenizer(text, return_tensors="pt", return_token_type_ids=False, add_special_tokens=False)
                    out = model.generate(**ids)[0][ids.input_ids.shape[1] :]
                    self.assertEqual(tokenizer.decode(out, skip_special_tokens=True), answer)
                    ended = {258, 256} if run == "chatml" else {tokenizer.eos_token_id}
                    self.assertTrue(out[-1].item() in ended or len(out) == 4, out)

    @unittest.skipIf(missing("transformers"), missing("transformers"))
    def test_a_char_tokenizer_gives_the_same_ids_with_every_model_type(self):
        from transformers import AutoTokenizer

        # This task's alphabet has a space, which Qwen2's own splitting would lose.
        for family in FAMILIES:
            name = f"sums_{family}"
            task = {"name": "chain_sum", "params": {"terms": 2, "digits": 1, "wording": "english"}}
            model = {"kind": "decoder", "decoder": {"model_type": family, "head_dim": 16, **SHAPE}}
            self.train(name, model, task=task, warmup={"steps": 0})
            self.troupe("export", name, "--hf", f"{name}_hf")
            tokenizer = AutoTokenizer.from_pretrained(self.folder / f"{name}_hf")
            vocabulary = json.loads((self.folder / f"{name}_hf/tokenizer.json").read_text())["model"]["vocab"]
            text = " 12 + 34  -5"
            ids = tokenizer(text)["input_ids"]
            self.assertEqual(ids, [vocabulary[character] for character in text])
            self.assertEqual(tokenizer.decode(ids), text)

    def scaled(self, name, factors):
        """A copy of llama_hf whose tensors of these names are so many times as large."""
        folder = self.folder / name
        shutil.copytree(self.folder / "llama_hf", folder)
        file = folder / "model.safetensors"
        content = bytearray(file.read_bytes())
        header = 8 + int.from_bytes(content[:8], "little")
        for tensor, factor in factors.items():
            begin, end = (header + at for at in json.loads(content[8:header])[tensor]["data_offsets"])
            numbers = array.array("f", bytes(content[begin:end]))
            content[begin:end] = array.array("f", [factor * x for x in numbers]).tobytes()
        file.write_bytes(content)
        return folder

    def test_a_warm_up_that_cannot_be_computed_is_named_with_its_rate(self):
        norm, embedding = "model.norm.weight", "model.embed_tokens.weight"
        for name, factors, message in (
            ("broken", {norm: 1e37, embedding: 1e10}, "troupe: the run ended: warmup: the model as it begins cannot be trained: "),
            ("large", {norm: 1e36}, "troupe: the run ended: warmup.policy_lr: 10.0 makes the warm-up diverge: "),
        ):
            with self.subTest(name=name):
                config = {**RUN, "model": {"kind": "decoder", "path": str(self.scaled(name, factors))}}
                config["warmup"] = {"steps": 30, "policy_lr": 10}
                (self.folder / f"{name}.json").write_text(json.dumps(config))
                ended = self.run_troupe("train", f"{name}.json", "--run", f"{name}_run")
                self.assertEqual(ended.returncode, 1, ended.stderr)
                self.assertTrue(ended.stderr.startswith(message), ended.stderr)
                self.assertEqual(ended.stderr.count("\n"), 1, ended.stderr)
                self.assertFalse(list((self.folder / f"{name}_run").glob("checkpoints/*")))

    def contents(self, folder):
        return {str(path.relative_to(folder)): path.is_file() and path.read_bytes() for path in sorted(folder.rglob("*"))}

    def test_what_others_put_beside_the_folder_stays(self):
        for name in ("out.tmp", "out.1.tmp/model.safetensors.tmp"):
            (self.folder / name).mkdir(parents=True)
        for name in ("out.tmp/notes.txt", "out.1.tmp/model.safetensors", "out.2.tmp"):
            (self.folder / name).write_text("precious")
        before = self.contents(self.folder)
        (self.folder / "empty").mkdir()
        (self.folder / "link").symlink_to("empty")
        self.troupe("export", "llama", "--hf", "out")
        self.troupe("export", "llama", "--hf", "link")
        after = self.contents(self.folder)
        self.assertEqual({name: after.get(name) for name in before}, before)
        self.assertTrue((self.folder / "link").is_symlink())
        self.assertEqual(self.contents(self.folder / "out"), self.contents(self.folder / "empty"))
        self.assertFalse((self.folder / "out.3.tmp").exists())

    def test_an_export_that_does_not_fit_leaves_nothing_behind(self):
        before = self.contents(self.folder)
        command = f"ulimit -f 1; trap '' XFSZ; exec {TROUPE} export llama --hf new/deep/full"
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("File too large", done.stderr)
        self.assertEqual(self.contents(self.folder), before)

    def test_what_has_no_effect_or_does_not_fit_is_refused(self):
        self.assertIn("--merge: has no effect", self.refused("export", "llama", "--hf", "new", "--merge"))
        adapters = ("train", "adapters.json", "--run", "other", "--set")
        self.assertIn("model.path: nowhere: there is no such folder", self.refused(*adapters, "model.path=nowhere"))
        self.assertIn("needs pre-trained weights", self.refused(*adapters, "model.path="))
        self.assertIn("tokenizer.kind", self.refused(*adapters, 'task.name="chain_sum"', "--set", "task.params={}"))
        self.assertFalse((self.folder / "other").exists())

    def test_a_base_that_has_changed_is_refused_at_a_resume(self):
        for name, more in (("changed_base", {}), ("changed_frozen", {"lora": LORA})):
            with self.subTest(name=name):
                base = self.scaled(f"{name}_hf", {})
                self.train(name, {"kind": "decoder", "path": str(base), **more})
                kept = json.loads((self.folder / name / "made_of.json").read_text())["model.base"]
                shutil.rmtree(base)
                self.scaled(base.name, {"model.norm.weight": 2})
                longer = ("train", f"{name}.json", "--run", name, "--set", "stop.env_steps=96")
                self.assertIn(f"model.base (the hash of the weights in model.path) was {kept} and is now ", self.refused(*longer))
                shutil.rmtree(base)
                self.scaled(base.name, {})
                self.assertIn("resuming at update", self.troupe(*longer))

    def test_another_tokenizer_is_not_exported(self):
        file = self.folder / "base" / "tokenizer.json"
        before = file.read_text()
        self.addCleanup(file.write_text, before)
        file.write_text(before + "\n")
        self.assertIn("tokenizer.hash was ", self.refused("export", "none", "--hf", "another_tokenizer"))
        self.assertFalse((self.folder / "another_tokenizer").exists())

    def test_a_run_with_adapters_resumes_and_its_checkpoints_are_small(self):
        more = self.troupe("train", "adapters.json", "--run", "adapters", "--set", "stop.env_steps=96")
        self.assertIn("resuming at update", more)
        newest = max((self.folder / "adapters/checkpoints").iterdir())
        names = (newest / "model.safetensors").read_bytes()[:4000]
        self.assertIn(b"lora_A", names)
        self.assertIn(b"frozen.", names)
        self.assertNotIn(b"embed_tokens", names)


if __name__ == "__main__":
    unittest.main()
