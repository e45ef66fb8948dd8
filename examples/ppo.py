"""PPO on Gymnasium's CartPole in one file of PyTorch. Advantages and losses are written with torch operations, or come from
troupe.algorithms. Both learn the same; docs/performance.md compares their speed.

    pip install ./python torch gymnasium
    python3 examples/ppo.py --parts torch
    python3 examples/ppo.py --parts troupe

It prints the mean return of the episodes that ended in each iteration. At the end it prints the seconds spent in each part.
"""

import argparse
import json
import time

try:
    import gymnasium
    import numpy as np
    import torch
    from torch import nn

    missing = None
except ModuleNotFoundError as error:  # --help works without these modules
    missing = error.name

try:
    import troupe.algorithms as ta
except ImportError:  # --parts torch works without it
    ta = None

GAMMA, LAMBDA, CLIP, VALUE_COEF, ENTROPY_COEF = 0.98, 0.9, 0.2, 0.5, 0.0


# ---- the parts, with torch ----


def torch_gae(rewards, values, terminated, truncated, next_values):
    """GAE as a loop over time. All arrays are [T, B]."""
    advantages = torch.zeros_like(rewards)
    carry = torch.zeros_like(rewards[0])
    for t in reversed(range(rewards.shape[0])):
        delta = rewards[t] + GAMMA * next_values[t] * ~terminated[t] - values[t]
        carry = delta + GAMMA * LAMBDA * carry * ~(terminated[t] | truncated[t])
        advantages[t] = carry
    return advantages, advantages + values


def torch_loss(logp, old_logp, advantages, values, returns, mask):
    kept = mask.sum()
    advantages = (advantages - advantages[mask].mean()) / (advantages[mask].std() + 1e-8)
    ratio = torch.exp(logp - old_logp)
    policy = torch.maximum(-advantages * ratio, -advantages * ratio.clamp(1 - CLIP, 1 + CLIP))
    return (policy * mask).sum() / kept, (0.5 * (values - returns) ** 2 * mask).sum() / kept


# ---- the same with troupe ----


def troupe_gae(rewards, values, terminated, truncated, next_values):
    return ta.gae(
        rewards,
        values,
        gamma=GAMMA,
        lam=LAMBDA,
        terminated=terminated,
        truncated=truncated,
        next_values=next_values,
        layout="TB",
    )


def troupe_loss(logp, old_logp, advantages, values, returns, mask):
    advantages = ta.whiten(advantages, mask)
    policy, _ = ta.policy_loss("clip", logp, old_logp, advantages, mask, clip_ratio=CLIP)
    value, _ = ta.value_loss(values, returns, mask)
    return policy, value


# ---- the rest of PPO ----


def mlp(inputs, outputs, gain):
    layers = [nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)]
    for layer, scale in zip(layers[::2], (2**0.5, 2**0.5, gain), strict=True):
        nn.init.orthogonal_(layer.weight, scale)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


class Clock:
    """Seconds spent per part."""

    def __init__(self):
        self.seconds, self.last = {}, time.perf_counter()

    def lap(self, part):
        now = time.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self.last
        self.last = now


def main():
    parser = argparse.ArgumentParser(description="PPO on CartPole-v1")
    parser.add_argument("--parts", choices=("torch", "troupe"), default="troupe")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=32, help="number of environments")
    parser.add_argument("--steps", type=int, default=128, help="steps of each environment per iteration")
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--json", help="write the curve and the seconds to this file, too")
    args = parser.parse_args()
    if missing:
        parser.error(f"the module {missing} is missing: pip install torch gymnasium")
    if args.parts == "troupe" and ta is None:
        parser.error("--parts troupe needs the package: pip install ./python")
    gae, loss_of = (torch_gae, torch_loss) if args.parts == "torch" else (troupe_gae, troupe_loss)

    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    envs = gymnasium.make_vec("CartPole-v1", num_envs=args.rows, vectorization_mode="vector_entry_point")
    policy, value = mlp(4, 2, 0.01), mlp(4, 1, 1.0)
    optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=1e-3, eps=1e-5)

    shape = (args.steps, args.rows)
    obs, next_obs = torch.zeros(*shape, 4), torch.zeros(*shape, 4)
    actions, old_logp = torch.zeros(shape, dtype=torch.long), torch.zeros(shape)
    rewards, terminated, truncated, valid = (torch.zeros(shape, dtype=d) for d in (torch.float, *[torch.bool] * 3))
    current, started = torch.from_numpy(envs.reset(seed=args.seed)[0]), np.zeros(args.rows, dtype=bool)
    episode_return, curve, clock = np.zeros(args.rows), [], Clock()

    for _ in range(args.iterations):
        finished = []
        for t in range(args.steps):
            with torch.no_grad():
                pi = torch.distributions.Categorical(logits=policy(current))
                action = pi.sample()
            obs[t], actions[t], old_logp[t] = current, action, pi.log_prob(action)
            # In the step after the end of an episode, Gymnasium ignores the action and resets. Such a step is not trained on.
            valid[t] = torch.from_numpy(~started)
            step_obs, reward, ended, cut, _ = envs.step(action.numpy())
            episode_return = np.where(started, 0.0, episode_return + reward)
            started = ended | cut
            finished.extend(episode_return[started])
            current = torch.from_numpy(step_obs)
            next_obs[t], rewards[t] = current, torch.from_numpy(np.asarray(reward, dtype=np.float32))
            terminated[t], truncated[t] = torch.from_numpy(ended), torch.from_numpy(cut)
        curve.append(float(np.mean(finished)) if finished else float("nan"))
        clock.lap("sampling")

        with torch.no_grad():
            values, next_values = value(obs).squeeze(-1), value(next_obs).squeeze(-1)
        clock.lap("values")
        advantages, returns = gae(rewards, values, terminated, truncated, next_values)
        clock.lap("gae")

        flat = [x.flatten(0, 1) for x in (obs, actions, old_logp, advantages, returns, valid)]
        for _ in range(4):
            for rows in torch.randperm(args.steps * args.rows).chunk(4):
                o, a, lp, adv, ret, mask = (x[rows] for x in flat)
                pi = torch.distributions.Categorical(logits=policy(o))
                logp, v, entropy = pi.log_prob(a), value(o).squeeze(-1), pi.entropy().mean()
                clock.lap("networks")
                policy_loss, value_loss = loss_of(logp, lp, adv, v, ret, mask)
                clock.lap("losses")
                optimizer.zero_grad()
                (policy_loss + VALUE_COEF * value_loss - ENTROPY_COEF * entropy).backward()
                nn.utils.clip_grad_norm_([*policy.parameters(), *value.parameters()], 0.5)
                optimizer.step()
                clock.lap("backward and step")
        print(f"{len(curve):3d}  return {curve[-1]:6.1f}", flush=True)

    print(" ".join(f"{part} {seconds:.2f} s" for part, seconds in clock.seconds.items()))
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"curve": curve, "seconds": clock.seconds}, file)


if __name__ == "__main__":
    main()
