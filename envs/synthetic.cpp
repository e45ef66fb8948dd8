#include "envs/synthetic.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <stdexcept>
#include <thread>

namespace troupe {

namespace {

constexpr uint32_t kFrames = 1024;  // distinct images

void pass_time(std::chrono::microseconds time, bool busy) {
  if (!busy) {
    std::this_thread::sleep_for(time);
    return;
  }
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

}  // namespace

Synthetic::Options Synthetic::Options::read(EnvParams& params) {
  Options options;
  options.image_height = static_cast<int32_t>(params.integer("image_height", 224, 1, 4096, "pixels"));
  options.image_width = static_cast<int32_t>(params.integer("image_width", 224, 1, 4096, "pixels"));
  options.action_dims = static_cast<int32_t>(params.integer("action_dims", 7, 1, 256, "dimensions of an action"));
  options.episode_length =
      static_cast<int32_t>(params.integer("episode_length", 100, 1, 1'000'000, "steps of an episode"));
  options.step_us = params.integer("step_us", 0, 0, 60'000'000, "duration of a step in microseconds");
  options.busy = params.choice("step_mode", "busy", {"busy", "sleep"},
                               "whether a step computes (busy) or sleeps for its duration") == "busy";
  options.exception_probability =
      params.number("exception_probability", 0.0, 0.0, 1.0, "probability that a step throws");
  options.stall_probability =
      params.number("stall_probability", 0.0, 0.0, 1.0, "probability that a step takes stall_ms longer");
  options.stall_ms = params.integer("stall_ms", 100, 0, 3'600'000, "extra duration of a stalled step in milliseconds");
  options.nan_probability = params.number("nan_probability", 0.0, 0.0, 1.0,
                                          "probability that a step returns NaN, in the reward or in the observation");
  options.pattern.resize(options.image_bytes() + kFrames);
  Rng rng(derive_key(0, "synthetic"));
  for (uint8_t& byte : options.pattern) byte = static_cast<uint8_t>(rng.next_u32());
  return options;
}

EnvSpec Synthetic::spec(const Options& options) {
  EnvSpec spec;
  spec.observations = {{"image", DType::u8, {3, options.image_height, options.image_width}},
                       {"state", DType::f32, {static_cast<int64_t>(kNumbers)}}};
  spec.action.kind = ActionKind::continuous;
  spec.action.low.assign(static_cast<size_t>(options.action_dims), -1.0f);
  spec.action.high.assign(static_cast<size_t>(options.action_dims), 1.0f);
  spec.max_episode_steps = options.episode_length;
  spec.blocks = (options.step_us > 0 && !options.busy) || (options.stall_probability > 0 && options.stall_ms > 0);
  return spec;
}

void Synthetic::reset(Rng& rng) {
  state.frame = static_cast<uint32_t>(rng.below(kFrames));
  state.broken = 0;
  for (float& number : state.numbers) number = rng.uniform(-1.0f, 1.0f);
}

RowStep Synthetic::step(std::span<const float> action, Rng& rng) {
  if (options_->step_us > 0) pass_time(std::chrono::microseconds(options_->step_us), options_->busy);
  const double exception = rng.uniform_double(), stall = rng.uniform_double(), nan = rng.uniform_double();
  if (exception < options_->exception_probability) throw std::runtime_error("synthetic: injected exception");
  if (stall < options_->stall_probability) pass_time(std::chrono::milliseconds(options_->stall_ms), false);
  float error = 0;
  for (size_t a = 0; a < action.size(); ++a) {
    const float miss = action[a] - state.numbers[a % kNumbers];
    error += miss * miss / static_cast<float>(action.size());
  }
  for (float& number : state.numbers) number = std::clamp(number + rng.uniform(-0.1f, 0.1f), -1.0f, 1.0f);
  state.frame = (state.frame + 1) % kFrames;
  const bool broken = nan < options_->nan_probability;
  state.broken = broken && rng.below(2) == 0;
  return {.reward = broken && state.broken == 0 ? std::numeric_limits<float>::quiet_NaN() : -error};
}

void Synthetic::observe(RowWriter out) const {
  const std::span<uint8_t> image = out.array<uint8_t>(0);
  std::copy_n(options_->pattern.begin() + state.frame, image.size(), image.begin());
  const std::span<float> numbers = out.array<float>(1);
  std::copy(state.numbers.begin(), state.numbers.end(), numbers.begin());
  if (state.broken != 0) numbers[0] = std::numeric_limits<float>::quiet_NaN();
}

template class Batched<Synthetic>;

}  // namespace troupe
