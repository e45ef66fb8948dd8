"""Trains CartPole-v1 with one library, for tools/compare_peers, which starts this file in that library's own environment.

    compare_peers_train.py LIBRARY SEED FOLDER SECONDS    trains for SECONDS at most; writes FOLDER/snapshots/*.npz and
                                                          FOLDER/training.json
    compare_peers_train.py evaluate FOLDER BAR            prints as JSON which snapshot reaches BAR first, and the last one's score

A snapshot holds the policy network as plain arrays, with the environment steps and the CLOCK_MONOTONIC time at which it was
taken. The policy network of every library is a multilayer perceptron on observations that may be normalised, so one function
(`actions_of`) computes all of them. Each snapshot also holds the actions that the library itself chooses for some observations;
`evaluate` fails if its own differ.
"""

import json
import os
import pathlib
import sys
import time

import numpy as np

BUDGET = 500_000  # environment steps, if a library's settings for CartPole name none
EPISODES = 100
SNAPSHOT_SECONDS = 0.1  # least time between two snapshots, and
SNAPSHOT_FRACTION = 0.01  # of the time since the first step


def check_observations():
    return np.random.default_rng(0).uniform(-0.3, 0.3, (64, 4)).astype(np.float32)


# --- during training: the time of the first step, snapshots ---


class Recorder:
    """Called in the training process after each update. FOLDER/first_reset is written by the process that steps the
    environments, which need not be this one."""

    def __init__(self, folder, limit=None):
        self.folder = pathlib.Path(folder)
        self.limit = limit
        (self.folder / "snapshots").mkdir(parents=True, exist_ok=True)
        self.first = None
        self.last = 0.0
        self.count = 0

    def due(self):
        now = time.monotonic()
        if self.first is None:
            self.first = now
        return now - self.last >= max(SNAPSHOT_SECONDS, SNAPSHOT_FRACTION * (now - self.first))

    def over(self):
        """Whether the time limit has passed, counted from the first update."""
        return self.limit is not None and self.first is not None and time.monotonic() - self.first > self.limit

    def take(self, env_steps, layers, activation, actions, normalizer=None):
        """layers: pairs of a weight [out, in] and a bias. normalizer: mean, standard deviation and the bound after it."""
        self.last = time.monotonic()
        arrays = {"time": self.last, "env_steps": env_steps, "activation": activation, "check": np.asarray(actions)}
        for i, (weight, bias) in enumerate(layers):
            arrays[f"weight{i}"], arrays[f"bias{i}"] = np.asarray(weight), np.asarray(bias)
        if normalizer is not None:
            arrays["mean"], arrays["std"], arrays["clip"] = normalizer
        np.savez(self.folder / "snapshots" / f"{self.count:06d}.npz", **arrays)
        self.count += 1

    def finish(self, env_steps):
        first_reset = float((self.folder / "first_reset").read_text())
        self.end(first_reset, time.monotonic(), env_steps)

    def end(self, begin, end, env_steps):
        (self.folder / "training.json").write_text(json.dumps({"begin": begin, "end": end, "env_steps": int(env_steps)}))


class TimeLimit(Exception):
    """Raised to end a training script from inside."""


def note_first_reset(folder, cartpole):
    """Writes the time of the first reset in any process of the run, then puts the class back as it was."""
    reset = cartpole.reset

    def noting(self, *args, **kwargs):
        cartpole.reset = reset
        try:
            with open(pathlib.Path(folder) / "first_reset", "x") as file:
                file.write(str(time.monotonic()))
        except FileExistsError:
            pass
        return reset(self, *args, **kwargs)

    cartpole.reset = noting


def linear(module):
    return module.weight.detach().numpy(), module.bias.detach().numpy()


# --- one function per library ---


def stable_baselines3(seed, folder, limit):
    """https://github.com/DLR-RM/rl-baselines3-zoo/blob/master/hyperparams/ppo.yml, CartPole-v1."""
    from gymnasium.envs.classic_control import CartPoleEnv
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    note_first_reset(folder, CartPoleEnv)
    recorder = Recorder(folder, limit)

    class Snapshots(BaseCallback):
        def _on_step(self):
            return not recorder.over()

        def _on_rollout_start(self):
            self.snapshot()

        def _on_training_end(self):
            recorder.last = 0.0
            self.snapshot()

        def snapshot(self):
            if self.num_timesteps > 0 and recorder.due():
                policy = self.model.policy
                actions, _ = policy.predict(check_observations(), deterministic=True)
                hidden = policy.mlp_extractor.policy_net
                recorder.take(self.num_timesteps, [linear(hidden[0]), linear(hidden[2]), linear(policy.action_net)], "tanh", actions)

    model = PPO(
        "MlpPolicy", make_vec_env("CartPole-v1", n_envs=8, seed=seed), n_steps=32, batch_size=256, gae_lambda=0.8, gamma=0.98, n_epochs=20,
        ent_coef=0.0, learning_rate=lambda left: left * 0.001, clip_range=lambda left: left * 0.2, seed=seed, device="cpu",
    )
    model.learn(100_000, callback=Snapshots())
    recorder.finish(model.num_timesteps)


def cleanrl(seed, folder, limit):
    """The defaults of ppo.py: https://docs.cleanrl.dev/rl-algorithms/ppo/#ppopy."""
    import runpy

    import torch
    from gym.envs.classic_control import CartPoleEnv
    from torch.utils.tensorboard import SummaryWriter

    note_first_reset(folder, CartPoleEnv)
    recorder = Recorder(folder, limit)
    add_scalar = SummaryWriter.add_scalar
    state = {}

    def noting(self, tag, value, global_step=None, **kwargs):
        add_scalar(self, tag, value, global_step, **kwargs)
        if tag == "charts/SPS":  # the last statement of an iteration
            state["agent"], state["env_steps"] = sys._getframe(1).f_globals["agent"], global_step
            if recorder.due():
                snapshot()
            if recorder.over():
                raise TimeLimit

    def snapshot():
        actor = state["agent"].actor
        with torch.no_grad():
            actions = actor(torch.from_numpy(check_observations())).argmax(1).numpy()
        recorder.take(state["env_steps"], [linear(actor[i]) for i in (0, 2, 4)], "tanh", actions)

    SummaryWriter.add_scalar = noting
    os.chdir(folder)  # it writes runs/
    sys.argv = ["ppo.py", "--env-id=CartPole-v1", f"--seed={seed}", "--cuda=False"]
    try:
        runpy.run_module("cleanrl.ppo", run_name="__main__")
    except TimeLimit:
        pass
    recorder.finish(state["env_steps"])
    snapshot()


def sample_factory_hooks(folder):
    """Applied in every process of the run: each imports this file."""
    import torch
    from gymnasium.envs.classic_control import CartPoleEnv
    from sample_factory.algo.learning.learner import Learner

    note_first_reset(folder, CartPoleEnv)
    # Written for PyTorch before 2.6, where `weights_only` was false; a run loads the checkpoint that it has just written.
    load = torch.load
    torch.load = lambda *args, **kwargs: load(*args, **{"weights_only": False, **kwargs})
    train = Learner.train
    recorder = Recorder(folder)

    def noting(self, batch):
        stats = train(self, batch)
        if recorder.due():
            snapshot(self)
        return stats

    def snapshot(self):
        model = self.actor_critic
        mode = model.training
        model.eval()
        rms = model.obs_normalizer.running_mean_std.running_mean_std["obs"]
        head = model.encoder.encoders["obs"].mlp_head
        with torch.no_grad():
            observations = model.normalize_obs({"obs": torch.from_numpy(check_observations())})
            actions = model.action_parameterization(model.decoder(model.encoder(observations)))[0].argmax(1).numpy()
            normalizer = rms.running_mean.float().numpy(), torch.sqrt(rms.running_var.float() + 1e-5).numpy(), 5.0
        parameters = [value.detach().numpy() for name, value in head.named_parameters()]
        layers = list(zip(parameters[0::2], parameters[1::2]))
        recorder.take(self.env_steps, layers + [linear(model.action_parameterization.distribution_linear)], "elu", actions, normalizer)
        model.train(mode)

    Learner.train = noting


def sample_factory(seed, folder, limit):
    """The command line for CartPole-v1 at the top of
    https://github.com/alex-petrenko/sample-factory/blob/master/sf_examples/train_gym_env.py."""
    from sample_factory.train import run_rl
    from sf_examples.train_gym_env import parse_custom_args, register_custom_components

    register_custom_components()
    cfg = parse_custom_args([
        "--algo=APPO", "--use_rnn=False", "--num_envs_per_worker=20", "--policy_workers_per_policy=2", "--recurrence=1",
        "--with_vtrace=False", "--batch_size=512", "--reward_scale=0.1", "--save_every_sec=10", "--experiment_summaries_interval=10",
        "--env=CartPole-v1", "--experiment=run", f"--train_dir={folder}", f"--seed={seed}", "--device=cpu",
        f"--num_workers={len(os.sched_getaffinity(0))}", f"--train_for_env_steps={BUDGET}", f"--train_for_seconds={int(limit)}",
    ])  # fmt: skip
    status = run_rl(cfg)
    if status != 0:
        sys.exit(f"run_rl ended with status {status}")
    last = max((pathlib.Path(folder) / "snapshots").iterdir())
    begin = float((pathlib.Path(folder) / "first_reset").read_text())
    with np.load(last) as arrays:  # the processes need seconds to end, so the last snapshot is the end of training
        Recorder(folder).end(begin, float(arrays["time"]), int(arrays["env_steps"]))


def rllib(seed, folder, limit):
    """https://github.com/ray-project/ray/blob/master/rllib/examples/algorithms/ppo/cartpole_ppo.py."""
    import gymnasium
    import ray
    import torch
    from ray import tune
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    def make(config):
        from gymnasium.envs.classic_control import CartPoleEnv

        note_first_reset(folder, CartPoleEnv)
        return gymnasium.make("CartPole-v1")

    # Ray's CPUs are tokens: 4 env runners, a learner and the driver ask for 6. taskset decides which cores they run on.
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False)
    tune.register_env("cartpole", make)
    config = (
        PPOConfig()
        .environment("cartpole")
        .env_runners(num_env_runners=4, num_envs_per_env_runner=16)
        .learners(num_learners=1)
        .training(lr=0.0003, num_epochs=6, vf_loss_coeff=0.01)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32], fcnet_activation="linear", vf_share_layers=True))
        .debugging(seed=seed)
    )
    algorithm = config.build_algo()
    recorder = Recorder(folder, limit)
    env_steps = 0
    while env_steps < BUDGET and not recorder.over():
        env_steps = algorithm.train()["num_env_steps_sampled_lifetime"]
        weights = algorithm.learner_group.get_weights()["default_policy"]
        if env_steps >= BUDGET or recorder.due():
            module = algorithm.get_module()
            module.load_state_dict({name: torch.as_tensor(weights[name]) for name in module.state_dict()})
            with torch.no_grad():
                outputs = module.forward_inference({"obs": torch.from_numpy(check_observations())})
            actions = outputs["action_dist_inputs"].argmax(1).numpy()
            names = [name[: -len(".weight")] for name in weights if name.endswith(".weight") and not name.startswith("vf.")]
            layers = [(np.asarray(weights[f"{name}.weight"]), np.asarray(weights[f"{name}.bias"])) for name in names]
            recorder.take(env_steps, layers, "linear", actions)
    recorder.finish(env_steps)
    algorithm.stop()
    ray.shutdown()


# --- after training ---

ACTIVATIONS = {
    "tanh": np.tanh,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "linear": lambda x: x,
}


def load_safetensors(path):
    """The tensors of a .safetensors file that numpy has a type for."""
    types = {"F32": np.float32, "F64": np.float64, "I64": np.int64}
    data = pathlib.Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__" and entry["dtype"] in types:
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            tensors[name] = np.frombuffer(data[begin:end], types[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def troupe_snapshots(run, clock):
    """The checkpoints of a run of configs/cartpole.json as snapshots. Their time is when the file was complete, on the wall clock;
    `clock` is monotonic minus wall clock."""
    for checkpoint in sorted(path for path in (run / "checkpoints").iterdir() if path.name.isdigit() and int(path.name) > 0):
        tensors = load_safetensors(checkpoint / "model.safetensors")
        state = json.loads((checkpoint / "state.json").read_text())["state"]
        arrays = {"time": (checkpoint / "model.safetensors").stat().st_mtime + clock, "env_steps": state["env_steps"], "activation": "tanh"}
        for i, name in enumerate(("policy.0", "policy.1", "policy.head")):
            arrays[f"weight{i}"], arrays[f"bias{i}"] = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
        yield arrays


def actions_of(arrays, observations):
    x = observations.astype(np.float32)
    if "mean" in arrays:
        x = np.clip((x - arrays["mean"]) / arrays["std"], -float(arrays["clip"]), float(arrays["clip"])).astype(np.float32)
    activation = ACTIVATIONS[str(arrays["activation"])]
    count = sum(name.startswith("weight") for name in arrays)
    for i in range(count):
        x = x @ arrays[f"weight{i}"].T + arrays[f"bias{i}"]
        x = activation(x) if i + 1 < count else x
    return x.argmax(axis=1)


def mean_return(arrays, envs):
    """Over the first episode of each of the EPISODES environments, the same start states for every policy."""
    observations, _ = envs.reset(seed=12345)
    returns, running = np.zeros(EPISODES), np.ones(EPISODES, bool)
    while running.any():
        observations, rewards, terminated, truncated, _ = envs.step(actions_of(arrays, observations))
        returns += rewards * running
        running &= ~(terminated | truncated)
    return float(returns.mean())


def evaluate(folder, bar):
    import gymnasium

    folder = pathlib.Path(folder)
    run = folder / "run"
    if (run / "config.json").is_file() and (run / "checkpoints").is_dir():
        snapshots = list(troupe_snapshots(run, time.monotonic() - time.time()))
    else:
        snapshots = []
        for path in sorted((folder / "snapshots").iterdir()):
            with np.load(path) as file:
                snapshots.append({name: file[name] for name in file})
    if not snapshots:
        sys.exit("no snapshot was written")
    for arrays in snapshots:
        if "check" in arrays and (actions_of(arrays, check_observations()) != arrays["check"]).mean() > 0.02:
            sys.exit("the snapshots do not choose the actions that the library's own policy chooses")
    envs = gymnasium.make_vec("CartPole-v1", num_envs=EPISODES, vectorization_mode="vector_entry_point")
    reached = None
    for arrays in snapshots:
        if mean_return(arrays, envs) >= bar:
            reached = arrays
            break
    result = {"snapshots": len(snapshots), "final_return": mean_return(snapshots[-1], envs)}
    result["reached"] = None if reached is None else {"time": float(reached["time"]), "env_steps": int(reached["env_steps"])}
    print(json.dumps(result))


LIBRARIES = {"stable-baselines3": stable_baselines3, "cleanrl": cleanrl, "sample-factory": sample_factory, "rllib": rllib}

if len(sys.argv) > 3 and sys.argv[1] == "sample-factory":
    sample_factory_hooks(sys.argv[3])

if __name__ == "__main__":
    if sys.argv[1] == "evaluate":
        evaluate(sys.argv[2], float(sys.argv[3]))
    else:
        LIBRARIES[sys.argv[1]](int(sys.argv[2]), sys.argv[3], float(sys.argv[4]))
