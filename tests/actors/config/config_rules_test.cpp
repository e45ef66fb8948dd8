// The rules between fields. Each case changes some settings of a valid run and expects one exact error line.
#include "actors/config/config.h"
#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

struct Rule {
  std::vector<std::string> overrides;
  std::string error;
};

std::string error_with(const std::vector<std::string>& overrides) {
  RunConfig config;
  for (const std::string& assignment : overrides) apply_override(config, assignment);
  try {
    validate(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

void check_all(const std::vector<Rule>& rules) {
  for (const Rule& rule : rules) {
    CAPTURE(rule.overrides);
    CHECK(error_with(rule.overrides) == rule.error);
  }
}

}  // namespace

TEST_CASE("validate: batches that are too small or too large for another setting are refused") {
  check_all({
      {{"trainer.minibatches=4096"},
       "trainer.minibatches: 4096 is more than the samples of trainer.super_batch 2048; use at most 2048"},
      {{"trainer.micro_batch=513"},
       "trainer.micro_batch: 513 is larger than a minibatch, which holds 512 samples (trainer.super_batch 2048 / "
       "trainer.minibatches 4); use at most 512, or 0 for the whole minibatch"},
      {{"trainer.super_batch=1", "trainer.minibatches=1", "rollout.length=1", "env.rows=1"},
       "trainer.super_batch: 1 leaves nothing to learn from with algorithm.normalize_advantages true; use at least 2"},
      {{"inference.batch_size=128", "inference.max_batch=100"},
       "inference.batch_size: 128 is above inference.max_batch 100; use at most 100, or raise inference.max_batch"},
      {{"env.rows=128", "inference.max_batch=100"},
       "env.rows: 128 sub-environments ask for up to 256 rows at once (each may need an action and the value of a "
       "final "
       "observation), above inference.max_batch 100; use at most 50, or raise inference.max_batch to at least 256"},
      {{"evaluation.rows=101", "evaluation.episodes=200", "inference.max_batch=100"},
       "evaluation.rows: 101 do not fit into one batch of inference.max_batch 100; use at most 100, or raise "
       "inference.max_batch"},
  });
  CHECK(error_with({"evaluation.rows=101", "evaluation.episodes=5", "inference.max_batch=100"}) == "");
}

// A suggested value must be within the range of its field, also if other values are extreme.
TEST_CASE("validate: values at the ends of the ranges get valid suggestions") {
  const std::string rows_at_once =
      " rows at once (each may need an action and the value of a final observation), above inference.max_batch ";
  check_all({
      {{"inference.max_batch=1", "inference.batch_size=1", "env.rows=1", "evaluation.rows=1"},
       "env.rows: 1 sub-environments ask for up to 2" + rows_at_once + "1; raise inference.max_batch to at least 2"},
      {{"inference.max_batch=1", "inference.batch_size=1"},
       "env.rows: 32 sub-environments ask for up to 64" + rows_at_once + "1; raise inference.max_batch to at least 64"},
      {{"inference.max_batch=1", "inference.batch_size=1", "env.rows=65536"},
       "env.rows: 65536 sub-environments ask for up to 131072" + rows_at_once +
           "1; use at most 1, with inference.max_batch 2"},
      {{"env.rows=65536", "inference.max_batch=65536"},
       "env.rows: 65536 sub-environments ask for up to 131072" + rows_at_once + "65536; use at most 32768"},
      {{"env.rows=32768", "inference.max_batch=65536", "rollout.length=65536", "trainer.super_batch=1000000000",
        "replay.max_policy_lag=1"},
       "trainer.super_batch: 1000000000 could never be filled: workers make whole rollouts of 2147483648 samples "
       "(rollout.length 65536 x env.rows 32768), and replay.max_policy_lag 1 lets them make at most 2000000000 in "
       "advance; use fewer env.rows, a smaller rollout.length or replay.max_policy_lag of at least 3"},
      {{"algorithm.kl_controller=adaptive", "algorithm.kl_coef=1", "algorithm.kl_horizon=0.1", "trainer.super_batch=32",
        "replay.max_policy_lag=100", "env.rows=1"},
       "algorithm.kl_horizon: 0.1 lets one update of up to 63 samples (trainer.super_batch 32 + rollout.length 32 - 1) "
       "turn the sign of kl_coef; use more than 12.6"},
      {{"stop.updates=1", "trainer.value_only_updates=1"},
       "trainer.value_only_updates: 1 leave the policy untrained: the run ends after at most 1 update (stop.env_steps "
       "500000, stop.updates 1); use at most 0"},
      {{"checkpoint.keep_best=2"},
       "checkpoint.keep_best: 2 has only the last policy to rank with evaluation.every_updates 0; set that, to 10 for "
       "example, or use 1"},
      {{"checkpoint.keep_best=2", "stop.updates=5", "evaluation.every_updates=6"},
       "checkpoint.keep_best: 2 has only the last policy to rank with evaluation.every_updates 6: the run ends after "
       "at most 5 updates (stop.env_steps 500000, stop.updates 5); use evaluation.every_updates of at most 5"},
  });
  CHECK(error_with({"stop.updates=1", "trainer.lr_warmup=1"}) == "");
  CHECK(error_with({"env.rows=32768", "inference.max_batch=65536", "rollout.length=65536",
                    "trainer.super_batch=1000000000", "replay.max_policy_lag=3", "stop.env_steps=1000000000"}) == "");
}

TEST_CASE("validate: an algorithm that the device of the trainer does not compute is refused") {
  for (const std::string device : {"cuda", "cuda:1"}) {
    CHECK(error_with({"algorithm.kl=full", "algorithm.kl_coef=0.1", "trainer.device=" + device}) ==
          "algorithm.kl: \"full\" is computed on the CPU only; use another estimate, like \"k3\", or trainer.device "
          "\"cpu\"");
    CHECK(error_with({"algorithm.kl=k1", "algorithm.kl_coef=0.1", "trainer.device=" + device}) == "");
  }
  CHECK(error_with({"algorithm.kl=full", "algorithm.kl_coef=0.1", "trainer.device=cpu"}) == "");
}

TEST_CASE("validate: super-batches that whole rollouts never fill are refused") {
  check_all({
      {{"trainer.super_batch=16"},
       "trainer.super_batch: 16 is less than one column of a rollout, rollout.length 32; use at least 32"},
      {{"replay.max_policy_lag=0", "trainer.super_batch=1500"},
       "trainer.super_batch: 1500 could never be filled: workers make whole rollouts of 1024 samples (rollout.length "
       "32 x env.rows 32), and replay.max_policy_lag 0 lets them make at most 1500 in advance; use a multiple of 1024, "
       "like 2048, or replay.max_policy_lag of at least 1"},
      {{"rollout.length=256"},
       "trainer.super_batch: 2048 could never be filled: workers make whole rollouts of 8192 samples (rollout.length "
       "256 x env.rows 32), and replay.max_policy_lag 1 lets them make at most 4096 in advance; use a multiple of "
       "8192, like 8192, or replay.max_policy_lag of at least 3"},
  });
  CHECK(error_with({"replay.max_policy_lag=0"}) == "");
  CHECK(error_with({"trainer.super_batch=1500"}) == "");
  CHECK(error_with({"rollout.length=256", "replay.max_policy_lag=3"}) == "");
}

TEST_CASE("validate: replay.capacity may be set to its default or more for a large lag cap") {
  CHECK(error_with({"replay.max_policy_lag=100", "replay.capacity=32768"}) == "");
  CHECK(error_with({"replay.max_policy_lag=100", "replay.capacity=65536"}) == "");
}

TEST_CASE("validate: replay.capacity and replay.max_policy_lag too small for super_batch and mode are refused") {
  check_all({
      {{"replay.capacity=2048"},
       "replay.capacity: 2048 is less than the 4096 samples of trainer.super_batch 2048 x (replay.max_policy_lag 1 + "
       "1); use "
       "at least 4096, or 0"},
      {{"replay.max_policy_lag=100", "replay.capacity=20000"},
       "replay.capacity: 20000 is less than the 32768 samples of trainer.super_batch 2048 x 16; use at least 32768, or "
       "0"},
      {{"replay.max_policy_lag=15", "replay.capacity=20000"},
       "replay.capacity: 20000 is less than the 32768 samples of trainer.super_batch 2048 x (replay.max_policy_lag 15 "
       "+ 1); use at least 32768, or 0"},
      {{"replay.mode=reuse", "replay.capacity=2000"},
       "replay.capacity: 2000 is less than the 2048 samples of trainer.super_batch 2048; use at least 2048, or 0"},
      {{"replay.mode=reuse", "replay.capacity=2049", "rollout.length=50", "replay.max_policy_lag=8"},
       "replay.capacity: 2049 holds too few whole rollouts of 1600 samples (rollout.length x env.rows) for "
       "trainer.super_batch "
       "2048; use at least 3200, or 0"},
      {{"replay.mode=reuse", "replay.max_policy_lag=0"},
       "replay.max_policy_lag: 0 lets no sample be used twice, but replay.mode is \"reuse\"; use at least 1"},
  });
  CHECK(error_with({"replay.capacity=4096"}) == "");
}

TEST_CASE("validate: algorithm settings that contradict each other are refused") {
  check_all({
      {{"algorithm.kl_controller=adaptive"},
       "algorithm.kl_coef: 0 stays 0 with algorithm.kl_controller \"adaptive\"; start above 0, like 0.1"},
      {{"algorithm.kl_controller=adaptive", "algorithm.kl_coef=0.1", "algorithm.kl_horizon=400"},
       "algorithm.kl_horizon: 400 lets one update of up to 2079 samples (trainer.super_batch 2048 + rollout.length 32 "
       "- 1) "
       "turn the sign of kl_coef; use more than 415.8"},
      {{"trainer.max_grad_norm=1e-300"},
       "trainer.max_grad_norm: 1e-300 leaves nothing of the gradients; use 0 (off) or at least 1e-06, like 0.5"},
      {{"trainer.policy_lr=0", "trainer.value_lr=0"},
       "trainer.policy_lr: 0 and trainer.value_lr 0 learn nothing; raise one"},
      {{"trainer.epochs=4", "trainer.value_epochs=3"},
       "trainer.value_epochs: 3 is less than trainer.epochs 4; use at least that, or 0 for as many"},
      {{"trainer.epochs=4", "trainer.value_epochs=5", "trainer.value_lr=0"},
       "trainer.value_epochs: 5 learn nothing with trainer.value_lr 0; raise that, or use 0"},
      {{"trainer.value_only_updates=3", "trainer.value_lr=0"},
       "trainer.value_only_updates: 3 learn nothing with trainer.value_lr 0; raise that, or use 0"},
      {{"trainer.value_only_updates=3", "algorithm.value_coef=0"},
       "trainer.value_only_updates: 3 learn nothing with algorithm.value_coef 0; raise that, or use 0"},
  });
}

TEST_CASE("validate: every shard needs a worker and a whole part of each update that could be one by itself") {
  check_all({
      {{"trainer.shards=3", "workers.count=3"},
       "trainer.super_batch: 2048 cannot be divided among trainer.shards 3; use a multiple, like 3072"},
      {{"trainer.shards=3", "workers.count=3", "rollout.length=16", "env.rows=5"},
       "trainer.super_batch: 2048 cannot be divided among trainer.shards 3; use a multiple, like 2160"},
      {{"trainer.shards=4", "workers.count=4", "replay.capacity=6146"},
       "replay.capacity: 6146 cannot be divided among trainer.shards 4; use a multiple, like 6148"},
      {{"trainer.shards=4", "workers.count=3"},
       "trainer.shards: 4 need a worker each, and workers.count is 3; use at most that, or more workers"},
      {{"trainer.shards=4", "workers.count=4", "trainer.minibatches=1024"},
       "trainer.shards: 4 leave each with trainer.super_batch 512, and then trainer.minibatches: 1024 is more than the "
       "samples of trainer.super_batch 512; use at most 512 (sizes are those of one shard)"},
  });
  CHECK(error_with({"trainer.shards=4", "workers.count=4"}) == "");
  CHECK(error_with({"trainer.shards=4", "workers.count=0"}) == "");
  CHECK(error_with({"trainer.shards=3", "workers.count=3", "trainer.super_batch=3072"}) == "");
}

TEST_CASE("validate: reward scales and clips that remove the signal are refused, their limits are accepted") {
  const std::string rewards = " to learn from; use 1e-06 to 1000000, like 1";
  check_all({
      {{"env.reward_scale=1e-7"}, "env.reward_scale: 1e-07 makes rewards too small" + rewards},
      {{"env.reward_scale=1e9"}, "env.reward_scale: 1000000000 makes rewards too large" + rewards},
      {{"model.normalize_observations=true", "model.observation_clip=0.005"},
       "model.observation_clip: 0.005 leaves nothing of the observations; use at least 0.01, like 10"},
  });
  for (const char* scale : {"env.reward_scale=1e-6", "env.reward_scale=1e6"}) CHECK(error_with({scale}) == "");
  CHECK(error_with({"model.normalize_observations=true", "model.observation_clip=0.01"}) == "");
  // eval and play read the config of an older run without these checks.
  const char* stored =
      R"({"env": {"reward_scale": 1e9}, "model": {"normalize_observations": true, "observation_clip": 0.005}})";
  CHECK_NOTHROW(parse_config(stored, "run.json"));
}

TEST_CASE("validate: a setting that another one switches off is refused") {
  check_all({
      {{"algorithm.huber_delta=0.5"},
       "algorithm.huber_delta: 0.5 has no effect with algorithm.value_loss \"l2\"; set algorithm.value_loss to "
       "\"huber\", or remove algorithm.huber_delta (default 1)"},
      {{"algorithm.aggregation_length=10"},
       "algorithm.aggregation_length: 10 has no effect with algorithm.aggregation \"auto\"; set algorithm.aggregation "
       "to \"seq-mean-token-sum-norm\", or remove algorithm.aggregation_length (default 0)"},
      {{"algorithm.kl=k1"},
       "algorithm.kl: \"k1\" has no effect with algorithm.kl_coef 0; set algorithm.kl_coef above 0, or remove "
       "algorithm.kl (default \"k3\")"},
      {{"algorithm.kl_target=1"},
       "algorithm.kl_target: 1 has no effect with algorithm.kl_controller \"fixed\"; set algorithm.kl_controller to "
       "\"adaptive\", use algorithm.target_kl (which ends epochs early), or remove algorithm.kl_target (default 0.01)"},
      {{"algorithm.kl_horizon=1"},
       "algorithm.kl_horizon: 1 has no effect with algorithm.kl_controller \"fixed\"; set algorithm.kl_controller to "
       "\"adaptive\", or remove algorithm.kl_horizon (default 100000)"},
      {{"model.log_std_end=-2"},
       "model.log_std_end: -2 has no effect with model.log_std \"state_independent\"; set model.log_std to "
       "\"scheduled\", or remove model.log_std_end (default -1)"},
      {{"algorithm.value_coef=0", "algorithm.value_clip=0.2"},
       "algorithm.value_clip: 0.2 has no effect with algorithm.value_coef 0; set algorithm.value_coef above 0, or "
       "remove algorithm.value_clip (default 0)"},
      {{"algorithm.value_coef=0", "trainer.value_lr=0.1"},
       "trainer.value_lr: 0.1 has no effect with algorithm.value_coef 0 and trainer.weight_decay 0; set "
       "algorithm.value_coef above 0 or trainer.weight_decay above 0, or remove trainer.value_lr (default 3e-04)"},
      {{"trainer.epochs=1", "algorithm.target_kl=0.1"},
       "algorithm.target_kl: 0.1 has no effect with trainer.epochs 1; set trainer.epochs to at least 2, or remove "
       "algorithm.target_kl (default 0)"},
      {{"model.hidden=[]", "model.activation=relu"},
       "model.activation: \"relu\" has no effect with model.hidden []; give model.hidden at least one layer, or remove "
       "model.activation (default \"tanh\")"},
      {{"model.hidden=[]", "model.shared_trunk=true"},
       "model.shared_trunk: true has no effect with model.hidden []; give model.hidden at least one layer, or remove "
       "model.shared_trunk (default false)"},
      {{"model.kind=net", "model.hidden=[8]"},
       "model.hidden: [8] has no effect with model.kind \"net\"; describe the layers in model.net, or remove "
       "model.hidden (default [64, 64])"},
      {{"model.kind=net", "model.shared_trunk=true"},
       "model.shared_trunk: true has no effect with model.kind \"net\", whose trunk is shared unless model.net has a "
       "value_trunk; set model.kind to \"mlp\", or remove model.shared_trunk (default false)"},
      {{"model.net.trunk=[8]"},
       "model.net: {\"trunk\":[8]} has no effect with model.kind \"mlp\"; set model.kind to \"net\", or remove "
       "model.net "
       "(default {})"},
      {{"workers.quarantine_after=1", "workers.restart_backoff_ms=5"},
       "workers.restart_backoff_ms: 5 has no effect with workers.quarantine_after 1; set workers.quarantine_after to "
       "at "
       "least 2, or remove workers.restart_backoff_ms (default 100)"},
      {{"model.observation_clip=5"},
       "model.observation_clip: 5 has no effect with model.normalize_observations false; set "
       "model.normalize_observations to true, or remove model.observation_clip (default 10)"},
      {{"replay.max_reuse=2"},
       "replay.max_reuse: 2 has no effect with replay.mode \"consume_once\"; set replay.mode to \"reuse\", or remove "
       "replay.max_reuse (default 4)"},
      {{"trainer.lr_schedule=constant", "trainer.lr_min_ratio=0.1"},
       "trainer.lr_min_ratio: 0.1 has no effect with trainer.lr_schedule \"constant\"; set trainer.lr_schedule to "
       "\"linear\", \"cosine\" or \"wsd\", or remove trainer.lr_min_ratio (default 0)"},
      {{"trainer.lr_schedule=cosine", "trainer.lr_stable_ratio=0.5"},
       "trainer.lr_stable_ratio: 0.5 has no effect with trainer.lr_schedule \"cosine\"; set trainer.lr_schedule to "
       "\"wsd\", or remove trainer.lr_stable_ratio (default 0.9)"},
  });
}

TEST_CASE("validate: runs that never end or end before they learn are refused") {
  check_all({
      {{"stop.env_steps=0"},
       "stop.env_steps: 0, with stop.updates 0 and stop.seconds 0, never ends the run; set one of them"},
      {{"stop.env_steps=2047"},
       "stop.env_steps: 2047 ends the run before its first update, trainer.super_batch 2048; use at least that many"},
      {{"stop.eval_return=-200"},
       "stop.eval_return: -200 is never looked at with evaluation.every_updates 0; set that, to 10 for example"},
      {{"stop.eval_return=100", "evaluation.every_updates=300"},
       "stop.eval_return: 100 is never looked at with evaluation.every_updates 300: the run ends after at most 244 "
       "updates (stop.env_steps 500000, stop.updates 0); use evaluation.every_updates of at most 244"},
      {{"trainer.value_only_updates=20", "stop.updates=20"},
       "trainer.value_only_updates: 20 leave the policy untrained: the run ends after at most 20 updates "
       "(stop.env_steps 500000, stop.updates 20); use at most 19"},
      {{"trainer.lr_warmup=250"},
       "trainer.lr_warmup: 250 updates never reach the learning rate: the run ends after at most 244 updates "
       "(stop.env_steps 500000, stop.updates 0); use at most 244"},
      {{"trainer.lr_warmup=20", "trainer.value_only_updates=5", "stop.updates=20"},
       "trainer.lr_warmup: 20 updates never reach the learning rate: the run ends after at most 20 updates "
       "(stop.env_steps 500000, stop.updates 20), and the policy learns after trainer.value_only_updates 5; "
       "use at most 15"},
  });
  CHECK(error_with({"trainer.lr_warmup=15", "trainer.value_only_updates=5", "stop.updates=20"}) == "");
  CHECK(error_with({"stop.env_steps=0", "stop.seconds=5"}) == "");
  CHECK(error_with({"stop.env_steps=2048"}) == "");
}

TEST_CASE("validate: settings that a deterministic run excludes are refused") {
  check_all({
      {{"deterministic=true", "trainer.device=cuda"},
       "trainer.device: \"cuda\" cannot go with deterministic true; use \"cpu\""},
      {{"deterministic=true", "inference.device=cuda:1"},
       "inference.device: \"cuda:1\" cannot go with deterministic true; use \"auto\" or \"cpu\""},
      {{"deterministic=true", "evaluation.device=cuda"},
       "evaluation.device: \"cuda\" cannot go with deterministic true; use \"auto\" or \"cpu\""},
      {{"deterministic=true", "stop.seconds=5"},
       "stop.seconds: 5 cannot go with deterministic true; use stop.env_steps or stop.updates"},
      {{"deterministic=true", "workers.count=0"}, "workers.count: 0 cannot go with deterministic true; use at least 1"},
      {{"deterministic=true", "inference.count=0"},
       "inference.count: 0 cannot go with deterministic true; use at least 1"},
      {{"deterministic=true", "trainer.threads=2"}, "trainer.threads: 2 cannot go with deterministic true; use 1"},
      {{"deterministic=true", "inference.threads=4"}, "inference.threads: 4 cannot go with deterministic true; use 1"},
      {{"stats.every_updates=1"},
       "stats.every_updates: 1 has no effect with deterministic false; use stats.interval_ms, or remove "
       "stats.every_updates (default 10)"},
  });
  CHECK(error_with({"deterministic=true", "stats.every_updates=1"}) == "");
}

TEST_CASE(
    "validate: weights over NCCL without a GPU of the trainer, and none where others have to serve, are refused") {
  check_all({
      {{"network.weights=nccl"},
       "network.weights: \"nccl\" sends from the GPU of the trainer, but trainer.device is \"cpu\"; use \"gloo\", or a "
       "GPU as trainer.device"},
      {{"network.backend=nccl"},
       "network.backend: \"nccl\" exchanges gradients between the GPUs of the ranks, but trainer.device is \"cpu\"; "
       "use "
       "\"gloo\", or a GPU as trainer.device"},
      {{"network.weights=in_process", "inference.count=0"},
       "network.weights: \"in_process\" lets no other process answer workers, and inference.count 0 none of the "
       "trainer's; use \"gloo\", or at least 1 as inference.count"},
  });
  CHECK(error_with({"network.weights=nccl", "trainer.device=cuda:1"}) == "");
  CHECK(error_with({"network.weights=nccl", "deterministic=true"}) == "");
  CHECK(error_with({"network.backend=nccl", "trainer.device=cuda:1"}) == "");
  CHECK(error_with({"network.backend=nccl", "deterministic=true"}) == "");
  CHECK(error_with({"network.backend=gloo"}) == "");
  CHECK(error_with({"network.weights=in_process"}) == "");
  CHECK(error_with({"network.weights=gloo", "inference.count=0"}) == "");
}

TEST_CASE("validate: a peer timeout below two heartbeats is refused") {
  check_all({{{"network.heartbeat_ms=3000"},
              "network.peer_timeout_ms: 5000 is less than two of network.heartbeat_ms 3000, one late heartbeat "
              "would disconnect a peer; use at least 6000"}});
}
