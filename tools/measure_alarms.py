#!/usr/bin/env python3
"""Makes runs ill in six ways and prints after how many updates an alarm says so; and how many healthy runs raise a false error.

  tools/measure_alarms.py                       20 ill runs and 100 healthy ones
  tools/measure_alarms.py --only nan receiver   these alone
  tools/measure_alarms.py --healthy 10          fewer healthy runs

Each run trains CartPole with the settings of configs/cartpole.json. Ill from the start:
  learning_rate   100 times the learning rate
  entropy         the same, which ends all exploration: only an alarm that says so counts
After 40 healthy updates:
  nan             rewards of 3e38, so that losses are not finite
  reward          the environment turns the sign of its rewards
  normaliser      each environment gives one observation of 1e8, after which the statistics see no difference between others
  receiver        an inference process stops (SIGSTOP)
An alarm counts if it is one of those that fit, and is raised within 30 updates. A healthy run raises a false error if an alarm of the level
error is in its log. Exits with 1 if an illness is not noticed, or if more than 1 of 100 healthy runs raises an error. NumPy is needed, and
a built program.
"""

import argparse
import contextlib
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEALTHY_UPDATES, WITHIN = 40, 30
LIMIT = 300  # seconds that one run may take
ILL = "TROUPE_ILL"  # the file whose existence makes environments ill

JUMPS = {"kl_high", "kl_extreme", "clip_high", "dead_gradients", "ess_low", "entropy_low", "entropy_dead", "return_drop", "return_collapse"}
NOTICED_BY = {
    "learning_rate": JUMPS,
    "nan": {"non_finite", "steps_skipped"},
    "reward": {"return_drop", "return_collapse", "value_useless", "values_off"},
    "normaliser": JUMPS | {"value_useless"},
    "entropy": {"entropy_low", "entropy_dead"},
    "receiver": {"receiver_behind"},
}
RUNS = {"learning_rate": 4, "nan": 3, "reward": 4, "normaliser": 3, "entropy": 3, "receiver": 3}
BEGUN_WITH = {"learning_rate": ["trainer.policy_lr=0.1"], "entropy": ["trainer.policy_lr=0.1"]}
MADE_ILL = ("nan", "reward", "normaliser")


class Box:
    def __init__(self):
        import numpy

        self.shape, self.dtype = (4,), numpy.dtype(numpy.float32)
        self.low, self.high = numpy.full(4, -math.inf), numpy.full(4, math.inf)


class Discrete:
    n, start = 2, 0


class IllCartPole:
    """A pole on a cart (Barto, Sutton, Anderson 1983), which is ill once the file exists that the environment variable names."""

    def __init__(self, illness=""):
        import numpy

        self.observation_space, self.action_space = Box(), Discrete()
        self.illness, self.file, self.ill, self.steps, self.shown = illness, os.environ.get(ILL, ""), False, 0, False
        self.array, self.random = numpy.array, numpy.random.default_rng()

    def observation(self):
        if self.ill and self.illness == "normaliser" and not self.shown:
            self.shown = True
            return self.array([1e8] * 4, dtype="float32")
        return self.array(self.state, dtype="float32")

    def reset(self, seed=None, options=None):
        import numpy

        if seed is not None:
            self.random = numpy.random.default_rng(seed)
        self.state, self.time = [float(x) for x in self.random.uniform(-0.05, 0.05, 4)], 0
        return self.observation(), {}

    def step(self, action):
        self.steps += 1
        if not self.ill and self.file and self.steps % 8 == 0:
            self.ill = os.path.exists(self.file)
        x, speed, angle, turning = self.state
        force = 10.0 if action == 1 else -10.0
        cos, sin = math.cos(angle), math.sin(angle)
        push = (force + 0.05 * turning * turning * sin) / 1.1
        turn = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))
        move = push - 0.05 * turn * cos / 1.1
        self.state = [x + 0.02 * speed, speed + 0.02 * move, angle + 0.02 * turning, turning + 0.02 * turn]
        self.time += 1
        fallen = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 12 * math.pi / 180
        reward = 1.0
        if self.ill:
            reward = {"reward": -1.0, "nan": 3e38}.get(self.illness, 1.0)
        return self.observation(), reward, fallen, self.time >= 500, {}


class Ended(RuntimeError):
    """The run has ended, or takes too long."""


class Run:
    """One run folder and the process that trains in it."""

    def __init__(self, program, folder, seed, settings):
        self.program, self.folder, self.seed, self.settings = program, folder, seed, settings
        self.process = None

    def start(self, *more, updates, environment=None):
        words = [self.program, "train", "cartpole", "--run", str(self.folder), "--seed", str(self.seed)]
        for setting in [*self.settings, f"stop.updates={updates}", "stop.env_steps=0", *more]:
            words += ["--set", setting]
        with open(self.folder.with_suffix(".out"), "a") as output:
            self.process = subprocess.Popen(words, stdout=output, stderr=output, env={**os.environ, **(environment or {})})

    def end(self):
        try:
            self.process.wait(LIMIT)
        finally:
            self.kill()
        if self.process.returncode != 0:
            raise RuntimeError(self.folder.with_suffix(".out").read_text()[-2000:])

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(LIMIT)

    def updates(self):
        """Of the newest report of the run; 0 before the first."""
        try:
            address = json.loads((self.folder / "endpoints.json").read_text())["stats"]
            with urllib.request.urlopen(f"http://{address}/stats", timeout=10) as reply:
                stats = json.loads(reply.read())["stats"]
            return stats["updates"] if stats else 0
        except (OSError, ValueError, KeyError):
            return 0

    def wait_for(self, updates):
        """Waits for so many updates. Returns how many there are."""
        deadline = time.monotonic() + LIMIT
        while (made := self.updates()) < updates:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Ended(self.folder.with_suffix(".out").read_text()[-2000:])
            time.sleep(0.05)
        return made

    def alarms(self):
        """Name, level and update of each alarm that the log has."""
        log = (self.folder / "log.txt").read_text()
        return [(name, level, int(update)) for name, level, update in re.findall(r"alarm (\w+) \((\w+)\) at update (\d+)", log)]


def make_ill(illness, program, folder, seed):
    """Trains a run and makes it ill. Returns the run and the update at which that was."""
    if illness in BEGUN_WITH:
        run = Run(program, folder / "run", seed, BEGUN_WITH[illness])
        run.start(updates=2 * WITHIN)
        run.end()
        return run, 0
    if illness in MADE_ILL:
        file = folder / "ill"
        environment = f"env.id=py:{pathlib.Path(__file__).resolve()}:IllCartPole"
        run = Run(program, folder / "run", seed, [environment, f'env.params={{"illness": "{illness}"}}'])
        run.settings += [f"env.python={sys.executable}", "model.normalize_observations=true", "evaluation.episodes=1"]
        run.start(updates=10**6, environment={ILL: str(file)})
        try:
            at = run.wait_for(HEALTHY_UPDATES)
            file.touch()
            with contextlib.suppress(Ended):  # as a run does whose updates are not finite
                run.wait_for(at + 2 * WITHIN)
        finally:
            run.kill()
        return run, at
    run = Run(program, folder / "run", seed, ["trainer.epochs=1"])
    run.start(updates=10**6)
    joined = None
    try:
        run.wait_for(1)
        address = json.loads((run.folder / "endpoints.json").read_text())["workers"]
        joined = subprocess.Popen([program, "inference", "--connect", address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + LIMIT
        while " serves" not in (run.folder / "log.txt").read_text():
            if time.monotonic() > deadline:
                raise RuntimeError("the inference process does not serve")
            time.sleep(0.05)
        at = run.wait_for(run.updates() + HEALTHY_UPDATES)
        joined.send_signal(signal.SIGSTOP)
        run.wait_for(at + 2 * WITHIN)
    finally:
        if joined is not None:
            joined.kill()
            joined.wait()
        run.kill()
    return run, at


def measure_illness(illness, program, seed):
    """After how many updates a fitting alarm was raised; None if none was within twice the time."""
    with tempfile.TemporaryDirectory() as folder:
        run, at = make_ill(illness, program, pathlib.Path(folder), seed)
        fitting = [(update - at, name) for name, _, update in run.alarms() if name in NOTICED_BY[illness] and update >= at]
        return min(fitting, default=None)


def measure_healthy(program, seed):
    """The names of the alarms of the level error in a whole run of configs/cartpole.json."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(program, pathlib.Path(folder) / "run", seed, [])
        run.settings = ["evaluation.episodes=1"]
        run.start(updates=244)
        run.end()
        return [name for name, level, _ in run.alarms() if level == "error"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", help="folder with the built program")
    parser.add_argument("--only", nargs="+", choices=list(RUNS), default=list(RUNS))
    parser.add_argument("--healthy", type=int, default=100, help="number of healthy runs")
    options = parser.parse_args()
    program = str((ROOT / options.build).resolve() / "troupe") if not os.path.isabs(options.build) else options.build + "/troupe"
    noticed = made = false_errors = 0
    for illness in options.only:
        for seed in range(1, RUNS[illness] + 1):
            found = measure_illness(illness, program, seed)
            late = found is None or found[0] > WITHIN
            made, noticed = made + 1, noticed + (not late)
            print(f"{illness}, seed {seed}: " + (f"{found[1]} after {found[0]} updates" if found else "no alarm"), flush=True)
    for seed in range(1, options.healthy + 1):
        errors = measure_healthy(program, seed)
        false_errors += bool(errors)
        if errors:
            print(f"healthy, seed {seed}: {', '.join(errors)}", flush=True)
    print(f"{noticed} of {made} illnesses were noticed within {WITHIN} updates")
    print(f"{false_errors} of {options.healthy} healthy runs raised an error")
    sys.exit(noticed < made or 100 * false_errors > options.healthy)


if __name__ == "__main__":
    main()
