#include "models/learning/trainer_config.h"

#include "models/devices.h"

namespace troupe {
namespace {

// Language models have values that they learn only with a critic.
constexpr Need kWithCritic = {.condition = is("model.critic", kWords<"shared", "separate">), .when = kTokenRuns};
// A run may be resumed on one rank and later on several again.
constexpr Need kWithRanks = {.condition = is_above("trainer.ranks", 1), .refused = false};

}  // namespace

// Optimizers compute with float32: a larger decay would become 1 there.
constexpr double kLargestDecay = 0.9999999;

void describe(TrainerConfig& c, Fields& fields) {
  const Section s(fields, "trainer", "models/learning");
  s.add(c.super_batch, "super_batch", between(1, 1e9),
        "fewest samples (token runs: answers) of one update; with replay.draw column an update takes whole columns of "
        "rollouts and so may use up to rollout.length - 1 more",
        {.elsewhere = kWords<"train_batch_size">, .change = Change::before_first_update});
  s.add(c.shards, "shards", between(1, kMostShards),
        "parts of equal size that an update consists of: each has its own workers, stored samples and order of "
        "minibatches. Statistics, whitening and gradients are of all shards; gradients are added up in a fixed order",
        {.change = Change::before_first_update});
  s.add(c.ranks, "ranks", between(1, kMostShards),
        "trainers that compute the shards of each update, each some of them. They change nothing of the result",
        {.change = Change::at_resume});
  s.add(c.zero, "zero", between(0, 2),
        "1: each of several ranks keeps the optimizer's moments of its part of the parameters alone, trains that part, "
        "and sends it to the others (ZeRO, stage 1); 2: it also frees the gradients of the other parts when it has "
        "sent them (stage 2), on the CPU. It changes nothing of the result",
        {.change = Change::at_resume, .needs = {kWithRanks}});
  s.add(c.redundancy, "redundancy", one_of(kWords<"none", "neighbour">),
        "what happens when a rank is lost whose part of the moments no other rank has. none: the run ends, and resumes "
        "from its last checkpoint; neighbour: each rank keeps a copy of the next one's moments, and the run goes on "
        "unless two are lost that follow each other",
        {.change = Change::at_resume,
         .needs = {kWithRanks,
                   {.condition = is_above("trainer.zero", 0)},
                   {.condition = is_false("deterministic"), .refused = false}}});
  s.add(
      c.bucket_bytes, "bucket_bytes", between(64, 1 << 30),
      "several ranks exchange gradients in buckets of so many bytes, each as soon as the backward pass has completed "
      "it. It changes nothing of the result",
      {.elsewhere = kWords<"bucket_cap_mb", "reduce_bucket_size">, .change = Change::at_resume, .needs = {kWithRanks}});
  s.add(c.minibatches, "minibatches", between(1, 1e6), "optimizer steps per epoch",
        {.elsewhere = kWords<"num_minibatches">, .change = Change::before_first_update});
  s.add(c.micro_batch, "micro_batch", between(0, 1e9),
        "samples per forward and backward pass within a minibatch; 0 = the whole minibatch",
        {.needs = {kOnlyControlRuns}});
  s.add(c.micro_batch_tokens, "micro_batch_tokens", between(0, 1e9),
        "most tokens of one forward and backward pass within a minibatch, each prompt counted once; 0 = as "
        "many as fit into 128 MiB of activations, or half of the model's size if that is more",
        {.elsewhere = kWords<"ppo_max_token_len_per_gpu", "max_token_len_per_gpu", "max_tokens_per_gpu">,
         .change = Change::at_resume_unless_deterministic,
         .needs = {kOnlyTokenRuns}});
  s.add(c.recompute, "recompute", one_of(kWords<"auto", "on", "off">),
        "compute the layers again in the backward pass instead of keeping their activations; auto: where "
        "those of a micro-batch would not fit into the memory that trainer.micro_batch_tokens 0 allows. The gradients "
        "have the same bits",
        {.elsewhere = kWords<"gradient_checkpointing", "enable_gradient_checkpointing">,
         .change = Change::at_resume,
         .needs = {kOnlyTokenRuns}});
  s.add(c.epochs, "epochs", between(1, 1000), "passes over the super-batch per update",
        {.elsewhere = kWords<"update_epochs", "n_epochs", "num_sgd_iter">, .change = Change::before_first_update});
  s.add(c.value_epochs, "value_epochs", between(0, 1000),
        "passes over the super-batch per update that train the value function: the first trainer.epochs of them train "
        "the policy with it, the others the value function alone; 0 = trainer.epochs",
        {.elsewhere = kWords<"critic.ppo_epochs">, .change = Change::before_first_update, .needs = {kWithCritic}});
  s.add(c.policy_lr, "policy_lr", between(0, 10), "learning rate of the policy",
        {.elsewhere = kWords<"learning_rate", "lr">, .change = Change::before_first_update});
  s.add(c.value_lr, "value_lr", between(0, 10), "learning rate of the value function",
        {.elsewhere = kWords<"learning_rate", "lr">,
         .change = Change::before_first_update,
         .needs = {{.condition = is_above("algorithm.value_coef", 0), .other = is_above("trainer.weight_decay", 0)},
                   kWithCritic}});
  s.add(c.lr_schedule, "lr_schedule", one_of(kWords<"constant", "linear", "cosine", "wsd">),
        "course of the learning rate over the run, which ends at the first of stop.env_steps, stop.updates and "
        "stop.seconds; wsd: at its peak for the fraction lr_stable_ratio of the run, then cosine",
        {.elsewhere = kWords<"anneal_lr">, .change = Change::before_first_update});
  s.add(c.lr_min_ratio, "lr_min_ratio", between(0, 1), "learning rate at the end of the run, as a fraction of the peak",
        {.change = Change::before_first_update,
         .needs = {{.condition = is("trainer.lr_schedule", kWords<"linear", "cosine", "wsd">)}}});
  s.add(c.lr_stable_ratio, "lr_stable_ratio", between(0, 1), "fraction of the run at the peak learning rate",
        {.change = Change::before_first_update, .needs = {{.condition = is("trainer.lr_schedule", kWords<"wsd">)}}});
  s.add(
      c.lr_warmup, "lr_warmup", between(0, kMostCount),
      "updates over which the learning rate rises: the k-th has k / lr_warmup of it, and for the policy the k-th after "
      "trainer.value_only_updates; 0 = no warm-up. The schedule falls during it too, and both are multiplied: "
      "with linear or cosine and a warm-up of several updates, none has the whole rate",
      {.change = Change::before_first_update});
  s.add(c.adam_beta1, "adam_beta1", between(0, kLargestDecay), "decay of Adam's first moment");
  s.add(c.adam_beta2, "adam_beta2", between(0, kLargestDecay), "decay of Adam's second moment");
  s.add(c.adam_epsilon, "adam_epsilon", between(1e-30, 1), "added to Adam's denominator");
  s.add(c.weight_decay, "weight_decay", between(0, 10), "decoupled weight decay");
  s.add(c.max_grad_norm, "max_grad_norm", between(0, 1e9),
        "gradients with a larger norm are scaled down to this norm; 0 = off");
  s.add(c.value_only_updates, "value_only_updates", between(0, kMostCount),
        "updates at the beginning of the run that train the value function only",
        {.change = Change::before_first_update, .needs = {kWithCritic}});
  s.add(c.max_skipped, "max_skipped", between(1, 1e6),
        "the run fails after this many updates in a row that skip every optimizer step because it is not finite",
        {.change = Change::at_resume});
  s.add(c.threads, "threads", between(1, 1024), "CPU threads of one optimizer step", {.change = Change::at_resume});
  s.add(c.device, "device", device_name(), "device that the trainer computes on", {.change = Change::at_resume});
}

}  // namespace troupe
